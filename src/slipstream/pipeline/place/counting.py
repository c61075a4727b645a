"""Counts rows and bytes that plans move between the tiers; the same plans give the same counts."""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.tables.plan import Plan

COUNTED = ("lookups", "hits", "misses", "rows_in", "rows_out", "bytes_in", "bytes_out")
STEPS = ("stalls", "aside")


def nothing_carried() -> dict[str, int]:
    """All counts at zero.

    lookups: Rows that batches needed, each once a batch.
    hits: Those that were in the fast tier already; misses: those that were not.
    rows_in, rows_out: Rows brought into the fast tier, and written back from it.
    bytes_in, bytes_out: Their bytes, optimizer state counted.
    stalls: Steps that had to wait: for rows that the step right before wrote back.
    aside: Steps whose rows did not fit the fast tier, and that were made in the slow one.
    """
    return dict.fromkeys((*COUNTED, *STEPS), 0)


def count(carried: dict[str, int], plan: Plan, row_bytes: Sequence[int]) -> None:
    """Add the transfers of one plan; none without a fast tier.

    Args:
        carried: The counts so far; changed.
        plan: The plan.
        row_bytes: Bytes of a row of each group, optimizer state counted.
    """
    waits = 0 < plan.after == plan.step - 1
    carried["stalls"] += waits
    carried["aside"] += plan.aside
    for group, size in zip(plan.groups, row_bytes, strict=True):
        if group.evict is None:
            continue
        if group.lent is not None:
            hits, came, left = 0, len(group.lent.rows), len(group.evict.rows) + len(group.lent.rows)
        else:
            assert group.fill is not None, "plans for two tiers say what comes"
            came, left = len(group.fill.rows), len(group.evict.rows)
            hits = group.needs - came
        carried["lookups"] += group.needs
        carried["hits"] += hits
        carried["misses"] += group.needs - hits
        carried["rows_in"] += came
        carried["rows_out"] += left
        carried["bytes_in"] += came * size
        carried["bytes_out"] += left * size


def found_out(carried: dict[str, int], needs: int) -> None:
    """Add lookups that the plan did not know about; their misses are counted already."""
    carried["lookups"] += needs
    carried["hits"] += needs


def kept_rows(plan: Plan) -> int:
    """Rows that stay in the fast tier, as it was decided when this step was planned."""
    return sum(group.kept for group in plan.groups)


def per_input(carried: dict[str, int], inputs: int) -> dict[str, float]:
    """The rows and bytes for each input that was trained."""
    return {name: carried[name] / max(1, inputs) for name in COUNTED}
