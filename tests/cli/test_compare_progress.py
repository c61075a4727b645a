import io

import pytest
from analyze.report.made_runs import run as made_run
from rich.console import Console

from slipstream.analyze.compare.folder import Folder
from slipstream.analyze.compare.grid import Choices, planned_runs
from slipstream.analyze.compare.runner import RunEvent
from slipstream.analyze.report.results import results_of
from slipstream.analyze.report.settings import groups_of
from slipstream.cli import compare_progress, terminal
from slipstream.cli.compare_progress import CompareProgress, print_results
from slipstream.config import Config

RUNS = planned_runs(Config(), Choices(strategies=["plain", "fast"], seeds=2))


@pytest.fixture
def progress(tmp_path):
    """The first of four runs has ended after ten seconds."""
    folder = Folder(tmp_path)
    first = folder.run(RUNS[0])
    first.mkdir(parents=True)
    (first / "config.yaml").write_text("seed: 0\n")
    progress = CompareProgress(folder, RUNS)
    (first / "summary.json").write_text('{"auc": 0.75, "samples_per_second": 1000.0}')
    progress.update(RunEvent(RUNS[0], "ended", seconds=10.0))
    return progress


def test_each_run_that_ends_or_fails_has_a_line(progress):
    console = Console(width=100, file=io.StringIO())
    with progress.shown(console) as on_event:
        on_event(RunEvent(RUNS[0], "ended", seconds=10.0))
        on_event(RunEvent(RUNS[1], "running", {"position": 6000, "auc": 0.7}, seconds=5.0))
        on_event(RunEvent(RUNS[1], "failed", error="It diverged.", seconds=6.0))
    first, second = console.file.getvalue().splitlines()
    assert first.startswith("plain-seed0: AUC 0.7500, 1 k examples/s; 1 of 4 runs have ended")
    assert second == "fast-seed0: failed. It diverged."
    assert progress.summary() == "1 of 4 runs have ended, 1 failed, about 20 s left"


def test_a_terminal_also_shows_the_run_that_is_trained_now(progress, monkeypatch):
    monkeypatch.setattr(compare_progress, "can_redraw", lambda _: True)
    console = Console(width=100, file=io.StringIO(), force_terminal=True, _environ={})
    with progress.shown(console) as on_event:
        on_event(RunEvent(RUNS[1], "running", {"position": 5000, "auc": 0.7}, seconds=4.0))
    text = console.file.getvalue()
    assert "1 of 4 runs have ended, about 26 s left; fast-seed0: 5 k examples, recent AUC" in text


@pytest.mark.parametrize("width", [200, 80, 60, 30])
def test_results_fit_the_terminal_and_omitted_columns_are_named(monkeypatch, width):
    (group,) = groups_of([made_run(s, n) for s in ("plain", "fast") for n in (0, 1, 2)])
    console = Console(width=width, file=io.StringIO())
    monkeypatch.setattr(terminal, "out", console)
    print_results(results_of(group))
    text = console.file.getvalue()
    table = [line for line in text.splitlines() if not line.startswith("A wider terminal")]
    assert "speed-up" in text
    if width >= 60:
        assert max(map(len, table)) <= width
    assert ("A wider terminal also shows" in text) == (width in (80, 60))
