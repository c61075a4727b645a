"""`slipstream predict` as a user meets it."""

import subprocess

import pytest
from command_line import SLIPSTREAM, run
from raw_logs import criteo_rows, write
from trained import criteo_data, small_run


@pytest.mark.process
def test_predictions_are_written_whole_or_not_at_all(tmp_path):
    data = criteo_data(tmp_path)
    small_run(tmp_path / "run", data)
    rows = criteo_rows(200, seed=4)
    file, out = write(tmp_path / "new.tsv", rows), tmp_path / "out.txt"
    done = run("predict", tmp_path / "run", "criteo", file, "--out", out)
    assert done.returncode == 0, done.stderr
    values = [float(line) for line in out.read_text().splitlines()]
    assert len(values) == 200
    assert all(0 < value < 1 for value in values)
    done = run("predict", tmp_path / "run", "criteo", file)
    assert done.stdout == out.read_text()
    write(file, [*rows, ["1"]])
    done = run("predict", tmp_path / "run", "criteo", file, "--out", tmp_path / "none.txt")
    assert done.returncode == 2
    assert f"{file}, line 201: 1 fields instead of 40" in done.stderr
    assert not list(tmp_path.glob("none.txt*"))
    words = [str(tmp_path / "run"), "criteo", str(file), "--bad-rows", "skip"]
    shown = subprocess.run(
        f"{' '.join([*SLIPSTREAM, 'predict', *words])} | head -n 2",
        shell=True,
        capture_output=True,
        text=True,
    )
    assert len(shown.stdout.splitlines()) == 2
    assert "Traceback" not in shown.stderr
