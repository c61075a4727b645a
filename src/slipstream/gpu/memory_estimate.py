"""How much memory of a GPU a training will take, part by part."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from slipstream.gpu.transfer.packing import room_for
from slipstream.pipeline.place.tier import Room
from slipstream.tables.spec import Layout
from slipstream.tables.store import Record

# Bytes for each lookup of a batch: what a plan has of it on the device, and what finding the rows
# that it touches takes meanwhile.
_PLANNED, _FOUND = 16, 44
# What PyTorch's allocator holds beyond what is in use at once, and libraries for their products,
# in its thread of the backward pass, too. Measured on an H200: 272 MiB for `plain` at 16,384.
_HELD, _LIBRARIES = 1.15, 73 << 20
# Where steps are recorded: activations are held by the recording, and some by what runs outside it,
# and so is the room of libraries; each stream has rounded pieces of its own. Measured on an H200
# with Criteo Kaggle's tables at batch 16,384, where a step needs 139 MiB at once: recordings held
# 163. What is only scored has some of its own before it is recorded: 86 MiB there.
_HELD_RECORDED, _LIBRARIES_RECORDED, _SCORED = 1.17, 150 << 20, 0.6
# Reckoned, not measured: PyTorch gives cuBLAS as much for each stream of a Hopper GPU, and there is
# one more, which gradients of weights are multiplied in.
_BESIDE = 32 << 20


def device_parts(
    layout: Layout,
    rooms: Sequence[Room] | None,
    *,
    inputs: int,
    lookups: float,
    weights: int,
    states: int,
    step: int,
    rings: int,
    parts: int = 1,
    scored: int = 0,
    scored_inputs: int = 0,
) -> dict[str, int]:
    """Bytes by part, in words.

    Args:
        layout: Tables and features.
        rooms: The fast tier of each group; None where rows stay on the host.
        inputs: Inputs of a batch.
        lookups: Lookups of an input.
        weights: Dense weights.
        states: Values that the optimizer keeps of each.
        step: Bytes that the forward and the backward pass need at once.
        rings: Bytes of pages, as `ring_bytes` gives them.
        parts: Parts of a batch; recordings of several sizes hold more than one step needs.
        scored: Bytes of the pages of batches that are only scored.
        scored_inputs: Inputs of such a batch.
    """
    libraries, held = _LIBRARIES, _HELD
    if rooms is not None:
        libraries, held = _LIBRARIES_RECORDED, _HELD_RECORDED
    made = {
        "dense": 4 * weights * (3 + states) + libraries + _BESIDE,
        "activations": math.ceil(held * step * parts),
    }
    if rooms is None:
        return made
    found = inputs * lookups * (_PLANNED + _FOUND)
    pairs = zip(layout.groups, rooms, strict=True)
    fast = sum(4 * Record.of(group).words * room.slots for group, room in pairs)
    evaluation = math.ceil(scored + _SCORED * step * scored_inputs / inputs)
    return {"fast": fast, "plans": math.ceil(rings + found), **made, "evaluation": evaluation}


def ring_bytes(
    layout: Layout,
    rows: Sequence[float],
    *,
    inputs: int,
    input_bytes: float,
    lookups: float | Sequence[float],
    pages: int,
    grows: float = 1.0,
) -> int:
    """Bytes of the pages of plans and of results, on the device or, pinned, on the host.

    Args:
        layout: Tables and features.
        rows: Rows of each group that come for a batch, and as many leave.
        inputs: Inputs of a batch.
        input_bytes: Bytes of an input in a page; 0 where pages have none.
        lookups: Lookups of an input, where a plan says something of each; where the device finds
            kept rows by itself, for each group the lookups of a batch that find others.
        pages: Plans that there is room for, and as many results.
        grows: How many times as many rows there is room for.
    """
    # Of a row that comes and leaves: itself, twice, and its slot; of a lookup its place and slot.
    moved = sum(
        (8 * Record.of(group).words + 8) * _room(count, grows)
        for group, count in zip(layout.groups, rows, strict=True)
    )
    if isinstance(lookups, Sequence):
        said = sum(8.0 * _room(count, grows) for count in lookups)
    else:
        said = inputs * lookups * _PLANNED
    return math.ceil(pages * (inputs * (input_bytes + 8) + moved + said))


def scored_page(
    layout: Layout, lookups: Sequence[float], *, inputs: int, input_bytes: float
) -> int:
    """Bytes of the page of a batch that is only scored: each lookup has a row of its own.

    Args:
        layout: Tables and features.
        lookups: For each group the lookups of a batch that find rows that do not stay.
        inputs: Inputs of a batch.
        input_bytes: Bytes of an input.
    """
    rows = sum(
        (4 * Record.of(group).words + 8) * _room(count)
        for group, count in zip(layout.groups, lookups, strict=True)
    )
    return math.ceil(inputs * (input_bytes + 8) + rows)


def _room(expected: float, grows: float = 1.0) -> int:
    """Room for the most of something that is expected so often, as it is made."""
    most = math.ceil(expected + 3 * math.sqrt(expected))
    return room_for({"fill": most}, grows=grows)["fill"]


def what_fits(parts: Mapping[str, int], total: int) -> str:
    """A sentence about a training that does not fit the memory of a device, and what would.

    Args:
        parts: Bytes by part, as `device_parts` gives them.
        total: Bytes that the device has for us.

    Example:
        >>> what_fits({"fast": 900 << 20, "plans": 100 << 20}, 512 << 20)[:75]
        'The GPU has 512 MiB for this run, which needs about 1,000 MiB: 900 MiB for '
    """
    mib = 1 << 20
    needed = ", ".join(f"{-(-size // mib):,} MiB for {name}" for name, size in parts.items())
    text = (
        f"The GPU has {total // mib:,} MiB for this run, which needs about "
        f"{sum(parts.values()) // mib:,} MiB: {needed}. "
    )
    fast = parts.get("fast", 0)
    rest = min(fast, total - (sum(parts.values()) - fast))  # it was too much, whatever was counted
    if rest > 64 * mib:
        return f"{text}Set placement.fast_memory to {rest * 9 // 10 // mib}MiB or less."
    return f"{text}Use smaller batches, or a smaller model."
