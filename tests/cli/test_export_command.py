"""`slipstream export` as a user meets it."""

from in_process import run
from trained import criteo_data, small_run


def test_an_export_says_what_it_made_and_what_is_outside(tmp_path):
    small_run(tmp_path / "run", criteo_data(tmp_path))
    done = run("export", tmp_path / "run", "--out", tmp_path / "model", "--inside", "100")
    assert done.exit_code == 0, done.stderr
    assert "model.pt2" in done.stdout
    assert "are not in the program: all tables together take more than 100" in done.stdout
    done = run("export", tmp_path / "run", "--out", tmp_path / "model")
    assert done.exit_code == 2
    assert "already holds an export" in done.stderr
    assert "Traceback" not in done.stderr
