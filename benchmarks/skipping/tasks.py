"""The runs of the benchmark of skipping."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from benchmarks.skipping.tail import tail_keys

from slipstream import Dataset, Recipe
from slipstream.skip import RULES

Task = dict[str, Any]
FULL = "none"
NAMES = [name for rule in RULES for name in ((rule, "random-hot") if rule == "random" else (rule,))]
"""All rules; random-hot is the rule random for hot examples only."""
SETTINGS = {
    "25 % positive": (0.25, "none"),
    "3 % positive": (0.03, "none"),
    "25 % positive, drifting": (0.25, "gradual"),
}
LOG = "a log"
BATCH = 512
WARMUP = 0.1  # of the examples, before anything is skipped
_HOT = ("published", "random-hot", "movement", "freeze")
_PUBLISHED_WARMUP = 1000 / 44_766  # of the batches
# A small model like the teacher: a million examples in a few seconds on one core.
_SMALL = {
    **{"batch_size": BATCH, "model.name": "deepfm", "model.dim": 4, "model.deep": [16]},
    **{"embedding.lr": 0.03, "dense.optimizer": "adam", "dense.lr": 0.003},
    **{"compile": "off", "threads": 1, "evaluate.at": [], "log.trackers": []},
}
# Falling rates make the end of a run quiet. Where data drift the rows must be free to follow, so
# there the dense part moves slowly instead.
_STILL = {"schedule.decay": "linear"}
_DRIFTING = {"dense.lr": 0.001}
_LOG = {"dense.lr": 0.001, "embedding.lr": 0.1}  # articles are news for hours


def rule_keys(rule: str, share: float, examples: int) -> dict[str, Any]:
    """The keys of a rule that is to skip a share of all examples.

    The counts of the published method are scaled to the number of examples.
    """
    if rule == FULL:
        return {}
    keys = {"skip.rule": rule.removesuffix("-hot"), "skip.target": round(share / (1 - WARMUP), 4)}
    if rule == "published":
        keys["skip.target"] = share
        keys["skip.options.warmup_batches"] = round(examples / BATCH * _PUBLISHED_WARMUP)
    if rule == "random-hot":
        keys["skip.options.hot_only"] = True
    if rule in _HOT:
        keys["skip.options.hot_memory"] = "12%"
    return keys


def tasks_of(options: argparse.Namespace) -> list[Task]:
    """All runs, those of a seed before those of the next."""
    return [task for seed in range(options.seeds) for task in _of_seed(options, seed)]


def _of_seed(options: argparse.Namespace, seed: int) -> Iterator[Task]:
    rules = [FULL, *(options.rules or NAMES)]
    for setting, (positives, drift) in SETTINGS.items():
        if options.settings not in setting:
            continue
        tail = drift != "none"
        rows = options.rows // 2 if tail else options.rows
        recipe = Recipe("effects", rows, 0, positives, drift=drift)
        examples = recipe.parts()["train"][1]
        keys = _SMALL | (_DRIFTING | tail_keys(examples) if tail else _STILL)
        data = {"setting": setting, "recipe": asdict(recipe), "tail": tail, "seed": seed}
        for rule in rules:
            yield data | {"rule": rule, "keys": keys | rule_keys(rule, options.share, examples)}
    if options.log is not None:
        examples = len(Dataset.open(options.log).train)
        keys = _SMALL | _LOG | tail_keys(examples)
        data = {"setting": LOG, "recipe": None, "data": str(options.log.resolve()), "tail": True}
        for rule in rules:
            own = rule_keys(rule, options.share, examples)
            yield data | {"seed": seed, "rule": rule, "keys": keys | own}
