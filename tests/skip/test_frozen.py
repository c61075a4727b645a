"""Rows that a decision freezes: looked up, and left as they are, bit by bit."""

import numpy as np
import torch
from small_runs import config, skewed

from slipstream.pipeline.engine import Engine
from slipstream.skip.skipper import Skipper
from slipstream.training.loop import train

KEYS = (
    "skip.rule=freeze",
    "skip.target=0.2",
    "skip.warmup=0.1",
    "skip.interval=0.2",
    "skip.options.min_touches=2",
)


def watched(monkeypatch):
    """Every step: its decision, the rows that it looked up, and those that changed."""
    steps, masks = [], {}
    update, moving_rows = Engine.update, Skipper.moving_rows

    def moving_rows_seen(self, batch):
        masks[batch.decision] = moving_rows(self, batch)
        return masks[batch.decision]

    def update_seen(self, plan, factor=1.0):
        before = [store.records.copy() for store in self.tables.stores]
        update(self, plan, factor)
        for number, (group, store) in enumerate(zip(plan.groups, self.tables.stores, strict=True)):
            lists = [column.slots for column in group.lists.values()]
            accessed = torch.cat([group.slots.flatten(), *lists]).numpy()
            changed = np.flatnonzero((store.records != before[number]).any(axis=1))
            steps.append((plan.decision, number, set(accessed[accessed >= 0]), set(changed)))

    monkeypatch.setattr(Skipper, "moving_rows", moving_rows_seen)
    monkeypatch.setattr(Engine, "update", update_seen)
    return steps, masks


def test_frozen_rows_are_looked_up_and_do_not_move_and_others_do(tmp_path, monkeypatch):
    steps, masks = watched(monkeypatch)
    summary = train(skewed(2000), config(*KEYS), tmp_path / "run")
    moved = {decision: set() for decision, *_ in steps}
    frozen = {decision: set() for decision, *_ in steps}
    for decision, group, accessed, changed in steps:
        assert changed <= accessed
        mask = masks[decision]
        still = set() if mask is None else set(np.flatnonzero(~mask[group].numpy()))
        assert not changed & still
        moved[decision] |= changed
        frozen[decision] |= accessed & still
    assert len(moved) > 3
    assert not frozen.pop(0)
    assert all(frozen.values())
    assert all(len(rows) > 20 for rows in moved.values())
    # No row for ever: what one decision froze, another lets go.
    assert set.union(*frozen.values()) & set.union(*moved.values())
    assert summary["inputs_skipped"] == 0
    assert 0.15 < summary["skipping"]["row_updates_frozen"] < 0.25


def test_frozen_rows_are_the_same_wherever_rows_live(tmp_path):
    data = skewed(1000)
    lag = (*KEYS, "skip.lag=9")
    summaries = [
        train(data, config(*lag, *more), tmp_path / name)
        for name, more in {
            "slow": (),
            "tiers": ("placement.kind=popular", "placement.fast_memory=60%"),
        }.items()
    ]
    assert summaries[0]["weights_digest"] == summaries[1]["weights_digest"]
    assert summaries[0]["skipping"]["row_updates_frozen"] > 0.1
