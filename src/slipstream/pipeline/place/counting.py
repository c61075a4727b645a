"""Counts rows and bytes that plans copy between the tiers; the same plans give the same counts."""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.tables.plan import Plan

COUNTED = ("lookups", "hits", "misses", "rows_in", "rows_out", "bytes_in", "bytes_out")
STEPS = ("dependent_steps", "oversized_steps")


def no_transfers() -> dict[str, int]:
    """All counts at zero.

    lookups: Rows that batches needed, each once a batch.
    hits: Those that were in the fast tier already; misses: those that were not.
    rows_in, rows_out: Rows brought into the fast tier, and written back from it.
    bytes_in, bytes_out: Their bytes, optimizer state counted.
    dependent_steps: Steps whose rows were written back by the step right before.
    oversized_steps: Steps whose rows did not fit the fast tier, so the slow tier trained them.
    """
    return dict.fromkeys((*COUNTED, *STEPS), 0)


def count(transfers: dict[str, int], plan: Plan, row_bytes: Sequence[int]) -> None:
    """Add the transfers of one plan; none without a fast tier."""
    waits = 0 < plan.after == plan.step - 1
    transfers["dependent_steps"] += waits
    transfers["oversized_steps"] += plan.oversized_batch
    for group, size in zip(plan.groups, row_bytes, strict=True):
        if group.evict is None:
            continue
        if group.borrowed is not None:
            hits, came, left = (
                0,
                len(group.borrowed.rows),
                len(group.evict.rows) + len(group.borrowed.rows),
            )
        else:
            assert group.fill is not None, "plans for two tiers say what comes"
            came, left = len(group.fill.rows), len(group.evict.rows)
            hits = group.needs - came
        transfers["lookups"] += group.needs
        transfers["hits"] += hits
        transfers["misses"] += group.needs - hits
        transfers["rows_in"] += came
        transfers["rows_out"] += left
        transfers["bytes_in"] += came * size
        transfers["bytes_out"] += left * size


def add_unplanned_lookups(transfers: dict[str, int], needs: int) -> None:
    """Add lookups that the plan did not know about; their misses are counted already."""
    transfers["lookups"] += needs
    transfers["hits"] += needs


def kept_rows(plan: Plan) -> int:
    """Rows that stay in the fast tier, as it was decided when this step was planned."""
    return sum(group.kept_rows for group in plan.groups)


def per_input(transfers: dict[str, int], inputs: int) -> dict[str, float]:
    """The rows and bytes for each example that was trained."""
    return {name: transfers[name] / max(1, inputs) for name in COUNTED}
