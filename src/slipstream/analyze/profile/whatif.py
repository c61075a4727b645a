"""How each kind of placement would use a budget of fast memory, counted from plans alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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

    The first third fills the fast tier, and the window looks ahead to the last third; only the
    batches between them are counted.
    """

    layout: Layout
    singles: Sequence[str]  # the single-id columns, in the order of the ids of a batch
    batches: Sequence[Batch]
    needed: WorkingSet  # the most rows that any batch of the whole training part needs

    @property
    def counted(self) -> range:
        """Positions of the batches that are counted."""
        third = len(self.batches) // 3
        return range(third, len(self.batches) - third)


@dataclass(frozen=True)
class PlacementOutcome:
    """The copies of one kind of placement with one budget, over the counted batches."""

    placement: str  # the value of `placement.kind`
    budget_bytes: int
    hit_rate: float  # needed rows that are in the fast tier when their batch is trained
    rows_in: int  # copied into the fast tier
    bytes_per_input: float  # copied in either direction
    oversized_batches: int  # those that do not fit the fast tier


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
    """Plan every batch of the sample as training would with a budget, and count the plans.

    The popularity and the number of examples are those of the whole training part.
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
    counted_examples = sum(sample.batches[number].n_valid for number in sample.counted)
    return PlacementOutcome(
        placement,
        budget,
        hit_rate=counts["hits"] / counts["lookups"] if counts["lookups"] else 1.0,
        rows_in=counts["rows_in"],
        bytes_per_input=copied / max(1, counted_examples),
        oversized_batches=counts["oversized_steps"],
    )
