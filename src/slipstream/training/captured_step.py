"""Trains a user's own module and loss in one recorded step, with the rows of slipstream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import NamedTuple

import torch
from torch import Tensor, nn

from slipstream import gpu
from slipstream.background import low_latency_interpreter
from slipstream.config import Config
from slipstream.data.dataset import Dataset
from slipstream.data.loader import Loader
from slipstream.errors import ConfigError
from slipstream.pipeline.dense import DensePart, worth_compiling
from slipstream.pipeline.engine import StepResult, weighted_loss
from slipstream.pipeline.schedule import rate
from slipstream.pipeline.strategies import strategy_of
from slipstream.tables.module import EmbeddingTables
from slipstream.tables.plan import Plan, Planner
from slipstream.tables.spec import Embedded
from slipstream.training.example_order import loader_of, order_of, steps_of
from slipstream.training.placement import placement_for, tier_sizes_of

OwnLoss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""The loss of a batch, from the outputs of the module, the labels and the weights."""
_NOT_RECORDED = (
    "Steps run one operation after the other: device is {device}, and only on a GPU (device: cuda) "
    "is a step recorded and replayed."
)
_NO_ROOM = (
    "The GPU's memory is used up, with a fast tier of {}. Set placement.fast_memory to less, use "
    "smaller batches, or a smaller module."
)


class CapturedResult(NamedTuple):
    """The result of one step."""

    loss: float
    outputs: Tensor  # of the module for its examples, before the update; on the CPU
    inputs: int  # how many examples it had
    position: int  # examples of the order that are done after it


class CapturedStep:
    """Your own module and loss, trained together with embedding tables as one recorded step.

    On a GPU the whole step is one CUDA graph: the module must do the same operations for every
    batch, and must not read values on the host. If it cannot be recorded, and on a CPU, operations
    run one after the other, and a message gives the reason.

    Args:
        dataset: The data set. Its counts decide which rows stay on the device.
        tables: The tables of the data set: `EmbeddingTables.for_schema`. Between two passes they
            hold the current rows; during a pass nothing else may use them.
        module: Called with the dense values `[inputs, values]` and the vectors of each column by
            name, as the tables return them; returns one number for each example. It is moved to the
            device. Columns that it does not use have gradients of zero, which Adam and weight decay
            still apply.
        loss: Called with these numbers, labels and weights, `[inputs]` each; the last batch is
            filled up with inputs of weight 0. The default is the weighted mean logloss of logits.
        config: Used are batch_size, device, precision, compile, epochs, start, stop, shuffle, seed,
            dense, schedule and placement.
        on_message: Called with a sentence that a user should see.

    Example:
        >>> import torch
        >>> class Mine(torch.nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.top = torch.nn.Linear(4 + 8, 1)
        ...     def forward(self, dense, vectors):
        ...         pair = vectors["site"] * vectors["ad"]
        ...         return self.top(torch.cat([dense, pair], dim=1)).squeeze(1)
        >>> tables = slipstream.EmbeddingTables.for_schema(dataset.schema, dim=8)
        >>> step = CapturedStep(dataset, tables, Mine(), config=Config(batch_size=512))
        >>> [result.inputs for result in step.through()]
        [512, 512, 512, 164]
    """

    def __init__(
        self,
        dataset: Dataset,
        tables: EmbeddingTables,
        module: nn.Module,
        loss: OwnLoss | None = None,
        *,
        config: Config | None = None,
        on_message: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._dataset, self._tables, self._on_message = dataset, tables, on_message
        self._config = _checked(config or Config(), dataset, tables)
        self._loss = loss or (
            lambda logits, labels, weights: weighted_loss(logits, labels, weights, None)
        )
        self._order = order_of(self._config, dataset)
        gpu.use_device(self._config)
        self.recorded = gpu.uses_gpu(self._config, [])
        """Whether steps are recorded, as far as the module allows it."""
        if not self.recorded:
            on_message(_NOT_RECORDED.format(device=self._config.device))
        adapter: nn.Module = _ByColumn(module, tables)
        if any(table.storage == "fp64" for table in tables.layout.tables):
            adapter = adapter.double()
        self._dense = DensePart(
            adapter,
            self._config.dense,
            self._config.precision,
            worth_compiling(self._config, steps_of(self._config, self._order)),
            device=self._config.device,
            optimizer=gpu.weight_optimizer(self._config.device, captured=self.recorded),
        )

    def through(self) -> Iterator[CapturedResult]:
        """Train `config.epochs` passes over all examples; returns the result of each step.

        On a GPU results come a few steps later. Training stops when the caller takes no more
        results; the tables then have the rows after the last step that was begun.
        """
        self._tables.train()
        try:
            yield from self._recorded() if self.recorded else self._plain()
        except torch.OutOfMemoryError as error:
            raise ConfigError(_NO_ROOM.format(self._config.placement.fast_memory)) from error

    def _plain(self) -> Iterator[CapturedResult]:
        """Look up, predict, update, one operation after the other."""
        with Loader(self._dataset.train, self._config.batch_size, order=self._order) as loader:
            for batch in loader:
                factor = rate(self._config.schedule, batch.next_position, len(self._order))
                outputs = self._dense.logits(batch.dense, self._tables(batch))
                loss = self._checked_loss(outputs, batch.labels, batch.weights)
                loss.backward()
                self._tables.step(lr_factor=factor)
                self._dense.step(factor)
                n = batch.n_valid
                outputs = outputs.detach()[:n]
                yield CapturedResult(float(loss.detach()), outputs, n, batch.next_position)

    def _recorded(self) -> Iterator[CapturedResult]:
        config, layout = self._config, self._tables.layout
        tier_sizes = tier_sizes_of(config, layout, self._dataset)
        assert tier_sizes is not None, "the strategy was checked to have a fast tier"
        rows = self._tables._embeddings
        engine = gpu.build_graph_engine(
            config,
            self._dense.model,
            tier_sizes,
            seed=None,
            on_message=self._on_message,
            tables=rows,
            dense=self._dense,
            loss=self._checked_loss,
            one_by_one=True,
        )
        placement = placement_for(config, layout, self._dataset, tier_sizes)
        try:
            engine.tables.keep(placement.resident_rows(), self._tables.steps)
            with ExitStack() as stack:
                stack.enter_context(low_latency_interpreter())
                parts = (config, self._dataset, self._order, tier_sizes, placement)
                loader = stack.enter_context(loader_of(*parts))
                plans = Planner(placement).plans(loader, self._tables.steps + 1)
                sent = gpu.prepared_in_thread(engine, plans, self._factor)
                for plan in stack.enter_context(sent):
                    results = list(engine.step(plan))
                    self._tables.steps = plan.step
                    yield from map(_captured_result, results)
                yield from map(_captured_result, engine.remaining_results())
        finally:
            try:
                for _ in engine.remaining_results():  # the caller takes no more of them
                    pass
                rows.flush()
            finally:
                rows.close()
                rows.mover = None

    def _factor(self, plan: Plan) -> float:
        return rate(self._config.schedule, plan.next_position, len(self._order))

    def _checked_loss(
        self, outputs: Tensor, labels: Tensor, weights: Tensor, _: Tensor | None = None
    ) -> Tensor:
        if outputs.shape != labels.shape:
            raise ConfigError(
                f"The module returns a tensor of shape {list(outputs.shape)} for {len(labels)} "
                f"examples; it must return one number for each, of shape {list(labels.shape)}."
            )
        loss = self._loss(outputs, labels.to(outputs), weights.to(outputs))
        if loss.dim():
            raise ConfigError(f"The loss has the shape {list(loss.shape)}; it must be one number.")
        return loss


class _ByColumn(nn.Module):  # type: ignore[misc]
    """Calls a module with vectors by the names of their columns, given vectors by group."""

    def __init__(self, module: nn.Module, tables: EmbeddingTables) -> None:
        super().__init__()
        self.module, self.layout, self._names = module, tables.layout, tables._names
        groups = self.layout.groups
        self._order = [n for group in groups for n in group.features]
        self._order += self.layout.sequences

    def forward(self, dense: Tensor, vectors: Embedded | Mapping[str, Tensor]) -> Tensor:
        """The output of the module."""
        if not isinstance(vectors, Embedded):
            return self.module(dense, vectors)
        singles = [vector for group in vectors.vectors for vector in group.unbind(1)]
        by_number = dict(zip(self._order, (*singles, *vectors.sequences), strict=True))
        return self.module(dense, {name: by_number[n] for n, name in enumerate(self._names)})


def _captured_result(step_result: StepResult) -> CapturedResult:
    plan, n = step_result.plan, step_result.plan.n_valid
    return CapturedResult(step_result.loss, step_result.logits[:n].clone(), n, plan.next_position)


def _checked(config: Config, dataset: Dataset, tables: EmbeddingTables) -> Config:
    """The configuration with a strategy; an error if it does not fit a module of the user."""
    gpu.check_device(config)
    if config.strategy in (None, "plain"):
        config = config.replace(strategy="fast")
    chosen = strategy_of(config)
    if chosen.ordering != "as-is" or chosen.skipping != "none" or chosen.placement is None:
        raise ConfigError(
            f"strategy is {config.strategy}, but with a module of your own examples are trained as "
            "they come: use fast or bagpipe."
        )
    singles = [column.name for column in dataset.schema.singles]
    if tables._block != tuple(singles):
        raise ConfigError(
            "The tables were not made for this data set: use EmbeddingTables.for_schema("
            "dataset.schema, ...)."
        )
    for table in dataset.schema.tables:
        if tables.layout.table(table.name).rows != table.rows:
            raise ConfigError(
                f"Table {table.name!r} has {table.rows:,} rows in this data set, but "
                f"{tables.layout.table(table.name).rows:,} in the tables: use "
                "EmbeddingTables.for_schema(dataset.schema, ...)."
            )
    if not len(dataset.train):
        raise ConfigError("There is nothing to train on: the training part has no examples.")
    return config
