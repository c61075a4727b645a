"""What each kind of placement would do with a budget of fast memory, counted from plans alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from slipstream.data.batch import Batch
from slipstream.pipeline.place.accesses import Popularity
from slipstream.pipeline.place.budget import divide_among
from slipstream.pipeline.place.counting import count, no_transfers
from slipstream.pipeline.place.popularity import Refresh
from slipstream.pipeline.place.tiered import Tiered
from slipstream.pipeline.place.working_set import WorkingSet
from slipstream.pipeline.strategies import PLACEMENTS, TierPolicy
from slipstream.tables.plan import Planner
from slipstream.tables.spec import Layout

COMPARED = ("popular", "lookahead", "popular+lookahead")  # values of placement.kind


@dataclass(frozen=True)
class BatchSample:
    """Consecutive batches to plan.

    The first third fills the fast tier, the last third is what the window looks ahead to; only
    the batches between them are counted.

    Args:
        layout: Tables and features.
        singles: Names of the single-id columns, in the order of the ids of a batch.
        batches: The batches.
        needed: The most rows that any batch of the whole training part needs.
    """

    layout: Layout
    singles: Sequence[str]
    batches: Sequence[Batch]
    needed: WorkingSet

    @property
    def counted(self) -> range:
        """Positions of the batches that are counted."""
        third = len(self.batches) // 3
        return range(third, len(self.batches) - third)

    @cached_property
    def examples(self) -> int:
        """Examples in the counted batches."""
        return sum(self.batches[number].n_valid for number in self.counted)


@dataclass(frozen=True)
class PlacementOutcome:
    """What one kind of placement does with one budget, over the counted batches.

    Args:
        placement: The value of `placement.kind`.
        budget_bytes: Bytes of the fast tier.
        hit_rate: The share of needed rows that are in the fast tier when their batch is trained.
        rows_in: Rows that are copied into the fast tier.
        bytes_per_input: Bytes copied in either direction for each example.
        oversized_batches: Batches that do not fit the fast tier and are trained in the slow one.
    """

    placement: str
    budget_bytes: int
    hit_rate: float
    rows_in: int
    bytes_per_input: float
    oversized_batches: int

    def to_json(self) -> dict[str, Any]:
        """The same as plain JSON values."""
        return asdict(self)


def plan_outcome(
    sample: BatchSample,
    popularity: Popularity,
    examples: int,
    placement: str,
    budget: int,
    *,
    batch_size: int,
    window: int | None = None,
) -> PlacementOutcome:
    """Plan every batch of the sample as training would, and count the plans.

    Args:
        sample: The batches.
        popularity: The accesses of all rows in the training part.
        examples: Examples of the training part.
        placement: The value of `placement.kind`.
        budget: Bytes of the fast tier.
        batch_size: Examples of a batch.
        window: The most batches to look ahead; None is what the placement has.
    """
    tier: TierPolicy | None = PLACEMENTS[placement]
    assert tier is not None, "a compared placement has a fast tier"
    if window is None or tier.window == 1:
        window = tier.window
    tier_sizes = divide_among(
        popularity,
        examples,
        budget,
        keep=tier.keep,
        window_inputs=batch_size * window,
        needed=sample.needed,
    )
    refresh = None
    if tier.keep:
        batches, most = examples / batch_size, [len(room.keep) for room in tier_sizes]
        known = popularity.accesses
        refresh = Refresh.of(tier.refresh, batches, most, known=known, counted=batches)
    tiered = Tiered(sample.layout, sample.singles, tier_sizes, window, refresh=refresh)
    counts = no_transfers()
    for number, plan in enumerate(Planner(tiered).plans(sample.batches)):
        if number in sample.counted:
            count(counts, plan, popularity.sizes)
    copied = counts["bytes_in"] + counts["bytes_out"]
    return PlacementOutcome(
        placement,
        budget,
        hit_rate=counts["hits"] / counts["lookups"] if counts["lookups"] else 1.0,
        rows_in=counts["rows_in"],
        bytes_per_input=copied / max(1, sample.examples),
        oversized_batches=counts["oversized_steps"],
    )
