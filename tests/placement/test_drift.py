"""On drifting data kept rows follow what is popular; the larger version is benchmarks/drift.py."""

import importlib.util
import sys
from pathlib import Path

import pytest

from slipstream import Dataset, Recipe, synthesize

FILE = Path(__file__).parents[2] / "benchmarks" / "drift.py"


@pytest.fixture
def benchmark(monkeypatch):
    found = importlib.util.spec_from_file_location("benchmark_of_drift", FILE)
    module = importlib.util.module_from_spec(found)
    monkeypatch.setitem(sys.modules, "benchmark_of_drift", module)
    found.loader.exec_module(module)
    return module


@pytest.mark.parametrize("drift", ["popularity=gradual", "popularity=sudden@0.5"])
def test_kept_rows_do_as_well_as_sets_recomputed_every_twentieth(drift, benchmark, tmp_path):
    recipe = Recipe(rows=60_000, drift=drift)
    dataset = Dataset.open(synthesize(recipe, tmp_path / "data"))
    for name in benchmark.STRATEGIES:
        hits = benchmark.hit_rates(dataset, benchmark.settings(name, 32, "20%"))
        assert hits.best > 0.3, "rows are kept at all"
        assert hits.reached > hits.before - benchmark.POINTS, (name, hits)
