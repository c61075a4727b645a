"""`slipstream estimate` as a user meets it."""

import pytest
from command_line import run
from trained import criteo_data


@pytest.mark.process
def test_the_parts_are_a_table_and_wrong_options_are_named(tmp_path):
    data = criteo_data(tmp_path, rows=300)
    done = run("estimate", data.folder, "--model", "dcn", "--batch-size", "64")
    assert done.returncode == 0, done.stderr
    for part in ("process", "rows", "dense", "activations", "loader", "checkpoint", "sum"):
        assert f"\n  {part} " in done.stdout
    done = run("estimate", data.folder, "--set", "model.sizes=3")
    assert done.returncode == 2
    assert "'sizes'" in done.stderr
