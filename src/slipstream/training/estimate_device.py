"""How much memory of a GPU a training will take, part by part."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from slipstream.embedding.spec import Layout
from slipstream.embedding.store import Record
from slipstream.placement.tier import Room

# Bytes for each lookup of a batch: what a plan has of it on the device, and what finding the rows
# that it touches takes meanwhile.
_PLANNED, _FOUND = 16, 44
_SPARE = 1.25  # room for rows that come and leave, beyond what the first plans need
# What PyTorch's allocator holds beyond what is in use at once, and libraries for their products.
_HELD, _LIBRARIES = 1.15, 40 << 20
# Where steps are recorded: activations are held by the recording, and some by what runs outside it,
# and so is the room of libraries; each stream has rounded pieces of its own. Measured on an H200
# with Criteo Kaggle's tables at batch 16,384, where a step needs 139 MiB at once: recordings held
# 163. What is only scored works in the memory of steps.
_HELD_RECORDED, _LIBRARIES_RECORDED = 1.17, 150 << 20


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
    scored: int = 0,
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
        scored: The same, of pages of batches that are only scored.
    """
    libraries, held = _LIBRARIES, _HELD
    if rooms is not None:
        libraries, held = _LIBRARIES_RECORDED, _HELD_RECORDED
    made = {
        "dense": 4 * weights * (3 + states) + libraries,
        "activations": math.ceil(held * step),
    }
    if rooms is None:
        return made
    found = inputs * lookups * (_PLANNED + _FOUND)
    pairs = zip(layout.groups, rooms, strict=True)
    fast = sum(4 * Record.of(group).words * room.slots for group, room in pairs)
    return {"fast": fast, "plans": math.ceil(rings + found), **made, "evaluation": scored}


def ring_bytes(
    layout: Layout, rooms: Sequence[Room], *, inputs: int, input_bytes: float, pages: int
) -> int:
    """Bytes of the pages of plans and of results: as many on the device as, pinned, on the host.

    Args:
        layout: Tables and features.
        rooms: The fast tier of each group.
        inputs: Inputs of a batch.
        input_bytes: Bytes of an input in a batch.
        pages: Plans that there is room for, and as many results.
    """
    rows = sum(
        4 * Record.of(group).words * min(room.slots - len(room.keep), inputs)
        for group, room in zip(layout.groups, rooms, strict=True)
    )
    return math.ceil(pages * (inputs * (input_bytes + 8) + 2 * _SPARE * rows))


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
