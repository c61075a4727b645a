"""How much memory a training on a GPU will take: of the GPU, and page-locked on the host."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from slipstream.config import Config
from slipstream.gpu.devices import available_memory
from slipstream.gpu.planning import plan_ahead
from slipstream.gpu.transfer.bundle import BUNDLES, SCORED
from slipstream.gpu.transfer.packing import room_for
from slipstream.pipeline.place.accesses import Popularity
from slipstream.pipeline.place.budget import lookups_beside, rows_beside
from slipstream.pipeline.place.tier import TierSize
from slipstream.tables.spec import Layout
from slipstream.tables.store import Record

MIB = 1 << 20
# Bytes for each lookup of a batch: its plan, and finding the rows that it updates.
_PLANNED, _TOUCHED = 16, 44
# What PyTorch's allocator and cuBLAS hold beyond the tensors. Measured on an H200 at batch 16,384:
# without and with recorded steps. cuBLAS also has 32 MiB for the stream of weight gradients.
_ALLOCATED, _LIBRARIES = 1.15, (73 + 32) * MIB
_ALLOCATED_RECORDED, _LIBRARIES_RECORDED = 1.17, (150 + 32) * MIB
_SCORED = 0.6  # activations of batches that are only scored, as a share of a step's


@dataclass(frozen=True)
class StepSizes:
    """The sizes of one training step.

    Args:
        examples: Examples of a batch.
        example_bytes: Bytes of an example in a batch.
        lookups: Lookups of an example.
        weights: Weights of the dense part.
        states: Values of optimizer state for each weight.
        activations: Bytes that the forward and the backward pass need at once.
        parts: Parts of a batch.
    """

    examples: int
    example_bytes: float
    lookups: float
    weights: int
    states: int
    activations: int
    parts: int


def memory_estimate(
    config: Config,
    layout: Layout,
    tiers: Sequence[TierSize] | None,
    step: StepSizes,
    *,
    popularity: Popularity,
    examples: int,
    finished: bool,
) -> tuple[dict[str, int], int]:
    """Bytes on the device by part, and bytes of page-locked memory on the host.

    Without `tiers` rows stay on the host. `examples` is the size of the training part, and
    `finished` whether the GPU finds kept rows by itself.
    """
    libraries, factor = _LIBRARIES_RECORDED, _ALLOCATED_RECORDED
    if tiers is None:
        libraries, factor = _LIBRARIES, _ALLOCATED
    dense = {
        "dense": 4 * step.weights * (3 + step.states) + libraries,
        "activations": math.ceil(factor * step.activations * step.parts),
    }
    if tiers is None:
        return dense, 0
    batch = (popularity, tiers, examples, step.examples)
    rows, lookups = rows_beside(*batch), lookups_beside(*batch) if finished else step.lookups
    pages = BUNDLES * plan_ahead.together(config, tiers)
    on_device, on_host = (
        page_bytes(layout, rows, lookups, step.examples, example_bytes, plan_ahead.colder(config))
        for example_bytes in (step.example_bytes, 0.0)
    )
    scored_page = 0  # if the host plans completely, the rows to score are looked up there
    if finished:
        beside = lookups_beside(*batch)
        scored_page = math.ceil(step.examples * (step.example_bytes + 8)) + sum(
            (bytes_ + 8) * _capacity(count)
            for bytes_, count in zip(_row_bytes(layout), beside, strict=True)
        )
    finding = step.examples * step.lookups * (_PLANNED + _TOUCHED)
    fast = sum(bytes_ * tier.slots for bytes_, tier in zip(_row_bytes(layout), tiers, strict=True))
    device = {
        "fast": fast,
        "plans": math.ceil(pages * on_device + finding),
        **dense,
        "evaluation": math.ceil((SCORED + 1) * scored_page + _SCORED * step.activations),
    }
    return device, pages * on_host + SCORED * scored_page


def page_bytes(
    layout: Layout,
    rows: Sequence[float],
    lookups: float | Sequence[float],
    examples: int,
    example_bytes: float,
    growth: float = 1.0,
) -> int:
    """Bytes of the page of one plan and of its results.

    Args:
        layout: Tables and features.
        rows: Rows of each group that come for a batch; as many leave.
        lookups: Lookups of an example; if the GPU finds kept rows by itself, for each group the
            lookups of a batch that find other rows.
        examples: Examples of a batch.
        example_bytes: Bytes of an example in the page.
        growth: How many times as many rows there is room for.
    """
    # A row that comes, one that leaves, and their slot.
    moved = sum(
        (2 * bytes_ + 8) * _capacity(count, growth)
        for bytes_, count in zip(_row_bytes(layout), rows, strict=True)
    )
    if isinstance(lookups, Sequence):
        looked_up = sum(8.0 * _capacity(count, growth) for count in lookups)
    else:
        looked_up = examples * lookups * _PLANNED
    return math.ceil(examples * (example_bytes + 8) + moved + looked_up)


def _row_bytes(layout: Layout) -> list[int]:
    return [4 * Record.of(group).words for group in layout.groups]


def _capacity(expected: float, growth: float = 1.0) -> int:
    """Room for the largest number of something whose expected number is known."""
    most = math.ceil(expected + 3 * math.sqrt(expected))
    return room_for({"fill": most}, grows=growth)["fill"]


def advice(parts: Mapping[str, int], total: int) -> str:
    """A sentence about a training that does not fit a device, and what would fit.

    Args:
        parts: Bytes by part, as `memory_estimate` returns them.
        total: Bytes of the device that this process may use.

    Example:
        >>> advice({"fast": 900 << 20, "plans": 100 << 20}, 512 << 20)[:70]
        'The GPU has 512 MiB for this run, which needs about 1,000 MiB: 900 MiB'
    """
    needed = ", ".join(f"{-(-bytes_ // MIB):,} MiB for {name}" for name, bytes_ in parts.items())
    text = (
        f"The GPU has {total // MIB:,} MiB for this run, which needs about "
        f"{sum(parts.values()) // MIB:,} MiB: {needed}. "
    )
    fast = parts.get("fast", 0)
    # The estimate may be too small, so the fast tier must shrink in any case.
    rest = min(fast, total - (sum(parts.values()) - fast))
    if rest > 64 * MIB:
        return f"{text}Set placement.fast_memory to {rest * 9 // 10 // MIB}MiB or less."
    return f"{text}Use smaller batches, or a smaller model."


def out_of_memory(parts: Mapping[str, int], device: str) -> str:
    """A sentence about a training that does not fit a GPU, and what would fit."""
    return advice(parts, available_memory(device))
