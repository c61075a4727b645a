"""Runs commands one after the other within one time limit and prints what each of them took.

python tools/budget.py SECONDS NAME=COMMAND...

A command that fails ends the run. Slow commands only get a line at the end, but at twice the limit
the running command is stopped, with everything it started.
"""

import os
import signal
import subprocess
import sys
import time


def main() -> int:
    """Return the status of the first command that failed, or 124 if the run was stopped."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    limit = float(sys.argv[1])
    begin = time.monotonic()
    status = 0
    for part in sys.argv[2:]:
        name, command = part.split("=", 1)
        part_begin = time.monotonic()
        status = run(command, begin + 2 * limit - part_begin)
        print(f"{name}: {time.monotonic() - part_begin:.0f} s", flush=True)
        if status:
            break
    seconds = time.monotonic() - begin
    ending = {0: "", 124: ", stopped"}.get(status, ", failed")
    if seconds > limit:
        ending += ": over the limit, make it faster"
    print(f"all: {seconds:.0f} s of {limit:.0f} s{ending}", flush=True)
    return status


def run(command: str, seconds: float) -> int:
    """Run a shell command for at most so many seconds and return its status."""
    process = subprocess.Popen(command, shell=True, start_new_session=True)
    try:
        return process.wait(max(seconds, 0))
    except subprocess.TimeoutExpired:
        stop(process)
        return 124
    except KeyboardInterrupt:
        stop(process)
        return 130


def stop(process: "subprocess.Popen[bytes]") -> None:
    """End the command and everything it started."""
    for number in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(10)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            pass


if __name__ == "__main__":
    sys.exit(main())
