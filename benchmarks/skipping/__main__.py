"""`python -m benchmarks.skipping`: measure what is missing, and print the table."""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path

import benchmarks.skipping as described
from benchmarks.skipping.ledger import Ledger, run_all
from benchmarks.skipping.runs import make_data, measure
from benchmarks.skipping.table import table, write_table
from benchmarks.skipping.tasks import NAMES, tasks_of


def main() -> None:
    """Measure what is missing, and print the table."""
    options = parser().parse_args()
    until = time.monotonic() + 60 * options.minutes
    (options.out / "data").mkdir(parents=True, exist_ok=True)
    ledger, tasks = Ledger(options.out / "results.jsonl"), tasks_of(options)
    for task in {task["setting"]: task for task in tasks if task not in ledger}.values():
        make_data(options.out, task)
    left = run_all(ledger, tasks, partial(measure, options.out), jobs=options.jobs, until=until)
    if left:
        print(f"The time is up; {left} runs are left. The same command continues.")
    text = table([each for each in ledger.results() if each[0] in tasks], options.share)
    print(text)
    if options.docs is not None:
        write_table(text, options.docs)


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(
        prog="python -m benchmarks.skipping",
        description=described.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    options.add_argument("--share", type=float, default=0.3, help="examples to skip")
    options.add_argument("--rows", type=int, default=2_000_000, help="examples; half if they drift")
    options.add_argument("--rules", nargs="+", choices=NAMES, help="default: all")
    options.add_argument("--settings", default="", help="only settings with this in their name")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--jobs", type=int, default=1, help="runs at once, one core each")
    options.add_argument("--minutes", type=float, default=float("inf"), help="begin no run later")
    options.add_argument("--log", type=Path, metavar="FOLDER", help="a packed data set of your own")
    options.add_argument("--out", type=Path, default=Path("skipping-results"))
    options.add_argument("--docs", type=Path, metavar="FILE", help="the page to write the table to")
    return options


if __name__ == "__main__":
    main()
