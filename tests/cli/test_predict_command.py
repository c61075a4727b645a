"""`slipstream predict` as a user meets it."""

import subprocess

import pytest
from command_line import SLIPSTREAM
from in_process import run
from raw_logs import criteo_rows, write
from trained import criteo_data, small_run


def test_predictions_are_written_whole_or_not_at_all(tmp_path):
    small_run(tmp_path / "run", criteo_data(tmp_path))
    rows = criteo_rows(200, seed=4)
    file, out = write(tmp_path / "new.tsv", rows), tmp_path / "out.txt"
    done = run("predict", tmp_path / "run", "criteo", file, "--out", out)
    assert done.exit_code == 0, done.stderr
    values = [float(line) for line in out.read_text().splitlines()]
    assert len(values) == 200
    assert all(0 < value < 1 for value in values)
    done = run("predict", tmp_path / "run", "criteo", file)
    assert done.stdout == out.read_text()
    for place in (tmp_path / "data", tmp_path / "nowhere" / "out.txt"):
        done = run("predict", tmp_path / "run", "criteo", file, "--out", place)
        assert (done.exit_code, "needs the name of a file" in done.stderr) == (2, True)
    write(file, [*rows, ["1"]])
    done = run("predict", tmp_path / "run", "criteo", file, "--out", tmp_path / "none.txt")
    assert done.exit_code == 2
    assert f"{file}, line 201: 1 fields instead of 40" in done.stderr
    assert not list(tmp_path.glob("none.txt*"))


@pytest.mark.process
def test_a_reader_that_has_enough_is_no_error(tmp_path):
    small_run(tmp_path / "run", criteo_data(tmp_path))
    file = write(tmp_path / "new.tsv", [*criteo_rows(200, seed=4), ["1"]])
    words = [str(tmp_path / "run"), "criteo", str(file), "--bad-rows", "skip"]
    shown = subprocess.run(
        f"{' '.join([*SLIPSTREAM, 'predict', *words])} | head -n 2",
        shell=True,
        capture_output=True,
        text=True,
    )
    assert len(shown.stdout.splitlines()) == 2
    assert "Traceback" not in shown.stderr
