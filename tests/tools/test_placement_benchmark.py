"""The benchmark of placement: its bounds are right, and it compares its figures with goals."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiered_plans import skewed

from slipstream.tables.spec import Feature, Layout, TableSpec

FOLDER = Path(__file__).parents[2] / "benchmarks"
LAYOUT = Layout((TableSpec("a", 9, 2),), (Feature("a", "a"),))


@pytest.fixture(scope="module")
def benchmark():
    sys.path.insert(0, str(FOLDER))
    name = "benchmark_of_placement"
    spec = importlib.util.spec_from_file_location(name, FOLDER / "placement.py")
    sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules[name])
    yield sys.modules.pop(name)
    sys.path.remove(str(FOLDER))


def fewest(needs, slots, inside) -> int:
    """Misses of the best choices, by trying every one; a row may leave after any batch."""
    states = {frozenset(inside): 0}
    for rows in needs:
        after: dict[frozenset, int] = {}
        for state, misses in states.items():
            misses += len(rows - state)
            candidates = [state | rows]
            while candidates:
                candidate = candidates.pop()
                if len(candidate) <= slots:
                    after[candidate] = min(misses, after.get(candidate, misses))
                else:
                    candidates += [candidate - {row} for row in candidate]
        states = after
    return min(states.values())


@given(st.integers(0, 99), st.integers(1, 6), st.integers(1, 5), st.integers(0, 2))
def test_the_best_possible_is_the_best_of_all_choices(benchmark, seed, steps, slots, loaded):
    batches = [skewed(LAYOUT, 3, 3, seed + n, 1) for n in range(steps)]
    uses = benchmark.Uses(LAYOUT, batches, 0)
    needs = [set(batch.ids[:, 0].tolist()) for batch in batches]
    loaded = min(loaded, slots)
    assert uses.best(slots, np.arange(loaded)) == fewest(needs, slots, range(loaded))
    for window in (1, 3):
        far = [
            row
            for n, rows in enumerate(needs)
            for row in rows
            if not any(row in earlier for earlier in needs[max(0, n - window) : n])
        ]
        assert uses.bound(window) == len(far)


@pytest.mark.parametrize(
    ("misses", "seconds", "rate", "missed"),
    [
        (1.05, 0.2, 2.0, None),
        (1.06, 0.2, 2.0, "bagpipe's misses"),
        (1.05, 0.21, 2.0, "planning of fast: "),
        (1.05, 0.2, 1.9, "batch 16,384"),
    ],
)
def test_a_missed_goal_is_printed_and_is_the_exit_status(
    benchmark, monkeypatch, capsys, misses, seconds, rate, missed
):
    figures = benchmark.Figures(0.9, misses, 100, 0.5, 1.0, 8, seconds)
    measured = {"bagpipe": figures, "fast": figures}, 1.0, rate * 1e6
    monkeypatch.setattr(benchmark, "measure", lambda options: measured)
    monkeypatch.setattr(benchmark.torch, "set_num_threads", lambda count: None)
    monkeypatch.setattr(sys, "argv", ["placement.py"])
    assert benchmark.main() == (missed is not None)
    lines = capsys.readouterr().out.strip().splitlines()
    assert len(lines) == 6
    for line in lines[3:]:
        assert line.endswith("MISSED" if missed and missed in line else "reached")
