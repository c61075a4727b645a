"""Runs the command line in a process of its own."""

import os
import pty
import subprocess
import sys
from contextlib import suppress

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


def shown_in_a_terminal(*words: object) -> str:
    """What a command that succeeds writes to a terminal."""
    reader, writer = pty.openpty()
    environment = {**os.environ, "COLUMNS": "120", "TERM": "xterm"}
    process = subprocess.Popen(
        [*SLIPSTREAM, *map(str, words)], stderr=writer, stdout=writer, env=environment
    )
    os.close(writer)
    shown = b""
    with os.fdopen(reader, "rb", buffering=0) as terminal, suppress(OSError):
        while piece := terminal.read(1 << 16):
            shown += piece
    assert process.wait(timeout=60) == 0, shown
    return shown.decode(errors="replace")
