"""Runs a command within a budget of seconds, and says how much of it was used.

python tools/budget.py NAME SECONDS COMMAND...
"""

import subprocess
import sys
import time


def main() -> int:
    """Exit with the command's status, or 124 if it ran past its budget."""
    name, seconds, *command = sys.argv[1:]
    begun = time.monotonic()
    try:
        status = subprocess.run(command, timeout=float(seconds), check=False).returncode
    except subprocess.TimeoutExpired:
        print(f"{name}: over its budget of {seconds} s, stopped.", flush=True)
        return 124
    except KeyboardInterrupt:
        return 130
    print(f"{name}: {time.monotonic() - begun:.0f} s of {seconds} s", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
