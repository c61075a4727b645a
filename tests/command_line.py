"""Runs the command line in a process of its own."""

import os
import subprocess
import sys

SLIPSTREAM = (sys.executable, "-m", "slipstream")


def run(*words: object, **options) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", **options.pop("env", {})}
    return subprocess.run(
        [*SLIPSTREAM, *map(str, words)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        **options,
    )
