"""`python -m benchmarks.skipping`: measure what is asked for, then say what was found."""

from __future__ import annotations

import argparse
import os
import sys
import time
from functools import partial
from pathlib import Path

import benchmarks.skipping as described
from benchmarks.skipping import settled, verdicts
from benchmarks.skipping.docs import write_docs
from benchmarks.skipping.ledger import Ledger, Outcome, Task, code_of, last_code, work_off
from benchmarks.skipping.points import Points, points_of
from benchmarks.skipping.runs import make_data, measure
from benchmarks.skipping.shown import file_of, plot_of, table_of
from benchmarks.skipping.tasks import NAMES, PARTS, SHARES, tasks_of

import slipstream


def more_seeds_help(ledger: Ledger, options: argparse.Namespace, task: Task) -> bool:
    """Whether more seeds may settle a task's point; full training helps all that they may."""
    if task["seed"] < options.seeds:
        return True
    found = points_of(ledger.all()).get((task["part"], task["setting"]), {})
    mine = (task["rule"], task["share"])
    return any(
        not one.standing.settled and (one.standing.fewest or 0) <= options.most_seeds
        for at, one in found.items()
        if at == mine or (task["rule"] == "none" and at[0] != "none")
    )


def show(points: Points, out: Path) -> None:
    """Print the tables, and draw a picture of each setting."""
    print(f"\n{settled.LEGEND}")
    for (part, setting), found in points.items():
        print(f"\n### {part}: {setting}\n")
        print(table_of(part, found))
        if part in ("curves", "log") and len(found) > 1:
            path = out / f"{part}-{file_of(setting)}.svg"
            path.write_text(plot_of(setting, found), encoding="utf-8")
    print("\n### verdicts\n")


def tell(begun: float, task: Task, outcome: Outcome, left: int) -> None:
    """A line for each outcome."""
    seconds = time.monotonic() - begun
    print(
        f"{seconds:6.0f} s  {task['part']}, {task['setting']}: {task['rule']} {task['share']:.0%} "
        f"seed {task['seed']}: AUC {outcome['auc']:.5f}, skipped {outcome['skip_share']:.1%}; "
        f"{left} to begin",
        file=sys.stderr,
        flush=True,
    )


def measured(options: argparse.Namespace) -> Points:
    """Measure what has not been measured; the points of all that was asked for."""
    begun = time.monotonic()
    until = begun + 60 * options.minutes if options.minutes else float("inf")
    out: Path = options.out
    (out / "data").mkdir(parents=True, exist_ok=True)
    package, here = Path(slipstream.__file__).parent, Path(__file__).parent
    code = code_of(
        package / "skipping",
        package / "training",
        *(here / name for name in ("runs.py", "tail.py", "truth.py")),
    )
    ledger = Ledger(out / "results.jsonl", code)
    if ledger.aside:
        print(f"{ledger.aside} results of other code are left aside.", file=sys.stderr)
    tasks = tasks_of(options)
    new = [task for task in tasks if task not in ledger and "recipe" in task["data"]]
    data = {str(task["data"]): task for task in new}
    nothing = Ledger(Path(os.devnull), code)
    work_off(nothing, data.values(), partial(make_data, out), jobs=options.jobs, until=until)
    left = work_off(
        ledger,
        tasks,
        partial(measure, out),
        jobs=options.jobs,
        until=until,
        wanted=partial(more_seeds_help, ledger, options),
        tell=partial(tell, begun),
    )
    if left:
        print(f"The time is up; {left} runs have not begun. The same command goes on.")
    return points_of([one for one in ledger.all() if one[0] in tasks])


def results(out: Path) -> Points:
    """The points of what was measured last, wherever and however that was."""
    path = out / "results.jsonl"
    if not path.is_file():
        raise SystemExit(f"{path} is not there: nothing has been measured in {out}.")
    ledger = Ledger(path, last_code(path))
    if ledger.aside:
        print(f"{ledger.aside} results of other code are left aside.", file=sys.stderr)
    return points_of(ledger.all())


def main() -> int:
    """Measure, or take what was measured, and say what was found."""
    options = parser().parse_args()
    points = results(options.out) if options.show else measured(options)
    show(points, options.out)
    if options.docs:
        for path in write_docs(points, options.docs):
            print(f"{path} is written.", file=sys.stderr)
    return verdicts.say(points)


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.skipping",
        description=described.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("parts", nargs="*", choices=(*PARTS, []), help="all, if none is named")
    made.add_argument("--rows", type=int, default=2_000_000, help="inputs where nothing drifts")
    made.add_argument("--drifting-rows", type=int, default=1_000_000, help="inputs where it does")
    made.add_argument("--overhead-rows", type=int, default=400_000, help="inputs for overhead")
    made.add_argument(
        "--settings", default="", metavar="TEXT", help="curves only where it is in the name"
    )
    made.add_argument("--rules", nargs="+", choices=NAMES, help="default: all")
    made.add_argument("--shares", nargs="+", type=float, default=SHARES, help="of inputs skipped")
    made.add_argument("--log-shares", nargs="+", type=float, default=(0.3,), help="for log")
    made.add_argument("--seeds", type=int, default=settled.FEWEST, help="of every point")
    made.add_argument("--most-seeds", type=int, default=10, help="of a point that needs more")
    made.add_argument("--jobs", type=int, default=1, help="runs at once, one core each")
    made.add_argument("--minutes", type=float, help="begin no run after that")
    made.add_argument("--log", type=Path, metavar="FOLDER", help="a packed data set, for log")
    made.add_argument("--out", type=Path, default=Path("skipping-results"))
    made.add_argument("--show", action="store_true", help="measure nothing, show what was measured")
    made.add_argument("--docs", type=Path, metavar="FOLDER", help="write docs/skipping.md's tables")
    return made


if __name__ == "__main__":
    sys.exit(main())
