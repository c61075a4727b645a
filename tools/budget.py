"""Runs a command within a budget of seconds, and says how much of it was used.

python tools/budget.py [--only-tell] NAME SECONDS COMMAND...

A command that takes twice its budget (a busy machine is slow, an endless test is endless) is
stopped with everything it started; with --only-tell it is not.
"""

import os
import signal
import subprocess
import sys
import time


def main() -> int:
    """Exit with the command's status, or 124 if it was stopped."""
    words = sys.argv[1:]
    only_tell = words[0] == "--only-tell"
    name, seconds, *command = words[only_tell:]
    begun = time.monotonic()
    process = subprocess.Popen(command, start_new_session=True)
    try:
        status = process.wait(None if only_tell else 2 * float(seconds))
    except subprocess.TimeoutExpired:
        _stop(process)
        print(f"{name}: over twice its budget of {seconds} s, stopped.", flush=True)
        return 124
    except KeyboardInterrupt:
        _stop(process)
        return 130
    used = time.monotonic() - begun
    over = ": over its budget, make it faster" if used > float(seconds) else ""
    print(f"{name}: {used:.0f} s of {seconds} s{over}", flush=True)
    return status


def _stop(process: "subprocess.Popen[bytes]") -> None:
    """End the command and all that it started."""
    for end in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(process.pid, end)
            process.wait(10)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass


if __name__ == "__main__":
    sys.exit(main())
