"""The benchmark of preparation judges its figures: reached or missed, and an exit status."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "prepare.py"


@pytest.fixture
def benchmark(monkeypatch):
    spec = importlib.util.spec_from_file_location("benchmark_of_prepare", FILE)
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "benchmark_of_prepare", module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("small", "large", "peak", "missed"),
    [
        (5.9, 23.6, 1000, None),
        (6.1, 24.4, 1000, "times Polars' streaming parse"),
        (5.0, 24.0, 1000, "time for a row at 400 rows"),
        (5.0, 20.0, 3000, "peak MiB at 400 rows"),
    ],
)
def test_a_goal_that_is_missed_is_told_and_is_the_exit_status(
    benchmark, monkeypatch, capsys, small, large, peak, missed
):
    figures = {
        100: benchmark.Figures(100, 1.0, small, 1000 << 20),
        400: benchmark.Figures(400, 4.0, large, peak << 20),
    }
    monkeypatch.setattr(benchmark, "compare", lambda sizes, *_: [figures[rows] for rows in sizes])
    monkeypatch.setattr(sys, "argv", ["prepare.py", "--rows", "100", "--large", "400"])
    assert benchmark.main() == (missed is not None)
    lines = capsys.readouterr().out.strip().splitlines()
    assert len(lines) == 4
    for line in lines:
        goal = "MISSED" if missed is not None and missed in line else "reached"
        assert line.endswith(goal)
