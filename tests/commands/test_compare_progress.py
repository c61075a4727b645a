import io

import pytest
from report.made_runs import run as made_run
from rich.console import Console

from slipstream.commands import terminal
from slipstream.commands.compare_progress import ComparisonState, compare_progress, show_results
from slipstream.compare.folder import Folder
from slipstream.compare.grid import Choices, planned
from slipstream.compare.runner import Event
from slipstream.config import Config
from slipstream.report.results import results_of
from slipstream.report.variants import settings_of

RUNS = planned(Config(), Choices(["plain", "fast"], seeds=2))


@pytest.fixture
def state(tmp_path):
    """The first of four runs has ended after ten seconds, the second is training."""
    folder = Folder(tmp_path)
    run = folder.run(RUNS[0])
    run.mkdir(parents=True)
    (run / "config.yaml").write_text("seed: 0\n")
    (run / "summary.json").write_text('{"auc": 0.75, "samples_per_second": 1000.0}')
    state = ComparisonState(folder, RUNS)
    state.scores.clear()
    state.update(Event(RUNS[0], "ended", seconds=10.0))
    state.update(Event(RUNS[1], "running", {"position": 5000, "auc": 0.7}, seconds=4.0))
    return state


def lines_of(state, width, most=None):
    console = Console(width=width, file=io.StringIO())
    console.print(state.table(most))
    return console.file.getvalue().splitlines()


def test_the_live_table_shows_the_progress_of_each_strategy(state):
    lines = lines_of(state, 100)
    assert lines[1].split() == ["plain", "1/2", "0.7500", "1", "k"]
    assert "fast" in lines[2]
    assert "seed 0: 5 k inputs, recent AUC 0.7000" in lines[2]
    assert "1 of 4 runs have ended, about 26 s left" in lines[3]


def test_the_live_table_fits_a_narrow_terminal(state):
    lines = lines_of(state, 45)
    assert lines[1].split()[:3] == ["plain", "1/2", "0.7500"]
    assert all(len(line) <= 45 for line in lines)


def test_a_low_terminal_hides_complete_strategies(state):
    state.titles = {RUNS[1].variant: "the fast one"}
    state.scores[RUNS[0].variant] *= 2
    lines = lines_of(state, 100, 1)
    assert lines[1].startswith("the fast one")
    assert "1 strategies are not shown" in lines[2]
    assert state.name(RUNS[1]) == "the fast one, seed 0"


def test_without_a_terminal_each_run_is_a_line(state):
    console = Console(width=100, file=io.StringIO())
    with compare_progress(state, console) as update:
        update(Event(RUNS[1], "running", {"position": 6000, "auc": 0.7}, seconds=5.0))
        update(Event(RUNS[1], "failed", why="It diverged.", seconds=6.0))
    assert console.file.getvalue() == "fast-seed0: failed. It diverged.\n"
    assert state.summary() == "1 of 4 runs have ended, 1 failed, about 20 s left"


@pytest.mark.parametrize("width", [200, 100, 60, 30])
def test_results_fit_the_terminal_and_name_omitted_columns(monkeypatch, width):
    (setting,) = settings_of([made_run(s, n) for s in ("plain", "fast") for n in (0, 1, 2)])
    console = Console(width=width, file=io.StringIO())
    monkeypatch.setattr(terminal, "out", console)
    show_results(results_of(setting))
    text = console.file.getvalue()
    lines = [line for line in text.splitlines() if not line.startswith("A wider terminal")]
    assert "speed-up" in text
    if width >= 60:
        assert max(map(len, lines)) <= width
    assert ("A wider terminal also shows" in text) == (width in (100, 60))
