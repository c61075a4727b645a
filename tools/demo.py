"""`make demo`: makes data, trains every strategy on it and writes demo/report.html."""

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
        "A made-up click log of 60,000 examples, with values as popular and as rare as in real "
        "logs. Labels are drawn from a known model, so the best possible AUC is known:",
        f"synth --shape small --rows 60000 --min-count 0 --out {DATA} --force",
    ),
    (
        "Every strategy, and skipping at random as a control, with three seeds each. Ctrl-C ends "
        "it early; the report then shows the runs that have ended:",
        # The published method waits for 1,000 batches of hot examples; this log has fewer. In
        # such small steps a second thread gains nothing.
        f"compare {DATA} --seeds 3 --batch-size 512 --set skip.options.warmup_batches=4 "
        f"--set threads=1 --minutes 4 --out {COMPARED} --force",
    ),
)


def main() -> int:
    """Run the commands one after the other and print where the report is."""
    begun = time.monotonic()
    FOLDER.mkdir(exist_ok=True)
    status = 0
    for title, arguments in STEPS:
        print(f"\n{title}\n$ slipstream {arguments}", flush=True)
        try:
            status = subprocess.call([sys.executable, "-m", "slipstream", *arguments.split()])
        except KeyboardInterrupt:
            continue  # the command was interrupted too and has printed its result
        if status:
            break
    report = COMPARED / "report.html"
    if not report.is_file():
        return status or 130
    shutil.copyfile(report, FOLDER / "report.html")
    print(
        f"\nThat took {time.monotonic() - begun:.0f} s. Open {FOLDER}/report.html in a browser: "
        "it needs no network.\nYour own data next: docs/bring-your-own-data.md"
    )
    return status


if __name__ == "__main__":
    sys.exit(main())
