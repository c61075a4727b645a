"""What skipping costs and saves: AUC lost against inputs skipped, for every rule and its controls.

    python benchmarks/skipping.py [curves] [sudden] [overhead] [log] [--rows N] [--seeds 3]
        [--jobs N] [--minutes M] [--out FOLDER]

curves: built-in data at 25 % and 3 % positives, stationary and drifting; every rule at three
shares, without its guard. Each seed is paired with full training from the same first weights on the
same inputs in the same order, and scored on the same evaluation part against the true chances (see
truth.py). The columns random and random-hot say what part of that control's loss at the same share
a rule has cost; wide says that the standard error of its loss is more than a tenth of it.
sudden: the teacher changes its mind half-way; does the guard let inputs back, and what is lost.
overhead: what deciding takes of training time: Criteo-Kaggle shape, default model, batch 2,048.
log: a packed data set of one's own (--log FOLDER), scored against its labels.

Outcomes are lines in FOLDER/results.jsonl. Stop it at any time; the same command goes on. Tables
and verdicts are of what there is. Status 1 if a goal is missed, 2 if one could not be judged.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import skipping_verdicts as verdicts
from ledger import Ledger, Outcome, Task, code_of, work_off
from skipping_points import Points, narrow, points_of
from skipping_runs import make_data, measure
from skipping_shown import plot_of, table_of

import slipstream
from slipstream import Dataset, Recipe
from slipstream.skipping.rules import RULES

PARTS = ("curves", "sudden", "overhead", "log")
CONTROLS = ("random", "random-hot")
SHARES = (0.15, 0.30, 0.52)
SETTINGS = {
    "25 % positive, stationary": (0.25, "none"),
    "3 % positive, stationary": (0.03, "none"),
    "25 % positive, drifting": (0.25, "gradual"),
    "3 % positive, drifting": (0.03, "gradual"),
}
SUDDEN = "25 % positive, another teacher half-way"
BATCH = 512
WARMUP = 0.1  # of the inputs, before anything is skipped
SHAPE = "effects"
# A model like the teacher, and small: a million inputs in a few seconds on one core.
SMALL = {
    "model.name": "deepfm",
    "model.dim": 4,
    "model.deep": [16],
    "embedding.lr": 0.03,
    "dense.optimizer": "adam",
    "dense.lr": 0.003,
}
# Falling rates make the end of a run quiet; under drift they would make it deaf.
STILL = {"schedule.decay": "linear"}
QUIET = {"compile": "off", "threads": 1, "evaluate.at": [], "log.tensorboard": False}


def settings_of(rule: str, share: float, inputs: int, batch: int) -> dict[str, Any]:
    """The keys of a rule that is to skip a share of all inputs.

    What was published in numbers of batches and bytes is taken in proportion to what it was then:
    1,000 of 44,766 batches, 256 MiB of 2.16 GB of rows.
    """
    if rule == "none":
        return {}
    keys = {"skip.rule": rule, "skip.target": round(share / (1 - WARMUP), 4)}
    if rule == "published":
        keys |= {"skip.target": share, "skip.warmup_batches": round(inputs / batch * 1000 / 44766)}
    if RULES[rule].NEEDS_HOT:
        keys["skip.hot_memory"] = "12%"
    return keys


def curve_tasks(options: argparse.Namespace, seed: int) -> Iterator[Task]:
    """Full training, the controls, then the other rules, in every setting."""
    for setting, (positives, drift) in SETTINGS.items():
        if options.settings not in setting:
            continue
        recipe = Recipe(SHAPE, options.rows, 0, positives, drift=drift)
        yield from _of_all_rules("curves", setting, asdict(recipe), options, seed)


def sudden_tasks(options: argparse.Namespace, seed: int) -> Iterator[Task]:
    """Full training, and every guarded rule with its guard and without."""
    recipe = Recipe(SHAPE, options.rows, 0, 0.25, drift=f"teacher=sudden@{verdicts.CHANGE}")
    inputs = _trained(recipe)
    make = partial(_task, "sudden", SUDDEN, {"recipe": asdict(recipe)}, seed=seed)
    yield make("none", 0.0, {})
    for rule in _rules(options):
        if not RULES[rule].GUARDED:
            continue
        for guard in (True, False):
            keys = settings_of(rule, 0.3, inputs, BATCH) | {"skip.guard": guard}
            yield make(rule, 0.3, keys)


def overhead_tasks(options: argparse.Namespace, seed: int) -> Iterator[Task]:
    """Every rule beside full training, with a model of the usual size."""
    recipe = Recipe("criteo-kaggle", options.overhead_rows)
    setting = "Criteo-Kaggle shape, default model, batch 2,048"
    for rule in ("none", *_rules(options)):
        keys = settings_of(rule, 0.3, _trained(recipe), 2048)
        task = _task("overhead", setting, {"recipe": asdict(recipe)}, rule, 0.3, keys, seed=seed)
        small = ("batch_size", *SMALL, *STILL)
        task["settings"] = {k: v for k, v in task["settings"].items() if k not in small}
        yield task


def log_tasks(options: argparse.Namespace, seed: int) -> Iterator[Task]:
    """All rules on a data set of one's own."""
    if options.log is None:
        return
    folder = options.log.resolve()
    inputs = len(Dataset.open(folder).train)
    yield from _of_all_rules("log", folder.name, {"folder": str(folder)}, options, seed, inputs)


def _of_all_rules(
    part: str,
    setting: str,
    data: dict[str, Any],
    options: argparse.Namespace,
    seed: int,
    inputs: int | None = None,
) -> Iterator[Task]:
    if inputs is None:
        data = {"recipe": data}
        inputs = _trained(Recipe(**data["recipe"]))
    yield _task(part, setting, data, "none", 0.0, {}, seed=seed)
    for share in sorted(options.shares, key=lambda one: abs(one - 0.3)):
        for rule in _rules(options):
            keys = settings_of(rule, share, inputs, BATCH) | {"skip.guard": False}
            yield _task(part, setting, data, rule, share, keys, seed=seed)


def _task(
    part: str,
    setting: str,
    data: dict[str, Any],
    rule: str,
    share: float,
    keys: dict[str, Any],
    *,
    seed: int,
) -> Task:
    stays = data.get("recipe", {}).get("drift") == "none"
    settings = {"batch_size": BATCH, **SMALL, **QUIET, **(STILL if stays else {}), **keys}
    about = {"part": part, "setting": setting, "rule": rule, "share": share, "seed": seed}
    return {**about, "data": data, "settings": settings}


def _rules(options: argparse.Namespace) -> list[str]:
    """The rules to measure, controls first."""
    named = options.rules or list(RULES)
    return [one for one in CONTROLS if one in named] + [r for r in named if r not in CONTROLS]


def _trained(recipe: Recipe) -> int:
    return recipe.parts()["train"][1]


def tasks_of(options: argparse.Namespace) -> list[Task]:
    """Everything to be measured: all of one seed before the next, what takes longest first."""
    makers: dict[str, Callable[[argparse.Namespace, int], Iterator[Task]]] = {
        "overhead": overhead_tasks,
        "sudden": sudden_tasks,
        "curves": curve_tasks,
        "log": log_tasks,
    }
    parts = options.parts or PARTS
    return [
        task
        for seed in range(max(options.seeds, options.most_seeds))
        for part, make in makers.items()
        if part in parts and (part != "overhead" or seed < options.seeds)
        for task in make(options, seed)
    ]


def more_seeds_help(ledger: Ledger, options: argparse.Namespace, task: Task) -> bool:
    """Whether a task's point is not yet known to a tenth of itself; full training always helps."""
    if task["seed"] < options.seeds or task["rule"] == "none":
        return True
    points = points_of(ledger.all())
    found = points.get((task["part"], task["setting"]), {})
    at = found.get((task["rule"], task["share"]))
    return at is None or not narrow(at.loss)


def show(points: Points, out: Path) -> None:
    """Print the tables, and draw a picture of each setting."""
    for (part, setting), found in points.items():
        print(f"\n### {part}: {setting}\n")
        print(table_of(part, found))
        if part in ("curves", "log") and len(found) > 1:
            path = out / f"{part}-{setting.replace(' %', '').replace(', ', '-').replace(' ', '-')}"
            path.with_suffix(".svg").write_text(plot_of(setting, found), encoding="utf-8")


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


def main() -> int:
    """Measure what is asked for, then say what was found."""
    options = parser().parse_args()
    begun = time.monotonic()
    until = begun + 60 * options.minutes if options.minutes else float("inf")
    out: Path = options.out
    (out / "data").mkdir(parents=True, exist_ok=True)
    package, here = Path(slipstream.__file__).parent, Path(__file__).parent
    code = code_of(
        package / "skipping", package / "training", here / "skipping_runs.py", here / "truth.py"
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
    points = points_of([one for one in ledger.all() if one[0] in tasks])
    show(points, out)
    print("\n### verdicts\n")
    return verdicts.say(points)


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    made.add_argument("parts", nargs="*", choices=(*PARTS, []), help="all, if none is named")
    made.add_argument("--rows", type=int, default=3_000_000, help="inputs of each data set")
    made.add_argument("--overhead-rows", type=int, default=400_000, help="inputs for overhead")
    made.add_argument(
        "--settings", default="", metavar="TEXT", help="curves only where it is in the name"
    )
    made.add_argument("--rules", nargs="+", choices=list(RULES), help="default: all")
    made.add_argument("--shares", nargs="+", type=float, default=SHARES, help="of inputs skipped")
    made.add_argument("--seeds", type=int, default=3)
    made.add_argument(
        "--most-seeds", type=int, default=8, help="where the spread is over a tenth of the effect"
    )
    made.add_argument("--jobs", type=int, default=1, help="runs at once, one core each")
    made.add_argument("--minutes", type=float, help="begin no run after that")
    made.add_argument("--log", type=Path, metavar="FOLDER", help="a packed data set, for log")
    made.add_argument("--out", type=Path, default=Path("skipping-results"))
    return made


if __name__ == "__main__":
    sys.exit(main())
