"""The package and its command line start fast, because heavy libraries are imported on use."""

import resource
import subprocess
import sys

import pytest

pytestmark = pytest.mark.process
HEAVY = ("torch", "numba", "numpy", "polars", "yaml")


def run_script(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize("module", ["slipstream", "slipstream.cli"])
def test_heavy_libraries_are_not_imported(module):
    script = f"import sys, {module}; print([m for m in {HEAVY} if m in sys.modules])"
    assert run_script(script) == "[]"


@pytest.mark.parametrize(
    ("words", "limit"),
    [(["-c", "import slipstream"], 0.05), (["-m", "slipstream", "--help"], 0.3)],
    ids=["import", "help"],
)
def test_start_takes_little_time(words, limit):
    def seconds(words: list[str]) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime

    # Processor time, since other processes may use this machine; the least of several runs.
    least = min(seconds(words) for _ in range(5))
    assert least - min(seconds(["-c", "pass"]) for _ in range(5)) < limit
