import io

import pytest
from report.made_runs import run as made
from rich.console import Console

from slipstream.commands import results_table
from slipstream.commands.compare_progress import Standing, compare_progress
from slipstream.compare.folder import Folder
from slipstream.compare.grid import Choices, planned
from slipstream.compare.runner import Event
from slipstream.config import Config
from slipstream.report.results import results_of
from slipstream.report.variants import settings_of

RUNS = planned(Config(), Choices(["plain", "fast"], seeds=2))


@pytest.fixture
def standing(tmp_path):
    """The first of four runs has ended after ten seconds, the second is at work."""
    folder = Folder(tmp_path)
    one = folder.run(RUNS[0])
    one.mkdir(parents=True)
    (one / "config.yaml").write_text("seed: 0\n")
    (one / "summary.json").write_text('{"auc": 0.75, "samples_per_second": 1000.0}')
    standing = Standing(folder, RUNS)
    standing.scores.clear()
    standing.hear(Event(RUNS[0], "ended", seconds=10.0))
    standing.hear(Event(RUNS[1], "running", {"position": 5000, "auc": 0.7}, seconds=4.0))
    return standing


def shown(standing, width):
    console = Console(width=width, file=io.StringIO())
    console.print(standing.table())
    return console.file.getvalue().splitlines()


def test_a_live_table_says_how_far_each_variant_is(standing):
    lines = shown(standing, 100)
    assert lines[1].split() == ["plain", "1/2", "0.7500", "1", "k"]
    assert "fast" in lines[2]
    assert "seed 0: 5 k inputs, AUC lately 0.7000" in lines[2]
    assert "1 of 4 runs have ended, about 26 s left" in lines[3]


def test_a_narrow_terminal_keeps_names_and_results(standing):
    lines = shown(standing, 45)
    assert lines[1].split()[:3] == ["plain", "1/2", "0.7500"]
    assert all(len(line) <= 45 for line in lines)


def test_titles_stand_for_variants_and_a_low_terminal_shows_what_goes_on(standing):
    standing.titles = {RUNS[0].variant: "the plain one", RUNS[1].variant: "the fast one"}
    standing.more = 3
    lines = shown(standing, 100)
    assert lines[1].startswith("the plain one")
    assert "1 of 4 runs and up to 3 controls have ended" in lines[3]
    console = Console(width=100, file=io.StringIO())
    console.print(standing.table(1))
    low = console.file.getvalue().splitlines()
    assert low[1].startswith("the fast one")
    assert "1 lines are not shown" in " ".join(" ".join(low[2:]).split())
    assert standing.called(RUNS[0]) == "the plain one, seed 0"


def test_without_a_terminal_there_is_a_line_for_each_run(standing):
    console = Console(width=100, file=io.StringIO())
    with compare_progress(standing, console) as tell:
        tell(Event(RUNS[1], "running", {"position": 6000, "auc": 0.7}, seconds=5.0))
        tell(Event(RUNS[1], "failed", why="It diverged.", seconds=6.0))
    assert console.file.getvalue() == "fast-seed0: failed. It diverged.\n"
    assert standing.told() == "1 of 4 runs have ended, 1 failed, about 20 s left"


@pytest.mark.parametrize("width", [200, 100, 60, 30])
def test_results_fit_the_terminal_and_say_what_is_missing(monkeypatch, width):
    (setting,) = settings_of([made(s, n) for s in ("plain", "fast") for n in (0, 1, 2)])
    console = Console(width=width, file=io.StringIO())
    monkeypatch.setattr(results_table, "out", console)
    results_table.show_results(results_of(setting))
    text = console.file.getvalue()
    table = [line for line in text.splitlines() if not line.startswith("A wider terminal")]
    assert "speed-up" in text
    if width >= 60:
        assert max(map(len, table)) <= width
    assert ("A wider terminal also shows" in text) == (width in (100, 60))
