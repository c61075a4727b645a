"""Whether a strategy trains what it promises to, on any data: every row and state is compared."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

import torch
from torch import Tensor

from slipstream.config import Config
from slipstream.data.batch import Batch
from slipstream.data.dataset import Dataset
from slipstream.data.loader import Loader
from slipstream.embedding.store import RowStore
from slipstream.gpu.planning import plan_ahead
from slipstream.placement.budget import all_bytes
from slipstream.placement.tiered import Tiered
from slipstream.plan import Placement, Plan, Planner
from slipstream.training import build
from slipstream.training.engine import Engine
from slipstream.training.estimate import does_not_fit
from slipstream.training.evaluation import evaluate, first_inputs
from slipstream.training.resolved import resolved
from slipstream.training.schedule import rate
from slipstream.training.strategies import answers

EXACT64 = 1e-9
# Of one step, whose sums of up to a batch's gradients run in another order. These are shares of a
# mean, less than 1 in all; so in float32 sums of n differ by less than n * 2^-24: of 2,048 by 1e-4.
ROUNDING = 1e-4
# Where the dense part computes in bfloat16, the sum of each part of a batch is rounded by up to
# 2^-9 of it, and so is that of the whole: together by up to 2^-8 of what is less than 1.
ROUNDING16 = 2.0**-8
_ROWS_AT_ONCE = 1 << 16


@dataclass
class Comparison:
    """Two trainings from the same start, compared value by value.

    Args:
        what: Which, and with what.
        allowed: The largest difference that may be; 0 asks for the same bits.
        steps: Steps that were trained.
        rows: Rows that were compared, each with its optimizer state.
        values: Values of these and of the dense part.
        largest: The largest difference, as a share of values above 1. Of values that are stored in
            bfloat16, what goes beyond one unit in the last place: sums that differ in the last bit
            can be rounded either way.
        where: The value that differs the most, "" where none does.
        same_bits: Whether every bit is equal.
    """

    what: str
    allowed: float
    steps: int = 0
    rows: int = 0
    values: int = 0
    largest: float = 0.0
    where: str = ""
    same_bits: bool = True

    @property
    def holds(self) -> bool:
        """Whether the difference is one that may be."""
        return self.same_bits if self.allowed == 0 else self.largest <= self.allowed

    def add(self, name: str, ours: Tensor, theirs: Tensor, *, bf16: bool = False) -> None:
        """Compare some values; `bf16` says that they are stored so."""
        self.values += ours.numel()
        if ours.numel() == 0 or torch.equal(_bits(ours), _bits(theirs)):
            return
        self.same_bits = False
        one, other = ours.double(), theirs.double()
        gap = (one - other).abs()
        if bf16 and self.allowed:
            gap = (gap - _unit16(torch.maximum(one.abs(), other.abs()))).clamp(min=0)
        gap /= other.abs().clamp(min=1)
        largest = float(gap.nan_to_num(nan=float("inf")).max())
        if largest > self.largest:
            self.largest, self.where = largest, name


def verify(
    dataset: Dataset,
    config: Config,
    steps: int = 100,
    each: Callable[[int], None] = lambda _: None,
) -> list[Comparison]:
    """Train some steps with a strategy and without it, and compare everything that was trained.

    In float32 with everything resident: to the bit, or, for a strategy that promises equality up to
    rounding, each step from a common state. In float64 with the plain reference, over all steps.
    It takes the memory of both trainings at once.

    Args:
        dataset: What to train on.
        config: How: the strategy, the model and all the rest.
        steps: How many steps; fewer if the inputs are used up before.
        each: Told after every step, of `2 * steps`.

    Example:
        >>> config = Config(strategy="fast", batch_size=64)
        >>> config = config.with_settings(["placement.fast_memory=50%"])
        >>> made = verify(dataset, config, steps=5)
        >>> [(one.steps, one.same_bits or one.largest < 1e-9, one.holds) for one in made]
        [(5, True, True), (5, True, True)]
    """
    build.check_device(config)
    build.use_device(config)
    build.check(config, dataset)
    config = resolved(config, build.order_of(config, dataset))
    config = replace(config, compile="off")
    each_step = answers(config).promise == "rounding"
    resident = Comparison("float32, with everything resident", 0.0)
    if each_step:
        allowed = ROUNDING16 if config.precision == "bf16" else ROUNDING
        resident = Comparison("float32, each step with everything resident", allowed)
    reference = Comparison("float64, all steps with the reference", EXACT64)
    try:
        _Pair(dataset, config).run(steps, resident, each, each_step=each_step)
        _Pair(dataset, in_float64(config), "reference").run(steps, reference, each)
    except torch.OutOfMemoryError as error:
        every = all_bytes(build.model_of(config, dataset).layout)
        beside = {"every row, which it is compared with": every}
        raise does_not_fit(dataset, config, beside) from error
    return [resident, reference]


def in_float64(config: Config) -> Config:
    """The same training in float64, rows and dense part."""
    tables = {
        name: replace(table, storage="fp64") for name, table in config.embedding.tables.items()
    }
    embedding = replace(config.embedding, storage="fp64", tables=tables)
    return replace(config, embedding=embedding, precision="fp32")


class _Pair:
    """A training with a strategy, and one without it, on the same batches: those of its order."""

    def __init__(self, dataset: Dataset, config: Config, kernels: str | None = None) -> None:
        self.dataset, self.config = dataset, config
        model, other = (build.model_of(config, dataset) for _ in range(2))
        rooms = build.rooms_of(config, model.layout, dataset)
        self.order = build.arranged(config, model.layout, dataset, rooms)
        self.placement = build.tiered_of(config, model.layout, dataset, rooms)
        self.resident: Placement = build.placement_of(model.layout, dataset)
        self.ours = build.engine_of(config, model, 0, rooms=rooms)
        self.placed: Placement = self.resident
        if kernels is not None or plan_ahead.kernels_for(config, rooms) != "gpu":
            self.theirs = build.engine_of(config, other, 0, kernels=kernels)
        else:
            # The same kernels with every row on the device.
            whole = build.everything(model.layout)
            self.theirs = build.engine_of(config, other, 0, rooms=whole)
            singles = [column.name for column in dataset.schema.singles]
            self.placed = Tiered(model.layout, singles, whole, window=1)

    def run(
        self,
        steps: int,
        into: Comparison,
        each: Callable[[int], None],
        *,
        each_step: bool = False,
    ) -> None:
        """Train both side by side, and compare: at the end, or each step from a common state."""
        loader = Loader(self.dataset.train, self.config.batch_size, order=self.order)
        kept: deque[Batch] = deque()  # batches that the strategy has looked at
        try:
            self.ours.tables.keep(self.placement.kept())
            ours = Planner(self.placement).plans(_noted(islice(loader, steps), kept))
            self.theirs.tables.keep(self.placed.kept())
            theirs = Planner(self.placed).plans(_taken(kept))
            for plan in self._prepared(ours):
                if each_step:
                    self._from_common_state()
                self._step(self.ours, plan)
                other = next(theirs)
                self.theirs.prepare(other, self._factor(other))
                self._step(self.theirs, other)
                self._tell_order(plan.next_position)
                into.steps += 1
                if each_step:
                    self._compare(into)
                each(1)
            if not each_step:
                self._compare(into)
        finally:
            self.ours.tables.close()
            self.theirs.tables.close()
            loader.close()

    def _prepared(self, plans: Iterator[Plan]) -> Iterator[Plan]:
        """The plans, with what the next ones need on its way."""
        coming: deque[Plan] = deque()
        for plan in plans:
            self.ours.prepare(plan, self._factor(plan))
            coming.append(plan)
            if len(coming) == plan_ahead.PREPARED:
                yield coming.popleft()
        yield from coming

    def _step(self, engine: Engine, plan: Plan) -> None:
        for _ in engine.step(plan):
            pass

    def _factor(self, plan: Plan) -> float:
        return rate(self.config.schedule, plan.next_position, len(self.order))

    def _tell_order(self, position: int) -> None:
        """Give the order the loss that it asks for, as training does."""
        if (number := self.order.asks(position)) is not None:
            few = first_inputs(self.dataset.validation, self.config.ordering.validation_inputs)
            self._settle()
            scores = evaluate(self.theirs, self.resident, few, self.config.batch_size)
            assert scores.logloss is not None, "checked before training began"
            self.order.tell(number, scores.logloss)

    def _settle(self) -> None:
        for engine in (self.ours, self.theirs):
            for _ in engine.landed():
                pass
            engine.tables.settle()

    def _from_common_state(self) -> None:
        self._settle()
        pairs = zip(self.ours.tables.stores, self.theirs.tables.stores, strict=True)
        for one, other in pairs:
            other.records[:] = one.records
        self.theirs.tables.keep(self.placed.kept())
        self.theirs.dense.load_state_dict(self.ours.dense.state_dict())

    def _compare(self, into: Comparison) -> None:
        self._settle()
        into.rows = into.values = 0  # those of the last time count
        pairs = zip(self.ours.tables.stores, self.theirs.tables.stores, strict=True)
        for one, other in pairs:
            _compare_rows(one, other, into)
        ours, theirs = self.ours.dense.state_dict(), self.theirs.dense.state_dict()
        for name in sorted(ours.keys() | theirs.keys()):
            into.add(f"{name} of the dense part", ours[name], theirs[name])


def _compare_rows(ours: RowStore, theirs: RowStore, into: Comparison) -> None:
    for table in ours.group.tables:
        where = ours.rows_of(table.name)
        for begin in range(where.start, where.stop, _ROWS_AT_ONCE):
            rows = torch.arange(begin, min(begin + _ROWS_AT_ONCE, where.stop))
            (weights, state), (wanted, states) = ours.read(rows), theirs.read(rows)
            into.rows += len(rows)
            into.add(f"rows of {table.name}", weights, wanted, bf16=table.storage == "bf16")
            for name, values in state.items():
                into.add(f"{name} of {table.name}", values, states[name])


def _unit16(values: Tensor) -> Tensor:
    """One unit in the last place of values in bfloat16."""
    _, exponent = torch.frexp(values)
    return torch.ldexp(torch.ones_like(values), exponent - 8)


def _bits(values: Tensor) -> Tensor:
    whole = {torch.float32: torch.int32, torch.float64: torch.int64}
    return values.view(whole[values.dtype]) if values.dtype in whole else values


def _noted(batches: Iterable[Batch], kept: deque[Batch]) -> Iterator[Batch]:
    for batch in batches:
        kept.append(batch)
        yield batch


def _taken(kept: deque[Batch]) -> Iterator[Batch]:
    while kept:
        yield kept.popleft()
