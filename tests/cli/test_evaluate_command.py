"""`slipstream evaluate` as a user meets it."""

import json

from in_process import run
from trained import criteo_data, small_run


def test_a_run_is_scored_as_a_table_and_as_json(tmp_path):
    data = criteo_data(tmp_path)
    summary = small_run(tmp_path / "run", data)
    done = run("evaluate", tmp_path / "run", data.folder)
    assert done.exit_code == 0, done.stderr
    assert f"{summary['auc']:.6f}" in done.stdout
    done = run("evaluate", tmp_path / "run", data.folder, "--json", "--part", "validation")
    assert json.loads(done.stdout)["inputs"] == len(data.validation)
    done = run("evaluate", tmp_path / "run", tmp_path / "nothing")
    assert done.exit_code == 2
    assert "nothing is not a packed data set" in done.stderr.replace("\n", " ")
    done = run("evaluate", tmp_path / "nothing", data.folder)
    assert done.exit_code == 2
    assert "Name a folder that slipstream train has written" in done.stderr
