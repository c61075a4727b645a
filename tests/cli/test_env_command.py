import json

import torch
from in_process import run

from slipstream import __version__


def test_what_a_bug_report_needs_is_printed():
    done = run("env")
    assert done.exit_code == 0
    for word in (f"slipstream {__version__}", torch.__version__, "cores", "GiB of memory", "numba"):
        assert word in done.stdout


def test_the_same_as_json_names_the_variables_that_change_speed(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    environment = json.loads(run("env", "--json").stdout)
    assert environment["slipstream"] == __version__
    assert environment["variables"]["OMP_NUM_THREADS"] == "1"
    assert not any("TOKEN" in name or "KEY" in name for name in environment["variables"])
