"""How much memory a training will take, part by part, before any of it is allocated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream import gpu
from slipstream.config import Config
from slipstream.data.dataset import Dataset
from slipstream.data.key_table import bytes_needed
from slipstream.data.layout import fixed_fields
from slipstream.errors import ConfigError
from slipstream.pipeline.place.accesses import Popularity
from slipstream.pipeline.place.tier import TierSize
from slipstream.pipeline.strategies import strategy_of
from slipstream.skip import rule_choice
from slipstream.skip.context import order_span
from slipstream.skip.hot import hot_bytes
from slipstream.tables.spec import Layout
from slipstream.tables.store import Record
from slipstream.training import build
from slipstream.training.checkpoint.save import RANGE_BYTES
from slipstream.training.complete_config import config_of_run
from slipstream.training.evaluation import auc_mode
from slipstream.training.example_order import order_of
from slipstream.training.placement import device_finds_rows, tier_sizes_of
from slipstream.training.step_memory import step_bytes, without_values

MIB = 1 << 20
# Measured: Python, torch, Numba and their compiled code; a compiler in the process; TensorBoard.
_PROCESS, _COMPILED, _TENSORBOARD = 262 * MIB, 80 * MIB, 8 * MIB
# Measured over models and batch sizes: bytes that the C library keeps for each byte of a step.
_ALLOCATOR = 2.5
_PLAN, _PLAN_IN_WINDOW = 160, 32  # bytes for each lookup of a batch
_TIER_ROW, _RANKED_ROW, _HOT_ROW = 12, 16, 5  # bytes for each row of all tables
_READ_AHEAD, _READ_AT_ONCE = 4, 1 << 15  # batches, examples
# Training changes rows while a checkpoint is written: bytes written, examples trained in a second.
_WRITTEN, _TRAINED = 300e6, 50_000
_STATES = {"sgd": 0, "adagrad": 1, "adam": 2}


@dataclass(frozen=True)
class Estimate:
    """Bytes by part. Their sum is the peak of a run."""

    host: dict[str, int]  # memory of the process that belongs to no file
    device: dict[str, int]  # memory of the GPU; empty on the CPU

    def to_json(self) -> dict[str, Any]:
        """Parts and sums as plain JSON values."""
        return {
            "host": self.host,
            "host_bytes": sum(self.host.values()),
            "device": self.device,
            "device_bytes": sum(self.device.values()),
        }


def estimate(dataset: Dataset, config: Config) -> Estimate:
    """The memory that `train` takes with this configuration, from shapes alone.

    Args:
        dataset: The data set to train on. Its examples are read only if the fast tier is so small
            that a batch may not fit.
        config: The configuration.

    Example:
        >>> result = estimate(dataset, Config(batch_size=256))
        >>> list(result.host)[:3], result.device
        (['process', 'rows', 'dense'], {})
    """
    build.check(config, dataset)
    # The statistics of dense values would need a pass over the data.
    options = {k: v for k, v in config.model.options.items() if k != "normalize_dense"}
    plain = config.replace(model=config.model.replace(options=options))
    model = without_values(lambda: build.model_of(plain, dataset))
    layout, order = model.layout, order_of(config, dataset)
    decided = config_of_run(config, order)
    config = config.replace(skip=decided.skip)
    tiers = tier_sizes_of(config, layout, dataset)
    on_device = config.device != "cpu"
    weights = sum(weight.numel() for weight in model.parameters())
    states, rows = _STATES[config.dense.optimizer], all_row_bytes(layout)
    half = config.precision == "bf16"
    activations = step_bytes(model, config.batch_size, dense=len(dataset.schema.dense), half=half)
    lookups, example = _lookups(layout, dataset), _example_bytes(dataset)
    on_host = 0 if on_device else _ALLOCATOR * activations
    host = {
        "process": _PROCESS
        + (_COMPILED if decided.compile == "on" else 0)
        + (_TENSORBOARD if "tensorboard" in config.log.trackers else 0),
        "rows": rows,
        "dense": 4 * weights * (2 + states),
        "activations": math.ceil(on_host + _PLAN * config.batch_size * lookups),
        "loader": gpu.read_ahead_bytes(config, tiers, example, len(order))
        + _loader(dataset, config, example, tiers),
        "evaluation": _evaluation(dataset, config),
        "checkpoint": _checkpoint(layout, dataset, config, rows) + 4 * weights * (1 + states),
        "fast": _fast(layout, dataset, config, tiers, lookups, example, on_device=on_device),
        "skipping": _skipping(layout, dataset, config),
    }
    # The first steps use the memory of the start again.
    host["start"] = max(0, _start(dataset, config) - host["activations"])
    device: dict[str, int] = {}
    if on_device:
        step = gpu.StepSizes(
            examples=config.batch_size,
            example_bytes=example,
            lookups=lookups,
            weights=weights,
            states=states,
            activations=activations,
            parts=build.parts_of(config),
        )
        device, host["pinned"] = gpu.memory_estimate(
            config,
            layout,
            tiers,
            step,
            popularity=Popularity.of(layout, dataset.counts),
            examples=len(dataset.train),
            finished=tiers is not None and device_finds_rows(config, layout, dataset, tiers),
        )
    optional = ("fast", "skipping", "start", "pinned")
    host = {part: bytes_ for part, bytes_ in host.items() if bytes_ or part not in optional}
    return Estimate(host, device)


def does_not_fit(
    dataset: Dataset, config: Config, other: Mapping[str, int] | None = None
) -> ConfigError:
    """The error for a device that is out of memory: the memory needed, and what would fit.

    `other` are bytes that are not the training's, by name.
    """
    parts = {**estimate(dataset, config).device, **(other or {})}
    return ConfigError(gpu.out_of_memory(parts, config.device))


def all_row_bytes(layout: Layout) -> int:
    """The rows of all tables with their optimizer state."""
    return sum(4 * Record.of(group).words * group.rows for group in layout.groups)


def _fast(
    layout: Layout,
    dataset: Dataset,
    config: Config,
    tiers: Sequence[TierSize] | None,
    lookups: float,
    example: float,
    *,
    on_device: bool,
) -> int:
    """The slots of the fast tier, where each row is, and the batches of the window."""
    if tiers is None:
        return 0
    slots = sum(
        tier.slots * ((0 if on_device else 4 * Record.of(group).words) + 8)
        for tier, group in zip(tiers, layout.groups, strict=True)
    )
    row = _TIER_ROW + (_RANKED_ROW if any(len(tier.keep) for tier in tiers) else 0)
    steps = math.ceil(len(order_of(config, dataset)) / config.batch_size)
    window = min(gpu.window_of(config), steps) * config.batch_size
    in_window = math.ceil(window * (_PLAN_IN_WINDOW * lookups + example))
    return slots + row * sum(group.rows for group in layout.groups) + in_window


def _loader(
    dataset: Dataset, config: Config, example: float, tiers: Sequence[TierSize] | None
) -> int:
    """Batches that are read ahead, in use and being filled, for training and for scoring."""
    # For training on a GPU they are in page-locked memory, which is counted with it.
    loaders = 1 if gpu.plans_in_threads(config, tiers) else 2
    at_once = max(1, _READ_AT_ONCE // config.batch_size)
    batches = loaders * at_once * (math.ceil((_READ_AHEAD + 1) / at_once) + 2)
    total = batches * config.batch_size * example
    if strategy_of(config).ordering == "cold-first":  # an epoch's order before and after
        total += 17 * order_of(config, dataset).per_epoch
    return math.ceil(total)


def _evaluation(dataset: Dataset, config: Config) -> int:
    """The scores of a part, which an exact AUC keeps and sorts."""
    parts = [dataset.evaluation]
    if config.early_stopping.every_inputs is not None:
        parts.append(dataset.validation)
    if any(auc_mode(part) == "bounded" for part in parts):
        return 12 * MIB
    return 2 * MIB + max(map(len, parts)) * (44 if dataset.schema.weights else 8)


def _checkpoint(layout: Layout, dataset: Dataset, config: Config, rows: int) -> int:
    """A file of rows, and the rows that training changes before they are written."""
    largest = max(4 * Record.of(group).words * group.rows for group in layout.groups)
    buffer, plan = min(RANGE_BYTES, largest), config.checkpoint
    if plan.every_inputs is None and plan.every_minutes is None:
        return buffer
    trained = math.ceil(rows / _WRITTEN * _TRAINED)
    examples = min(trained, plan.every_inputs or trained, len(dataset.train))
    share = examples / max(1, len(dataset.train))
    copied = 0.0
    for group in layout.groups:
        for table in group.tables:
            counts = np.asarray(dataset.counts(table.name.partition("/")[0]), dtype=np.float32)
            changed = float(-np.expm1(-counts * share).sum())
            # On average, half of the rows that change have been written before.
            copied += changed * (4 * Record.of(group).words / 2 + 4)
    return buffer + math.ceil(copied)


def _skipping(layout: Layout, dataset: Dataset, config: Config) -> int:
    """Counts and decisions of a rule and its copy of hot rows; twice, since they are saved."""
    chosen = strategy_of(config)
    choice = rule_choice(chosen.skipping, config.skip.options, chosen.ordering)
    if choice.kind is None:
        return 0
    keys, order, decisions = config.skip, order_of(config, dataset), 2
    if getattr(choice.options, "repeat", True):
        assert keys.lag is not None, "`resolved` sets it"
        target = max(keys.target_schedule or (keys.target,))
        delay = order_span(keys.lag * config.batch_size, target)
        decisions += int(min(delay, len(order)) / max(1, keys.interval * order.per_epoch))
    rows = sum(table.rows for table in dataset.schema.tables)
    gathered, of_decision = choice.kind.row_bytes
    saved, hot = rows * (gathered + decisions * of_decision), 0
    if choice.needs_hot_rows:
        elements = sum(4 * table.rows * table.dim for table in layout.tables)
        saved += min(elements, hot_bytes(choice.hot, layout))
        hot = rows * _HOT_ROW + len(dataset.train)
    return 2 * saved + hot


def _start(dataset: Dataset, config: Config) -> int:
    """Statistics of dense values and the matching of rows, before the first step."""
    needed = 0
    if config.model.options.get("normalize_dense"):
        needed = 3 * 8 * len(dataset.schema.dense) * min(len(dataset.train), build.COUNTED)
    if config.init_from is not None:
        rows = [table.rows for table in dataset.schema.tables]
        matching = bytes_needed(max(rows)) + 16 * max(rows) + 8 * sum(rows)
        needed = max(needed, matching + 2 * RANGE_BYTES)
    return needed


def _lookups(layout: Layout, dataset: Dataset) -> float:
    """Lookups of an example, on average."""
    lookups = len(dataset.schema.singles) + sum(_lengths(dataset))
    return lookups * len(layout.features) / max(1, len(dataset.schema.columns))


def _example_bytes(dataset: Dataset) -> float:
    """Bytes of an example in a batch, on average."""
    fields = fixed_fields(dataset.schema).values()
    fixed = 12.0 + sum(field.bytes_per_input for field in fields)
    return fixed + sum(16 + 12 * length for length in _lengths(dataset))


def _lengths(dataset: Dataset) -> list[float]:
    """The mean length of each list column."""
    part = dataset.manifest.parts["train"]
    return [part.lists[c.name].values / max(1, part.rows) for c in dataset.schema.lists]
