"""What the benchmark of skipping measures, what says most first."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

from benchmarks.skipping.ledger import Task
from benchmarks.skipping.tail import tail_keys

from slipstream import Dataset, Recipe
from slipstream.skip import RULES

PARTS = ("curves", "method", "overhead", "log")
CONTROLS = ("random", "random-hot")
NAMES = tuple(one for name in RULES for one in (CONTROLS if name == "random" else (name,)))
"""All rules; random-hot is the rule random for hot inputs only."""
_HOT = ("published", "random-hot", "movement", "freeze")
SHARES = (0.15, 0.30, 0.52)
SETTINGS = {
    "25 % positive, stationary": (0.25, "none"),
    "3 % positive, stationary": (0.03, "none"),
    "25 % positive, drifting": (0.25, "gradual"),
    "3 % positive, drifting": (0.03, "gradual"),
}
OVERHEAD = "Criteo-Kaggle shape, default model, batch 2,048"
COLD_FIRST = {"order.kind": "cold-first", "skip.options.hot_memory": "12%"}
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
# Falling rates make the end of a run quiet. Under drift they would make it deaf: there the dense
# part moves slowly, which leaves the rows free to follow.
STILL = {"schedule.decay": "linear"}
MOVING = {"dense.lr": 0.001}
LOGGED = {"dense.lr": 0.001, "embedding.lr": 0.1}  # articles are news for hours
QUIET = {"compile": "off", "threads": 1, "evaluate.at": [], "log.trackers": []}


def settings_of(rule: str, share: float, inputs: int, batch: int) -> dict[str, Any]:
    """The keys of a rule that is to skip a share of all inputs.

    What was published in numbers of batches and bytes is taken in proportion to what it was then:
    1,000 of 44,766 batches, 256 MiB of 2.16 GB of rows.
    """
    if rule == "none":
        return {}
    keys = {"skip.rule": rule.removesuffix("-hot"), "skip.target": round(share / (1 - WARMUP), 4)}
    if rule == "published":
        keys |= {
            "skip.target": share,
            "skip.options.warmup_batches": round(inputs / batch * 1000 / 44766),
        }
    if rule == "random-hot":
        keys["skip.options.hot_only"] = True
    if rule in _HOT:
        keys["skip.options.hot_memory"] = "12%"
    return keys


def curve_tasks(options: argparse.Namespace, seed: int) -> Iterator[Task]:
    """Every rule at every share, in every setting: the middle share of all settings first."""
    for share in _by_interest(options.shares):
        for setting, (positives, drift) in SETTINGS.items():
            if options.settings not in setting:
                continue
            rows = options.rows if drift == "none" else options.drifting_rows
            recipe = Recipe(SHAPE, rows, 0, positives, drift=drift)
            data, inputs = {"recipe": asdict(recipe)}, _trained(recipe)
            changes = STILL if drift == "none" else MOVING | tail_keys(inputs)
            make = partial(_task, "curves", setting, data, seed, tail=drift != "none")
            yield from _at_share(make, _rules(options), share, inputs, changes)


def method_tasks(options: argparse.Namespace, seed: int) -> Iterator[Task]:
    """The published method with its order, and as much skipped by chance in that order."""
    for share in _by_interest(options.shares):
        for setting, (positives, drift) in SETTINGS.items():
            if drift != "none" or options.settings not in setting:
                continue
            recipe = Recipe(SHAPE, options.rows, 0, positives)
            data, inputs = {"recipe": asdict(recipe)}, _trained(recipe)
            make = partial(_task, "method", f"{setting}, cold inputs first", data, seed)
            rules = [rule for rule in _rules(options) if rule in (*CONTROLS, "published")]
            yield from _at_share(make, rules, share, inputs, STILL | COLD_FIRST)


def overhead_tasks(options: argparse.Namespace, seed: int) -> Iterator[Task]:
    """Every rule beside full training, with a model of the usual size."""
    recipe = Recipe("criteo-kaggle", options.overhead_rows)
    for rule in ("none", *_rules(options)):
        keys = settings_of(rule, 0.3, _trained(recipe), 2048)
        data = {"recipe": asdict(recipe)}
        task = _task("overhead", OVERHEAD, data, seed, rule, 0.3, keys)
        small = ("batch_size", *SMALL)
        task["settings"] = {k: v for k, v in task["settings"].items() if k not in small}
        yield task


def log_tasks(options: argparse.Namespace, seed: int) -> Iterator[Task]:
    """All rules on a data set of one's own, in the order of its inputs."""
    if options.log is None:
        return
    folder = options.log.resolve()
    inputs = len(Dataset.open(folder).train)
    make = partial(_task, "log", folder.name, {"folder": str(folder)}, seed, tail=True)
    for share in _by_interest(options.log_shares):
        yield from _at_share(make, _rules(options), share, inputs, LOGGED | tail_keys(inputs))


def _at_share(
    make: Callable[..., Task], rules: list[str], share: float, inputs: int, changes: dict[str, Any]
) -> Iterator[Task]:
    """Full training, then the rules."""
    yield make("none", 0.0, changes)
    for rule in rules:
        yield make(rule, share, changes | settings_of(rule, share, inputs, BATCH))


def _task(
    part: str,
    setting: str,
    data: dict[str, Any],
    seed: int,
    rule: str,
    share: float,
    keys: dict[str, Any],
    *,
    tail: bool = False,
) -> Task:
    about = {"part": part, "setting": setting, "rule": rule, "share": share, "seed": seed}
    settings = {"batch_size": BATCH, **SMALL, **QUIET, **keys}
    return {**about, "data": data, "settings": settings, "tail": tail}


def _by_interest(shares: list[float]) -> list[float]:
    return sorted(shares, key=lambda one: abs(one - 0.3))


def _rules(options: argparse.Namespace) -> list[str]:
    """The rules to measure, controls first."""
    named = options.rules or list(NAMES)
    return [one for one in CONTROLS if one in named] + [r for r in named if r not in CONTROLS]


def _trained(recipe: Recipe) -> int:
    return recipe.parts()["train"][1]


def tasks_of(options: argparse.Namespace) -> list[Task]:
    """Everything that may be measured: all of one seed before the next.

    Overhead is of the first seeds only.
    """
    makers: dict[str, Callable[[argparse.Namespace, int], Iterator[Task]]] = {
        "overhead": overhead_tasks,
        "curves": curve_tasks,
        "method": method_tasks,
        "log": log_tasks,
    }
    parts = options.parts or PARTS
    made: dict[str, Task] = {}
    for seed in range(max(options.seeds, options.most_seeds)):
        for part, make in makers.items():
            if part in parts and (part != "overhead" or seed < options.seeds):
                for task in make(options, seed):
                    made.setdefault(str(task), task)  # full training stands beside every share
    return list(made.values())
