"""`make demo`: built-in data, what is in it, and a model trained on it; leaves demo/report.txt."""

import subprocess
import sys
from pathlib import Path

FOLDER = Path("demo")
DATA = FOLDER / "clicks"
RUN = FOLDER / "run"
COMMANDS = (
    ("synth", "--shape", "small", "--rows", "400000", "--out", str(DATA), "--force"),
    ("data", "show", str(DATA)),
    ("data", "verify", str(DATA)),
    ("train", str(DATA), "--model", "dlrm", "--out", str(RUN), "--force"),
)


def main() -> int:
    """Run the commands one after the other, showing what they print and keeping it."""
    FOLDER.mkdir(exist_ok=True)
    report = FOLDER / "report.txt"
    with report.open("w", encoding="utf-8") as file:
        for words in COMMANDS:
            line = " ".join(("slipstream", *words))
            print(f"\n$ {line}", flush=True)
            done = subprocess.run(
                (sys.executable, "-m", "slipstream", *words),
                stdout=subprocess.PIPE,
                text=True,
                check=False,
            )
            print(done.stdout, end="", flush=True)
            file.write(f"$ {line}\n{done.stdout}\n")
            if done.returncode:
                print(f"\n{line}: failed with status {done.returncode}")
                return done.returncode
    print(f"\nAll of this is in {report}; the data set is in {DATA}, the run in {RUN}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
