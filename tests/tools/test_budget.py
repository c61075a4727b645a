import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.process
BUDGET = Path(__file__).parents[2] / "tools" / "budget.py"


def _budget(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, BUDGET, *words], capture_output=True, text=True)


def test_the_status_of_the_command_is_handed_on_and_its_time_told():
    done = _budget("work", "20", sys.executable, "-c", "raise SystemExit(7)")
    assert done.returncode == 7
    assert done.stdout.startswith("work: ")
    assert done.stdout.endswith("s of 20 s\n")


def test_what_runs_over_is_stopped_with_all_that_it_started(tmp_path):
    note = tmp_path / "pid"
    script = f"sh -c 'echo $$ > {note}; sleep 60' & wait"
    done = _budget("work", "1", "sh", "-c", script)
    assert done.returncode == 124
    assert "over twice its budget of 1 s" in done.stdout
    grandchild = int(note.read_text())
    for _ in range(100):
        if not Path(f"/proc/{grandchild}").exists():
            return
        time.sleep(0.1)
    with pytest.raises(ProcessLookupError):
        os.kill(grandchild, 0)


def test_a_command_that_is_only_told_is_not_stopped():
    done = _budget("--only-tell", "work", "0", "sleep", "1")
    assert done.returncode == 0
    assert "s of 0 s: over its budget" in done.stdout
