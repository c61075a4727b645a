"""Puts the parts of a training together, as a configuration says."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from slipstream import gpu
from slipstream.arrays import Array
from slipstream.config import Config
from slipstream.data.dataset import Dataset
from slipstream.errors import ConfigError
from slipstream.models import MODELS, Model, build_model
from slipstream.order import SEGMENT, Apart, InputOrder, Order, Rates, example_number
from slipstream.pipeline.dense import DensePart, worth_compiling
from slipstream.pipeline.engine import Engine
from slipstream.pipeline.place.accesses import Popularity, accesses_of
from slipstream.pipeline.place.budget import (
    auto_bytes,
    divide_budget,
    least_bytes,
    too_small_for_all,
)
from slipstream.pipeline.place.hot import HotInputs
from slipstream.pipeline.place.popularity import Refresh
from slipstream.pipeline.place.tier import TierSize
from slipstream.pipeline.place.tiered import Tiered
from slipstream.pipeline.place.working_set import WorkingSet, working_set_bound, working_set_of
from slipstream.pipeline.strategies import TierPolicy, default_strategy, strategy_of
from slipstream.skip import rule_choice
from slipstream.skip.accesses import AccessReader
from slipstream.skip.hot import HotRows, hot_rows
from slipstream.tables.no_cache import NoCache
from slipstream.tables.plan import Placement
from slipstream.tables.sizes import all_bytes, budget_bytes, row_bytes
from slipstream.tables.spec import Layout
from slipstream.tables.tables import Embeddings

COUNTED = 1 << 20
_OWN_KERNELS_DIM = 64  # up to which DLRM's interaction is a kernel of its own
_SMALL_BATCH = 16  # so often a batch fits a fast tier for which its exact rows do not matter


def check(config: Config, dataset: Dataset) -> None:
    """Raise an error where a configuration asks for what is not there."""
    chosen = strategy_of(config)
    if not len(dataset.train):
        raise ConfigError("There is nothing to train on: the training part has no inputs.")
    if config.early_stopping.every_inputs is not None and not len(dataset.validation):
        raise ConfigError(
            "early_stopping.every_inputs needs a validation part, and this data set has none. "
            "Leave it out, or prepare the data set with a validation part."
        )
    if chosen.ordering == "apart" and not len(dataset.validation):
        raise ConfigError(
            "Hot and cold batches alternate at a rate that follows the loss of the validation "
            "part, and this data set has none. Prepare it with a validation part, or set "
            "order.kind to as-is."
        )
    if chosen.ordering == "split" and config.compile == "on":
        raise ConfigError(
            "compile is on, but a batch in two parts has them in ever other sizes, and each would "
            "be compiled anew. Set compile to off."
        )
    rule_choice(chosen.skipping, config.skip.options, chosen.ordering)  # an error, if it is wrong
    if chosen.placement is not None or chosen.ordering == "apart":
        layout = model_of(config, dataset).layout
        needed = working_set(config, layout, dataset)
        budget = fast_bytes(config, layout, dataset)
        if (error := too_small_for_all(row_bytes(layout), needed, budget)) is not None:
            raise ConfigError(error)


def order_of(config: Config, dataset: Dataset) -> InputOrder:
    """In what order the inputs of the training part come, as far as they are not rearranged."""
    rows = len(dataset.train)
    return InputOrder(
        rows,
        seed=config.seed if config.shuffle else None,
        epochs=config.epochs,
        start=example_number(config.start, rows),
        stop=None if config.stop is None else example_number(config.stop, rows),
    )


def arranged(
    config: Config,
    layout: Layout,
    dataset: Dataset,
    tier_sizes: Sequence[TierSize] | None,
    hot: HotRows | None = None,
) -> Order:
    """The order of a run: as it is, or with hot and cold inputs apart."""
    base, chosen = order_of(config, dataset), strategy_of(config)
    if chosen.ordering == "cold-first":
        hot = hot or hot_of(config, layout, dataset)
        return Apart(base, hot, max(1, base.per_epoch), Rates(fixed=100), hot.digest)
    if chosen.ordering != "apart":
        return base
    if tier_sizes is None or chosen.placement is None or not chosen.placement.keep:
        tier_sizes = _tier_sizes(config, layout, dataset, keep=True, window=1)
    kept = HotInputs(dataset.train, layout, [tier_size.keep for tier_size in tier_sizes])
    lag = gpu.least_ordering_lag(config, base)
    return Apart(base, kept, SEGMENT * config.batch_size, Rates(lag), kept.digest)


def hot_of(config: Config, layout: Layout, dataset: Dataset) -> HotRows:
    """The hot rows as skipping has them: by a sample of accesses."""
    chosen = strategy_of(config)
    options = rule_choice(chosen.skipping, config.skip.options, chosen.ordering).hot
    order = order_of(config, dataset)
    trained = range(order.start, order.start + order.per_epoch)
    return hot_rows(AccessReader(dataset.train), layout, options, config.seed, trained)


def model_of(config: Config, dataset: Dataset) -> Model:
    """The model with fresh weights, and the layout of its tables."""
    schema = dataset.schema
    settings, tables = config.embedding.settings()
    wanted = dict(config.model.options)
    statistics = dense_statistics(dataset) if wanted.get("normalize_dense") else None
    return build_model(
        config.model.name,
        schema,
        lengths=longest(dataset),
        seed=config.seed,
        table_settings=settings,
        tables=tables,
        statistics=statistics,
        **wanted,
    )


def engine_of(
    config: Config,
    model: Model,
    steps: int,
    *,
    fresh: bool = True,
    tier_sizes: Sequence[TierSize] | None = None,
    kernels: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Engine:
    """The tables and the dense part of a model, ready to be stepped.

    Args:
        config: How.
        model: The dense part, and the layout of the tables.
        steps: How many steps there will be.
        fresh: Whether to fill the tables with first values.
        tier_sizes: The fast tier of each group; None without one.
        kernels: cpu, reference or gpu; None chooses.
        say: Told a sentence that a user should see.
    """
    kernels = kernels or ("gpu" if gpu.uses_gpu(config, tier_sizes) else "cpu")
    slots = None if tier_sizes is None else [tier_size.slots for tier_size in tier_sizes]
    seed = config.seed if fresh else None
    compiled = compiles(config, steps)
    if any(table.storage == "fp64" for table in model.layout.tables):
        model = model.double()  # rows for checks, and a dense part that is as exact
    if kernels == "gpu" and tier_sizes is not None:
        return gpu.build_graph_engine(
            config, model, tier_sizes, seed=seed, parts=parts_of(config), say=say
        )
    device = config.device if kernels == "cpu" else "cpu"  # the reference is plain all through
    tables = Embeddings(model.layout, seed=seed, slots=slots, engine=kernels, device=device)
    optimizer = gpu.weight_optimizer(device)
    dense = DensePart(
        model, config.dense, config.precision, compiled, device=device, optimizer=optimizer
    )
    return Engine(tables, dense)


def compiles(config: Config, steps: int) -> bool:
    """Whether the dense part of a run of so many steps is compiled."""
    own = config.device != "cpu" and MODELS[config.model.name].own_kernels
    own = own and config.model.options.get("dim", 0) <= _OWN_KERNELS_DIM
    return not (config.compile == "auto" and own) and worth_compiling(config, steps)


def parts_of(config: Config) -> int:
    """Parts of a batch."""
    return 2 if strategy_of(config).ordering == "split" else 1


def everything(layout: Layout) -> list[TierSize]:
    """A fast tier that all rows stay in."""
    return [TierSize(group.rows, np.arange(group.rows)) for group in layout.groups]


def tier_sizes_of(config: Config, layout: Layout, dataset: Dataset) -> list[TierSize] | None:
    """The fast tier of each group; None for a strategy without one."""
    tier = strategy_of(config).placement
    if tier is None:
        return None
    window = gpu.window_of(config)
    return _tier_sizes(config, layout, dataset, keep=tier.keep, window=window)


def fast_bytes(config: Config, layout: Layout, dataset: Dataset) -> int:
    """The bytes of the fast tier."""

    def auto() -> int:
        largest = working_set(config, layout, dataset).largest
        return auto_bytes(Popularity.of(layout, dataset.counts), largest)

    return budget_bytes(config.placement.fast_memory, layout, auto)


def working_set(config: Config, layout: Layout, dataset: Dataset) -> WorkingSet:
    """The most rows that a batch needs, or an upper bound where the fast tier is large.

    All batches are read only if the bound is more than a small part of the fast tier. If hot and
    cold examples are trained apart, these are the batches in the order of the data set, because
    which examples are hot depends on the rows in the fast tier.
    """
    lists = dataset.manifest.parts["train"].lists
    longest = {name: stats.longest for name, stats in lists.items()}
    bound = working_set_bound(layout, config.batch_size, longest)
    budget = budget_bytes(config.placement.fast_memory, layout, lambda: all_bytes(layout))
    if _SMALL_BATCH * least_bytes(row_bytes(layout), bound.largest) <= budget:
        return bound
    return working_set_of(layout, dataset, config.batch_size, order_of(config, dataset))


def tiered_of(
    config: Config, layout: Layout, dataset: Dataset, tier_sizes: Sequence[TierSize] | None
) -> Placement:
    """Where the rows of the tables live when a batch is trained."""
    tier = strategy_of(config).placement
    if tier is None or tier_sizes is None:
        return placement_of(layout, dataset)
    singles = [column.name for column in dataset.schema.singles]
    window, split = gpu.window_of(config), strategy_of(config).ordering == "split"
    if device_finishes(config, layout, dataset, tier_sizes):
        return gpu.device_placement(config, layout, singles, tier_sizes)
    return Tiered(
        layout,
        singles,
        _learned(tier_sizes) if tier.learning else tier_sizes,
        window,
        refresh=_refresh(config, tier, layout, dataset, tier_sizes) if tier.keep else None,
        split=split,
    )


def device_finishes(
    config: Config, layout: Layout, dataset: Dataset, tier_sizes: Sequence[TierSize]
) -> bool:
    """Whether a GPU finds kept rows by itself, so that plans say little."""
    tier = strategy_of(config).placement
    singles = [column.name for column in dataset.schema.singles]
    changes = tier is None or tier.learning
    if changes or strategy_of(config).ordering == "split":
        return False
    return gpu.device_finds_rows(config, layout, singles, tier_sizes)


def _learned(tier_sizes: Sequence[TierSize]) -> list[TierSize]:
    """The same fast tier with nothing in it at the start."""
    return [replace(tier_size, keep=tier_size.keep[:0]) for tier_size in tier_sizes]


def _refresh(
    config: Config,
    tier: TierPolicy,
    layout: Layout,
    dataset: Dataset,
    tier_sizes: Sequence[TierSize],
) -> Refresh:
    """When the kept rows of a tier are chosen anew."""
    return Refresh.of(
        tier.refresh,
        order_of(config, dataset).per_epoch / config.batch_size,
        [len(tier_size.keep) for tier_size in tier_sizes],
        learning=tier.learning,
        known=None if tier.learning else accesses_of(layout, dataset.counts),
        counted=len(dataset.train) / config.batch_size,
    )


def placement_of(layout: Layout, dataset: Dataset) -> NoCache:
    """Where the rows of the tables are when nothing moves: all in the slow store."""
    return NoCache(layout, [column.name for column in dataset.schema.singles])


def _tier_sizes(
    config: Config, layout: Layout, dataset: Dataset, *, keep: bool, window: int
) -> list[TierSize]:
    return divide_budget(
        layout,
        dataset.counts,
        len(dataset.train),
        fast_bytes(config, layout, dataset),
        keep=keep,
        batch_size=config.batch_size,
        window=window,
        needed=working_set(config, layout, dataset),
        apart=strategy_of(config).apart,
    )


def longest(dataset: Dataset) -> dict[str, int]:
    """For each sequence column its longest list in any part; at least 1.

    Histories, which share a table with a single column, are stepped through together: they all
    have the length of the longest.
    """
    schema, parts = dataset.schema, dataset.manifest.parts.values()
    sequences = [column for column in schema.lists if column.kind == "sequence"]
    lengths = {
        column.name: max([1, *(part.lists[column.name].longest for part in parts)])
        for column in sequences
    }
    targets = {column.table for column in schema.singles}
    histories = [column.name for column in sequences if column.table in targets]
    most = max((lengths[name] for name in histories), default=1)
    return {**lengths, **dict.fromkeys(histories, most)}


def dense_statistics(dataset: Dataset) -> tuple[list[float], list[float]]:
    """The mean and the deviation of each dense value over the first inputs of training."""
    part = dataset.train
    runs = part.runs(0, min(len(part), COUNTED))
    values: Array = np.concatenate([np.asarray(run.dense, dtype=np.float64) for run in runs])
    deviation = values.std(axis=0)
    return values.mean(axis=0).tolist(), np.where(deviation > 0, deviation, 1.0).tolist()


def steps_of(config: Config, order: InputOrder) -> int:
    """Steps of the whole run."""
    return math.ceil(len(order) / config.batch_size)


def about(config: Config, dataset: Dataset) -> dict[str, Any]:
    """What a run was: the first lines of its summary."""
    return {
        "strategy": config.strategy or default_strategy(config.device),
        "model": config.model.name,
        "dataset": str(dataset.folder.absolute()) if dataset.folder else "in memory",
        "seed": config.seed,
        "device": config.device,
    }
