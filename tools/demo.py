"""`make demo`: built-in data, every strategy trained on it, and the report: demo/report.html."""

import shutil
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path("demo")
DATA = FOLDER / "clicks"
COMPARED = FOLDER / "compared"
STEPS = (
    (
        "A click log of 60,000 rows, drawn with the skew of real ones. Its labels come from a "
        "planted teacher, so the AUC that nothing can beat is known:",
        f"synth --shape small --rows 60000 --min-count 0 --out {DATA} --force",
    ),
    (
        "Every strategy, trained on it with three seeds, each run in a process of its own, and "
        "skipping at random as a control. Ctrl-C stops it; what has ended by then is in the report "
        "all the same:",
        # As published it would wait for 1,000 batches of hot inputs, and there are fewer here. A
        # second thread gains nothing in such small steps, and loses much on a busy machine.
        f"compare {DATA} --seeds 3 --batch-size 512 --set skip.warmup_batches=4 --set threads=1 "
        f"--minutes 4 --out {COMPARED} --force",
    ),
)


def main() -> int:
    """Run the commands one after the other, and say where the report is."""
    begun = time.monotonic()
    FOLDER.mkdir(exist_ok=True)
    status = 0
    for what, words in STEPS:
        print(f"\n{what}\n$ slipstream {words}", flush=True)
        try:
            done = subprocess.run((sys.executable, "-m", "slipstream", *words.split()), check=False)
        except KeyboardInterrupt:
            continue  # the command was interrupted too, and has said what there is to say
        status = done.returncode
        if status:
            break
    made = COMPARED / "report.html"
    if not made.is_file():
        return status or 130
    shutil.copyfile(made, FOLDER / "report.html")
    print(
        f"\nThat took {time.monotonic() - begun:.0f} s. Open {FOLDER}/report.html in a browser: "
        "it needs no network.\nYour own data next: docs/bring-your-own-data.md"
    )
    return status


if __name__ == "__main__":
    sys.exit(main())
