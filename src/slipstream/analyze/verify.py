"""Checks on any data that a strategy trains correctly: compares every row and every state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice, tee

import torch
from torch import Tensor

from slipstream import gpu
from slipstream.config import Config
from slipstream.data.dataset import Dataset
from slipstream.data.loader import Loader
from slipstream.pipeline.engine import prefetch_rows
from slipstream.pipeline.place.tiered import Tiered
from slipstream.pipeline.schedule import rate
from slipstream.pipeline.strategies import strategy_of
from slipstream.tables.plan import Placement, Plan, Planner
from slipstream.tables.sizes import all_bytes
from slipstream.tables.store import RowStore
from slipstream.training import build
from slipstream.training.complete_config import config_of_run
from slipstream.training.estimate import does_not_fit
from slipstream.training.evaluation import RATE_INPUTS, evaluate, first_inputs
from slipstream.training.example_order import order_of
from slipstream.training.placement import (
    all_rows_resident,
    placement_for,
    slow_placement,
    tier_sizes_of,
)

EXACT64 = 1e-9
# Of one step, whose sums of up to a batch's gradients run in another order. These are shares of a
# mean, less than 1 in all; so in float32 sums of n differ by less than n * 2^-24: of 2,048 by 1e-4.
ROUNDING = 1e-4
# Where the dense part computes in bfloat16, the sum of each part of a batch is rounded by up to
# 2^-9 of it, and so is that of the whole: together by up to 2^-8 of what is less than 1.
ROUNDING16 = 2.0**-8
_ROWS_AT_ONCE = 1 << 16


@dataclass
class VerifyResult:
    """Two trainings from the same start, compared value by value.

    Args:
        name: The precision, and what the strategy is compared with.
        allowed: The largest difference that is correct; 0 requires the same bits.
        steps: Steps that were trained.
        rows: Rows that were compared, each with its optimizer state.
        values: Values of these rows and of the dense part.
        largest: The largest difference, relative for values above 1. For values that are stored in
            bfloat16 one unit in the last place is subtracted, because sums that differ in the last
            bit may be rounded either way.
        where: The value that differs the most, or "".
        same_bits: Whether every bit is equal.
    """

    name: str
    allowed: float
    steps: int = 0
    rows: int = 0
    values: int = 0
    largest: float = 0.0
    where: str = ""
    same_bits: bool = True

    @property
    def correct(self) -> bool:
        """Whether the difference is allowed."""
        return self.same_bits if self.allowed == 0 else self.largest <= self.allowed

    def add(self, name: str, values: Tensor, expected: Tensor, *, bf16: bool = False) -> None:
        """Compare some values; `bf16` if they are stored as bfloat16."""
        self.values += values.numel()
        if values.numel() == 0 or torch.equal(_bits(values), _bits(expected)):
            return
        self.same_bits = False
        values, expected = values.double(), expected.double()
        gap = (values - expected).abs()
        if bf16 and self.allowed:
            gap = (gap - _unit16(torch.maximum(values.abs(), expected.abs()))).clamp(min=0)
        gap /= expected.abs().clamp(min=1)
        largest = float(gap.nan_to_num(nan=float("inf")).max())
        if largest > self.largest:
            self.largest, self.where = largest, name


def verify(
    dataset: Dataset,
    config: Config,
    steps: int = 100,
    on_step: Callable[[int], None] = lambda _: None,
) -> list[VerifyResult]:
    """Train some steps with a strategy and without it, and compare every row and every weight.

    The first comparison is in float32, with all rows resident: to the bit, or, if the strategy
    promises equality up to rounding only, step by step from a common state. The second is in
    float64 with the reference kernels, over all steps. Needs the memory of two trainings.

    Args:
        dataset: The data set to train on.
        config: The strategy, the model and all other keys.
        steps: How many steps; fewer if the data set has fewer.
        on_step: Called with 1 after every step; there are `2 * steps`.

    Example:
        >>> config = Config(strategy="fast", batch_size=64)
        >>> config = config.with_settings(["placement.fast_memory=50%"])
        >>> results = verify(dataset, config, steps=5)
        >>> [(r.steps, r.same_bits or r.largest < 1e-9, r.correct) for r in results]
        [(5, True, True), (5, True, True)]
    """
    gpu.check_device(config)
    gpu.use_device(config)
    build.check(config, dataset)
    config = config_of_run(config, order_of(config, dataset))
    config = config.replace(compile="off")
    each_step = strategy_of(config).promise == "rounding"
    resident = VerifyResult("in float32 with all rows resident", 0.0)
    if each_step:
        allowed = ROUNDING16 if config.precision == "bf16" else ROUNDING
        resident = VerifyResult("in float32 with all rows resident, step by step", allowed)
    reference = VerifyResult("in float64 with the reference kernels", EXACT64)
    try:
        _Pair(dataset, config).run(steps, resident, on_step, each_step=each_step)
        _Pair(dataset, in_float64(config), "reference").run(steps, reference, on_step)
    except torch.OutOfMemoryError as error:
        every = all_bytes(build.model_of(config, dataset).layout)
        other = {"all rows of the training without the strategy": every}
        raise does_not_fit(dataset, config, other) from error
    return [resident, reference]


def in_float64(config: Config) -> Config:
    """The same training in float64, rows and dense part."""
    tables = {
        name: table.replace(storage="fp64") for name, table in config.embedding.tables.items()
    }
    embedding = config.embedding.replace(storage="fp64", tables=tables)
    return config.replace(embedding=embedding, precision="fp32")


class _Pair:
    """A training with a strategy, and one without it, on the same batches: those of its order."""

    def __init__(self, dataset: Dataset, config: Config, kernels: str | None = None) -> None:
        self.dataset, self.config = dataset, config
        model, other = (build.model_of(config, dataset) for _ in range(2))
        tier_sizes = tier_sizes_of(config, model.layout, dataset)
        self.order = build.run_order(config, model.layout, dataset, tier_sizes)
        self.placement = placement_for(config, model.layout, dataset, tier_sizes)
        self.resident: Placement = slow_placement(model.layout, dataset)
        self.tested = build.engine_of(config, model, 0, tier_sizes=tier_sizes)
        self.base_placement: Placement = self.resident
        if kernels is not None or not gpu.uses_gpu(config, tier_sizes):
            self.base = build.engine_of(config, other, 0, kernels=kernels)
        else:
            # The same kernels with every row on the device.
            whole = all_rows_resident(model.layout)
            self.base = build.engine_of(config, other, 0, tier_sizes=whole)
            singles = [column.name for column in dataset.schema.singles]
            self.base_placement = Tiered(model.layout, singles, whole, window=1)

    def run(
        self,
        steps: int,
        result: VerifyResult,
        on_step: Callable[[int], None],
        *,
        each_step: bool = False,
    ) -> None:
        """Train both, and compare at the end, or after each step from a common state."""
        loader = Loader(self.dataset.train, self.config.batch_size, order=self.order)
        batches, base_batches = tee(islice(loader, steps))
        try:
            self.tested.tables.keep(self.placement.resident_rows())
            self.base.tables.keep(self.base_placement.resident_rows())
            plans = Planner(self.placement).plans(batches)
            base_plans = Planner(self.base_placement).plans(base_batches)
            for plan in prefetch_rows(self.tested, plans, self._factor):
                if each_step:
                    self._from_common_state()
                list(self.tested.step(plan))
                base_plan = next(base_plans)
                self.base.prepare(base_plan, self._factor(base_plan))
                list(self.base.step(base_plan))
                self._report_loss(plan.next_position)
                result.steps += 1
                if each_step:
                    self._compare(result)
                on_step(1)
            if not each_step:
                self._compare(result)
        finally:
            self.tested.tables.close()
            self.base.tables.close()
            loader.close()

    def _factor(self, plan: Plan) -> float:
        return rate(self.config.schedule, plan.next_position, len(self.order))

    def _report_loss(self, position: int) -> None:
        """Report the loss that the order needs, as training does."""
        if (number := self.order.pending_decision(position)) is not None:
            few = first_inputs(self.dataset.validation, RATE_INPUTS)
            self._settle()
            scores = evaluate(self.base, self.resident, few, self.config.batch_size)
            assert scores["logloss"] is not None, "checked before training began"
            self.order.report_loss(number, scores["logloss"])

    def _settle(self) -> None:
        for engine in (self.tested, self.base):
            list(engine.remaining_results())
            engine.tables.flush()

    def _stores(self) -> Iterator[tuple[RowStore, RowStore]]:
        return zip(self.tested.tables.stores, self.base.tables.stores, strict=True)

    def _from_common_state(self) -> None:
        self._settle()
        for store, base in self._stores():
            base.records[:] = store.records
        self.base.tables.keep(self.base_placement.resident_rows())
        self.base.dense.load_state_dict(self.tested.dense.state_dict())

    def _compare(self, result: VerifyResult) -> None:
        self._settle()
        result.rows = result.values = 0  # the last comparison counts
        for store, base in self._stores():
            _compare_rows(store, base, result)
        dense, expected = self.tested.dense.state_dict(), self.base.dense.state_dict()
        for name in sorted(dense.keys() | expected.keys()):
            result.add(f"{name} of the dense part", dense[name], expected[name])


def _compare_rows(store: RowStore, base: RowStore, result: VerifyResult) -> None:
    for table in store.group.tables:
        where = store.rows_of(table.name)
        for begin in range(where.start, where.stop, _ROWS_AT_ONCE):
            rows = torch.arange(begin, min(begin + _ROWS_AT_ONCE, where.stop))
            (weights, state), (expected, states) = store.read(rows), base.read(rows)
            result.rows += len(rows)
            result.add(f"rows of {table.name}", weights, expected, bf16=table.storage == "bf16")
            for name, values in state.items():
                result.add(f"{name} of {table.name}", values, states[name])


def _unit16(values: Tensor) -> Tensor:
    """One unit in the last place of values in bfloat16."""
    _, exponent = torch.frexp(values)
    return torch.ldexp(torch.ones_like(values), exponent - 8)


def _bits(values: Tensor) -> Tensor:
    whole = {torch.float32: torch.int32, torch.float64: torch.int64}
    return values.view(whole[values.dtype]) if values.dtype in whole else values
