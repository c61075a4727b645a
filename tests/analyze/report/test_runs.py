import pytest
from small_runs import clicks, config, stop_after

from slipstream import ConfigError, train
from slipstream.analyze.report.runs import find_runs
from slipstream.training.state import StoppedError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a run that has ended and one that was stopped."""
    folder = tmp_path_factory.mktemp("runs")
    train(clicks(), config(), folder / "ended")
    with pytest.raises(StoppedError):
        train(clicks(), config(seed=1), folder / "stopped", hooks=stop_after(8))
    return folder


def test_runs_are_found_by_themselves_or_in_a_folder(folder):
    together = find_runs([folder])
    assert [run.name for run in together] == ["ended", "stopped"]
    assert [run.name for run in find_runs([folder / "stopped", folder])] == ["stopped", "ended"]


def test_a_run_that_was_stopped_is_read_as_far_as_it_is(folder):
    ended, stopped = find_runs([folder])
    assert ended.summary["inputs_trained"] == ended.position == 240
    assert stopped.summary is None
    assert 0 < stopped.position < 240
    assert (ended.seed, stopped.seed) == (0, 1)


def test_a_missing_run_is_named_with_the_nearest_one(folder):
    with pytest.raises(ConfigError, match=r"endde\. Did you mean ended\?"):
        find_runs([folder / "endde"])
    (folder / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"There is no run in .*empty"):
        find_runs([folder / "empty"])


def test_a_line_that_is_half_written_is_none_and_a_damaged_one_is_named(folder, tmp_path):
    copy = tmp_path / "run"
    copy.mkdir()
    (copy / "config.yaml").write_text("seed: 3\n")
    (copy / "metrics.jsonl").write_text('{"kind": "training", "position": 5}\n{"kind": "tra')
    (run,) = find_runs([copy])
    assert (run.seed, run.position) == (3, 5)
    (copy / "metrics.jsonl").write_text('{"kind": "training"}\n\x00\x00\n')
    with pytest.raises(ConfigError, match=r"metrics.jsonl, line 2 is damaged"):
        find_runs([copy])


def test_two_runs_of_one_name_are_told_apart(folder, tmp_path):
    for name in "ab":
        (tmp_path / name / "run").mkdir(parents=True)
        (tmp_path / name / "run" / "config.yaml").write_text("seed: 0\n")
    runs = find_runs([tmp_path / "a", tmp_path / "b"])
    assert [run.name for run in runs] == ["a/run", "b/run"]
