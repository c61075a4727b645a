"""What plans carry between the tiers: counted from the plans alone, so the same every time."""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.plan import Plan

COUNTED = ("lookups", "hits", "misses", "rows_in", "rows_out", "bytes_in", "bytes_out")


def nothing_carried() -> dict[str, int]:
    """All counts at zero.

    lookups: Rows that batches needed, each once a batch.
    hits: Those that were in the fast tier already; misses: those that had to come.
    rows_in, rows_out: Rows brought into the fast tier, and written back from it.
    bytes_in, bytes_out: Their bytes, optimizer state counted.
    """
    return dict.fromkeys(COUNTED, 0)


def count(carried: dict[str, int], plan: Plan, row_bytes: Sequence[int]) -> None:
    """Add what the plan of a step carries; nothing where there is no fast tier.

    Args:
        carried: The counts so far; changed.
        plan: The plan.
        row_bytes: Bytes of a row of each group, optimizer state counted.
    """
    for group, size in zip(plan.groups, row_bytes, strict=True):
        if group.fill is None or group.evict is None:
            continue
        came, left = len(group.fill.rows), len(group.evict.rows)
        found = (group.needs, group.needs - came, came, came, left, came * size, left * size)
        for name, number in zip(COUNTED, found, strict=True):
            carried[name] += number


def found_out(carried: dict[str, int], needs: int) -> None:
    """Add rows that a batch needed of which its plan did not know; misses are counted already."""
    carried["lookups"] += needs
    carried["hits"] += needs


def per_input(carried: dict[str, int], inputs: int) -> dict[str, float]:
    """The counts for each input that was trained."""
    return {name: number / max(1, inputs) for name, number in carried.items()}
