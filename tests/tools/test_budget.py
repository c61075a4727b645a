import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.process
BUDGET = Path(__file__).parents[2] / "tools" / "budget.py"


def _budget(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, BUDGET, *arguments], capture_output=True, text=True)


def test_each_part_and_the_sum_beside_the_limit_are_printed():
    result = _budget("20", "lint=true", "tests=echo a=b")
    assert result.returncode == 0
    assert result.stdout == "lint: 0 s\na=b\ntests: 0 s\nall: 0 s of 20 s\n"


def test_the_first_failure_ends_the_run_with_its_status():
    result = _budget("20", "lint=exit 7", "tests=echo never")
    assert result.returncode == 7
    assert result.stdout == "lint: 0 s\nall: 0 s of 20 s, failed\n"


def test_a_run_over_the_limit_is_reported_and_not_stopped():
    result = _budget("0.5", "tests=sleep 0.8")
    assert result.returncode == 0
    assert result.stdout.endswith("s: over the limit, make it faster\n")


def test_an_endless_run_is_stopped_at_twice_the_limit_with_everything_it_started(tmp_path):
    note = tmp_path / "pid"
    result = _budget("1", f"tests=sh -c 'echo $$ > {note}; sleep 60' & wait", "more=echo never")
    assert result.returncode == 124
    assert ", stopped: over the limit" in result.stdout
    _assert_gone(int(note.read_text()))


def test_a_terminated_run_ends_what_it_started(tmp_path):
    note = tmp_path / "pid"
    words = (sys.executable, BUDGET, "60", f"tests=sh -c 'echo $$ > {note}; sleep 60' & wait")
    process = subprocess.Popen(words)
    while not note.exists() or not note.read_text():
        time.sleep(0.05)
    process.terminate()
    assert process.wait(20) == 130
    _assert_gone(int(note.read_text()))


def _assert_gone(grandchild: int) -> None:
    for _ in range(100):
        if not Path(f"/proc/{grandchild}").exists():
            return
        time.sleep(0.1)
    with pytest.raises(ProcessLookupError):
        os.kill(grandchild, 0)
