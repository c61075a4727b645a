"""How much memory a training will take, part by part, before any of it is allocated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from slipstream.config import Config
from slipstream.data.dataset import Dataset
from slipstream.data.inputs import Array
from slipstream.data.layout import fixed_fields
from slipstream.data.lookup import bytes_needed
from slipstream.errors import ConfigError
from slipstream.gpu.memory_estimate import (
    device_parts,
    ring_bytes,
    scored_page,
    what_fits,
)
from slipstream.gpu.planning import plan_ahead
from slipstream.gpu.transfer.bundle import BUNDLES, SCORED
from slipstream.models import Model
from slipstream.pipeline.place.accesses import Popularity
from slipstream.pipeline.place.budget import lookups_beside, rows_beside
from slipstream.pipeline.place.tier import Room
from slipstream.pipeline.strategies import answers
from slipstream.skip.context import used_up
from slipstream.skip.hot import hot_bytes
from slipstream.skip.rule import Rule
from slipstream.skip.rules import rule
from slipstream.tables.spec import Layout
from slipstream.tables.store import Record
from slipstream.training import build
from slipstream.training.checkpoint.save import RANGE_BYTES
from slipstream.training.evaluation import auc_mode
from slipstream.training.footprint import step_bytes, without_values
from slipstream.training.resolved import resolved

MIB = 1 << 20
# Measured: Python, torch, Numba and what they have compiled; a compiler inside the process.
_PROCESS, _COMPILED, _TENSORBOARD = 262 * MIB, 80 * MIB, 8 * MIB
# Measured over models and batch sizes: what the C library holds for each byte that a step needs at
# once, because freed pieces are kept for the next step and seldom fit each other.
_HELD = 2.5
_PLAN = 160  # bytes for each lookup of a batch: slots, distinct rows, where gradients come from
_PLANNED = 32  # bytes for each lookup of a batch that waits in the window
# Bytes of every row about the fast tier: its slot and last use; its accesses, put in order.
_ROW, _RANKED = 12, 16
_HOT = 5  # bytes of a row that say whether it is hot
_READ_AHEAD, _AT_ONCE = 4, 1 << 15
# While a checkpoint is written, training goes on and keeps the rows that it changes.
_WRITTEN_PER_SECOND, _TRAINED_PER_SECOND = 300e6, 50_000
_STATES = {"sgd": 0, "adagrad": 1, "adam": 2}
_COUNTS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Estimate:
    """Bytes by part, in words; what they add up to is what a run takes at its peak.

    Args:
        host: Anonymous memory of the process: what belongs to no file.
        device: Memory of the device that trains, if it has its own.
    """

    host: dict[str, int]
    device: dict[str, int]

    def to_json(self) -> dict[str, Any]:
        """Parts and totals, as JSON has them."""
        return {
            "host": self.host,
            "host_bytes": sum(self.host.values()),
            "device": self.device,
            "device_bytes": sum(self.device.values()),
        }


def estimate(dataset: Dataset, config: Config) -> Estimate:
    """The memory that `train` takes with this configuration, from shapes alone.

    Args:
        dataset: What will be trained on; only its manifest is read, and, where there is a fast tier
            or checkpoints are saved on the way, how often each id occurs. Where the fast tier is so
            small that a batch may not fit, all inputs are read.
        config: How.

    Example:
        >>> made = estimate(dataset, Config(batch_size=256))
        >>> list(made.host)[:3], made.device
        (['process', 'rows', 'dense'], {})
    """
    build.check(config, dataset)
    model = without_values(lambda: build.model_of(_without_statistics(config), dataset))
    layout = model.layout
    weights = sum(one.numel() for one in model.parameters())
    decided = resolved(config, build.order_of(config, dataset))
    config = config.replace(skip=decided.skip)
    process = _PROCESS + (_COMPILED if decided.compile == "on" else 0)
    dense = 4 * weights * (2 + _STATES[config.dense.optimizer])
    rows = rows_bytes(layout)
    activations = _activations(model, dataset, config)
    rooms = build.rooms_of(config, layout, dataset)
    host = {
        "process": process + (_TENSORBOARD if "tensorboard" in config.log.trackers else 0),
        "rows": rows,
        "dense": dense,
        "activations": activations,
        "loader": _loader(dataset, config, rooms),
        "evaluation": _evaluation(dataset, config),
        "checkpoint": _checkpoint(layout, dataset, config, rows) + dense - 4 * weights,
    }
    on_device = config.device != "cpu"
    fast = _fast(layout, dataset, config, rooms, on_device)
    if fast:
        host["fast"] = fast
    skipping = _skipping(layout, dataset, config)
    if skipping:
        host["skipping"] = skipping
    beginning = _beginning(dataset, config)
    if beginning > activations:  # the memory is used again for what steps work on
        host["beginning"] = beginning - activations
    if not on_device:
        return Estimate(host, {})
    input_bytes = _input_bytes(dataset)
    rings = scored = 0
    lookups, evaluated = _lookups(layout, dataset), config.batch_size
    if rooms is not None:
        finished = build.device_finishes(config, layout, dataset, rooms)
        popularity, size = Popularity.of(layout, dataset.counts), config.batch_size
        many = (popularity, rooms, len(dataset.train))
        rings, packed = (
            ring_bytes(
                layout,
                rows_beside(*many, size),
                inputs=size,
                input_bytes=each,
                lookups=lookups_beside(*many, size) if finished else lookups,
                pages=BUNDLES * plan_ahead.together(config, rooms),
                grows=plan_ahead.colder(config),
            )
            for each in (input_bytes, 0)
        )
        page = 0  # where plans are worked out on the host, it looks up the rows to score, too
        if finished:
            page = scored_page(
                layout,
                lookups_beside(*many, evaluated),
                inputs=evaluated,
                input_bytes=input_bytes,
            )
        scored = (SCORED + 1) * page  # and the block that a page is copied to
        host["pinned"] = packed + SCORED * page  # inputs come from where they are read
    device = device_parts(
        layout,
        rooms,
        inputs=config.batch_size,
        lookups=lookups,
        weights=weights,
        states=_STATES[config.dense.optimizer],
        step=_step(model, dataset, config),
        rings=rings,
        parts=build.parts_of(config),
        scored=scored,
        scored_inputs=min(evaluated, len(dataset.evaluation)),
    )
    return Estimate(host, device)


def does_not_fit(
    dataset: Dataset, config: Config, beside: Mapping[str, int] | None = None
) -> ConfigError:
    """For a device whose memory is used up: what is needed of it, and what would fit.

    Args:
        dataset: What is trained on.
        config: How.
        beside: Bytes that something other than the training needs, by name.
    """
    parts = {**estimate(dataset, config).device, **(beside or {})}
    return ConfigError(what_fits(parts, device_room(config.device)))


def device_room(device: str) -> int:
    """Bytes of a GPU's memory that no other process has."""
    total = torch.cuda.get_device_properties(device).total_memory
    others = total - torch.cuda.mem_get_info(device)[0] - torch.cuda.memory_reserved(device)
    return int(total - max(0, others))


def rows_bytes(layout: Layout) -> int:
    """The rows of all tables with their optimizer state, as the slow store keeps them."""
    return sum(4 * Record.of(group).words * group.rows for group in layout.groups)


def _skipping(layout: Layout, dataset: Dataset, config: Config) -> int:
    """What a rule keeps for rows, decisions, the hot rows with a copy; twice when saved."""
    name = answers(config).skipping
    if name == "none":
        return 0
    kind, rows = rule(name), sum(table.rows for table in dataset.schema.tables)
    frozen = kind.FROZEN + (kind.FROZEN_AGAIN if config.epochs > 1 else 0)
    kept = rows * (kind.GATHERED + _decisions(kind, dataset, config) * frozen)
    hot = 0
    if kind.needs_hot(config.skip):
        elements = sum(4 * table.rows * table.dim for table in layout.tables)
        kept += min(elements, hot_bytes(config.skip, layout))
        hot = rows * _HOT + len(dataset.train)
    return 2 * kept + hot


def _decisions(kind: type[Rule], dataset: Dataset, config: Config) -> int:
    """How many decisions there are at once: one holds, and others wait for their first batch."""
    keys, order = config.skip, build.order_of(config, dataset)
    if kind.decides_once(keys):
        return 2
    assert keys.lag is not None, "what a configuration leaves open is decided before"
    late = used_up(keys.lag * config.batch_size, max(keys.shares or (keys.target,)))
    return 2 + int(min(late, len(order)) / max(1, keys.interval * order.per_epoch))


def _fast(
    layout: Layout,
    dataset: Dataset,
    config: Config,
    rooms: Sequence[Room] | None,
    on_device: bool,
) -> int:
    """The fast tier's slots, what is kept of each row about it, and the window of batches."""
    if rooms is None:
        return 0
    slots = sum(
        room.slots * ((0 if on_device else 4 * Record.of(group).words) + 8)
        for room, group in zip(rooms, layout.groups, strict=True)
    )
    ranked = _RANKED if any(len(room.keep) for room in rooms) else 0
    known = (_ROW + ranked) * sum(group.rows for group in layout.groups)
    steps = math.ceil(len(build.order_of(config, dataset)) / config.batch_size)
    window = min(plan_ahead.window_of(config), steps)
    each = _PLANNED * _lookups(layout, dataset) + _input_bytes(dataset)
    return slots + known + math.ceil(window * config.batch_size * each)


def _without_statistics(config: Config) -> Config:
    """The same model, without the pass over the data that normalizing dense values begins with."""
    options = {k: v for k, v in config.model.options.items() if k != "normalize_dense"}
    return config.replace(model=config.model.replace(options=options))


def _beginning(dataset: Dataset, config: Config) -> int:
    """What is taken before the first step, and given back: statistics, and matching of rows."""
    needed = 0
    if config.model.options.get("normalize_dense"):
        needed = 3 * 8 * len(dataset.schema.dense) * min(len(dataset.train), build.COUNTED)
    if config.init_from is not None:
        rows = [table.rows for table in dataset.schema.tables]
        matching = bytes_needed(max(rows)) + 16 * max(rows) + 8 * sum(rows)
        needed = max(needed, matching + 2 * RANGE_BYTES)
    return needed


def _activations(model: Model, dataset: Dataset, config: Config) -> int:
    plan = _PLAN * config.batch_size * _lookups(model.layout, dataset)
    step = 0 if config.device != "cpu" else _step(model, dataset, config)
    return math.ceil(_HELD * step + plan)


def _step(model: Model, dataset: Dataset, config: Config) -> int:
    """What the forward and the backward pass need at once."""
    return step_bytes(
        model,
        config.batch_size,
        dense=len(dataset.schema.dense),
        half=config.precision == "bf16",
    )


def _lookups(layout: Layout, dataset: Dataset) -> float:
    """Lookups of an input, on average."""
    lookups = float(len(dataset.schema.singles))
    lookups += sum(_mean_length(dataset, column.name) for column in dataset.schema.lists)
    return lookups * len(layout.features) / max(1, len(dataset.schema.columns))


def _input_bytes(dataset: Dataset) -> float:
    """Bytes of an input in a batch, on average."""
    schema = dataset.schema
    fixed: float = 12 + sum(f.bytes_per_input for f in fixed_fields(schema).values())
    return fixed + sum(16 + 12 * _mean_length(dataset, column.name) for column in schema.lists)


def _loader(dataset: Dataset, config: Config, rooms: Sequence[Room] | None) -> int:
    """Blocks of batches: those read ahead, the one in use, one being filled; twice, for scoring.

    For a GPU those are in use that are read, planned, and on their way.
    """
    input_bytes = _input_bytes(dataset)
    total = 0.0
    sizes = [config.batch_size, config.batch_size]
    if plan_ahead.plans_ahead(config, rooms):
        read = plan_ahead.read_at_once(config, rooms)
        # Page-locked memory comes in powers of two.
        block = 1 << (math.ceil(input_bytes * sizes.pop(0) * read) - 1).bit_length()
        inputs = len(build.order_of(config, dataset))
        total += block * plan_ahead.reads_held(config, rooms, inputs)
    for size in sizes:
        at_once = max(1, _AT_ONCE // size)
        total += input_bytes * size * at_once * (math.ceil((_READ_AHEAD + 1) / at_once) + 2)
    if answers(config).ordering == "cold-first":  # an epoch's inputs by number, before and after
        total += 17 * build.order_of(config, dataset).per_epoch
    return math.ceil(total)


def _evaluation(dataset: Dataset, config: Config) -> int:
    """The scores of a part, kept for an exact AUC, and sorted."""
    parts = [dataset.evaluation]
    if config.early_stopping.every_inputs is not None:
        parts.append(dataset.validation)
    if any(auc_mode(part) == "bounded" for part in parts):
        return 12 * MIB
    return 2 * MIB + max(map(len, parts)) * (44 if dataset.schema.weights else 8)


def _checkpoint(layout: Layout, dataset: Dataset, config: Config, rows: int) -> int:
    """A file of rows while it is written; and the rows that change before they are read."""
    largest = max(4 * Record.of(group).words * group.rows for group in layout.groups)
    buffer = min(RANGE_BYTES, largest)
    plan = config.checkpoint
    if plan.every_inputs is None and plan.every_minutes is None:
        return buffer
    trained = math.ceil(rows / _WRITTEN_PER_SECOND * _TRAINED_PER_SECOND)
    inputs = min(trained, plan.every_inputs or trained, len(dataset.train))
    kept = 0.0
    touched: dict[str, float] = {}
    for group in layout.groups:
        record = 4 * Record.of(group).words
        for table in group.tables:
            name = table.name.partition("/")[0]
            if name not in touched:
                touched[name] = _touched(dataset, name, inputs)
            # Half of what changes has been read already, on the average.
            kept += touched[name] / 2 * record + 4 * touched[name]
    return buffer + math.ceil(kept)


def _touched(dataset: Dataset, table: str, inputs: int) -> float:
    """How many distinct rows of a table so many inputs are expected to change."""
    counts, total, distinct = dataset.counts(table), len(dataset.train), 0.0
    for start in range(0, len(counts), _COUNTS_AT_ONCE):
        some: Array = np.asarray(counts[start : start + _COUNTS_AT_ONCE], dtype=np.float64)
        distinct += float(-np.expm1(-some * (inputs / max(1, total))).sum())
    return distinct


def _mean_length(dataset: Dataset, column: str) -> float:
    part = dataset.manifest.parts["train"]
    return part.lists[column].values / max(1, part.rows)
