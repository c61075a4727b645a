"""Builds the model, the engine and the order of examples that a configuration describes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from slipstream import gpu
from slipstream.arrays import Array
from slipstream.config import Config
from slipstream.data.dataset import Dataset
from slipstream.errors import ConfigError
from slipstream.models import MODELS, Model, build_model
from slipstream.order import SEGMENT, Apart, Order, Rates
from slipstream.pipeline.dense import DensePart, worth_compiling
from slipstream.pipeline.engine import Engine
from slipstream.pipeline.place.budget import too_small_for_all
from slipstream.pipeline.place.hot import HotInputs
from slipstream.pipeline.place.tier import TierSize
from slipstream.pipeline.strategies import strategy_of
from slipstream.skip import rule_choice
from slipstream.skip.hot import HotRows
from slipstream.tables.sizes import row_bytes
from slipstream.tables.spec import Layout
from slipstream.tables.tables import Embeddings
from slipstream.training.example_order import hot_rows_of, order_of
from slipstream.training.placement import fast_bytes, tier_sizes_for, working_set

COUNTED = 1 << 20
_OWN_KERNELS_DIM = 64  # up to which DLRM's interaction is a kernel of its own


def check(config: Config, dataset: Dataset) -> None:
    """Raise an error if the data set lacks something that the configuration needs."""
    chosen = strategy_of(config)
    if not len(dataset.train):
        raise ConfigError("There is nothing to train on: the training part has no examples.")
    if config.early_stopping.every_inputs is not None and not len(dataset.validation):
        raise ConfigError(
            "early_stopping.every_inputs needs a validation part, and this data set has none. "
            "Omit it, or prepare the data set with a validation part."
        )
    if chosen.ordering == "apart" and not len(dataset.validation):
        raise ConfigError(
            "Hot and cold batches alternate at a rate that follows the loss of the validation "
            "part, and this data set has none. Prepare it with a validation part, or set "
            "order.kind to as-is."
        )
    if chosen.ordering == "split" and config.compile == "on":
        raise ConfigError(
            "compile is on, but the two parts of a batch have other sizes in every batch, and each "
            "size would be compiled anew. Set compile to off."
        )
    rule_choice(chosen.skipping, config.skip.options, chosen.ordering)  # an error, if it is wrong
    if chosen.placement is not None or chosen.ordering == "apart":
        layout = model_of(config, dataset).layout
        rows = working_set(config, layout, dataset)
        budget = fast_bytes(config, layout, dataset)
        if (error := too_small_for_all(row_bytes(layout), rows, budget)) is not None:
            raise ConfigError(error)


def run_order(
    config: Config,
    layout: Layout,
    dataset: Dataset,
    tier_sizes: Sequence[TierSize] | None,
    hot: HotRows | None = None,
) -> Order:
    """The order of examples in a run: as it is, or with hot and cold examples apart."""
    base, chosen = order_of(config, dataset), strategy_of(config)
    if chosen.ordering == "cold-first":
        hot = hot or hot_rows_of(config, layout, dataset)
        return Apart(base, hot, max(1, base.per_epoch), Rates(fixed=100), hot.digest)
    if chosen.ordering != "apart":
        return base
    if tier_sizes is None or chosen.placement is None or not chosen.placement.keep:
        tier_sizes = tier_sizes_for(config, layout, dataset, keep=True, window=1)
    hot_inputs = HotInputs(dataset.train, layout, [tier_size.keep for tier_size in tier_sizes])
    lag = gpu.least_ordering_lag(config, base)
    segment = SEGMENT * config.batch_size
    return Apart(base, hot_inputs, segment, Rates(lag), hot_inputs.digest)


def model_of(config: Config, dataset: Dataset) -> Model:
    """The model with fresh weights, and the layout of its tables."""
    settings, tables = config.embedding.settings()
    options = config.model.options
    return build_model(
        config.model.name,
        dataset.schema,
        lengths=longest(dataset),
        seed=config.seed,
        table_settings=settings,
        tables=tables,
        statistics=dense_statistics(dataset) if options.get("normalize_dense") else None,
        **options,
    )


def engine_of(
    config: Config,
    model: Model,
    steps: int,
    *,
    fresh: bool = True,
    tier_sizes: Sequence[TierSize] | None = None,
    kernels: str | None = None,
    on_message: Callable[[str], None] = lambda _: None,
) -> Engine:
    """The tables and the dense part of a model: an engine for a run of so many steps.

    If `fresh`, rows get first values. `kernels` is cpu, reference or gpu; None chooses.
    """
    kernels = kernels or ("gpu" if gpu.uses_gpu(config, tier_sizes) else "cpu")
    slots = None if tier_sizes is None else [tier_size.slots for tier_size in tier_sizes]
    seed = config.seed if fresh else None
    compiled = compiles(config, steps)
    if any(table.storage == "fp64" for table in model.layout.tables):
        model = model.double()  # rows for checks, and a dense part that is as exact
    if kernels == "gpu" and tier_sizes is not None:
        return gpu.build_graph_engine(
            config, model, tier_sizes, seed=seed, parts=parts_of(config), on_message=on_message
        )
    device = config.device if kernels == "cpu" else "cpu"  # the reference is plain all through
    tables = Embeddings(model.layout, seed=seed, slots=slots, kernels=kernels, device=device)
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
    """The mean and the deviation of each dense value over the first examples of training."""
    part = dataset.train
    runs = part.runs(0, min(len(part), COUNTED))
    values: Array = np.concatenate([np.asarray(run.dense, dtype=np.float64) for run in runs])
    deviation = values.std(axis=0)
    return values.mean(axis=0).tolist(), np.where(deviation > 0, deviation, 1.0).tolist()
