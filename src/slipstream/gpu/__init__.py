"""All that needs a CUDA device, behind the functions of this module.

Nothing outside this folder imports Triton, opens a stream, calls `torch.cuda`, or imports another
module of this folder. Triton and torch are imported when a function first needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from slipstream.background import BackgroundIterator
    from slipstream.config import Config, DenseSettings
    from slipstream.gpu.planning.plan_ahead import LoaderOptions
    from slipstream.models import Model
    from slipstream.order import InputOrder
    from slipstream.pipeline.dense import DensePart, WeightOptimizer
    from slipstream.pipeline.engine import Engine, Loss
    from slipstream.pipeline.place.accesses import Popularity
    from slipstream.pipeline.place.tier import TierSize
    from slipstream.tables.plan import Placement, Plan
    from slipstream.tables.spec import Layout
    from slipstream.tables.tables import Embeddings

# Devices.


def check_device(config: Config) -> None:
    """Raise an error if the device of a configuration does not exist, or cannot train it."""
    from slipstream.gpu import devices

    devices.check_device(config)


def use_device(config: Config) -> None:
    """Select the GPU that a configuration names, and install the models' kernels for it."""
    from slipstream.gpu import devices

    devices.use_device(config)


def describe_devices() -> dict[str, Any]:
    """The version of CUDA and, for each GPU, its name and its memory, as JSON."""
    from slipstream.gpu import devices

    return devices.describe_devices()


def reset_peak_memory(device: str) -> None:
    """Measure the peak of a GPU's memory from here on; does nothing for a CPU."""
    from slipstream.gpu import devices

    devices.reset_peak_memory(device)


def peak_memory(device: str) -> int:
    """The largest number of bytes of a GPU that were in use at once; 0 for a CPU."""
    from slipstream.gpu import devices

    return devices.peak_memory(device)


# The step.


def uses_gpu(config: Config, tier_sizes: Sequence[TierSize] | None) -> bool:
    """Whether the fast tier is in the memory of a GPU, whose kernels then update its rows."""
    from slipstream.gpu.planning import plan_ahead

    return plan_ahead.kernels_for(config, tier_sizes) == "gpu"


def build_graph_engine(
    config: Config,
    model: Model,
    tier_sizes: Sequence[TierSize],
    *,
    seed: int | None,
    parts: int = 1,
    say: Callable[[str], None] = lambda _: None,
    tables: Embeddings | None = None,
    dense: DensePart | None = None,
    loss: Loss | None = None,
    one_by_one: bool = False,
) -> Engine:
    """An engine whose step is one CUDA graph, replayed for every batch.

    Args:
        config: Device, precision and optimizers.
        model: The dense part.
        tier_sizes: The fast tier of each group.
        seed: For the first values of rows; None leaves zeros.
        parts: Parts of a batch.
        say: Called with a sentence for the user.
        tables: The rows on the host, if they exist already.
        dense: The dense part, if it exists already.
        loss: The loss of a batch; None is the weighted logloss.
        one_by_one: Whether plans are sent to the device one by one, and not several together.
    """
    from slipstream.gpu.planning import plan_ahead
    from slipstream.gpu.step import graph_engine
    from slipstream.pipeline.engine import weighted_loss

    return graph_engine.build_graph_engine(
        config,
        model,
        [room.slots for room in tier_sizes],
        seed=seed,
        parts=parts,
        together=1 if one_by_one else plan_ahead.together(config, tier_sizes),
        say=say,
        tables=tables,
        dense=dense,
        loss=loss or weighted_loss,
    )


def weight_optimizer(
    device: str, *, captured: bool = False
) -> Callable[[nn.Module, DenseSettings], WeightOptimizer] | None:
    """The optimizer of dense weights on this device; None on a CPU, where PyTorch's is used.

    Args:
        device: Where the weights are.
        captured: Whether a step is captured as a graph, which tests also do on a CPU.
    """
    if device == "cpu" and not captured:
        return None
    from slipstream.gpu.step.flat_optimizer import FlatOptimizer

    return FlatOptimizer


# Planning ahead.


def window_of(config: Config) -> int:
    """How many batches are planned ahead of the current one; 0 without a fast tier."""
    from slipstream.gpu.planning import plan_ahead

    return plan_ahead.window_of(config)


def skip_lag(config: Config, inputs: int) -> int:
    """Batches between a skip decision and the first batch it applies to, in a run of `inputs`."""
    from slipstream.gpu.planning import plan_ahead

    return plan_ahead.skip_lag(config, inputs)


def least_skip_lag(config: Config) -> int:
    """The smallest skip lag: so many batches are always planned before a decision is known."""
    from slipstream.gpu.planning import plan_ahead

    return plan_ahead.least_skip_lag(config)


def least_ordering_lag(config: Config, order: InputOrder) -> int:
    """The smallest ordering lag, in segments: planning must never wait for a decision."""
    from slipstream.gpu.planning import plan_ahead

    return plan_ahead.least_ordering_lag(config, order)


def plans_in_threads(config: Config, tier_sizes: Sequence[TierSize] | None) -> bool:
    """Whether threads read, plan and send batches while steps run."""
    from slipstream.gpu.planning import plan_ahead

    return plan_ahead.plans_ahead(config, tier_sizes) > 0


def loader_options(
    config: Config, tier_sizes: Sequence[TierSize] | None, inputs: int
) -> LoaderOptions:
    """How a loader reads the batches of a run of so many inputs, page-locked for a GPU."""
    from slipstream.gpu.planning import plan_ahead

    return plan_ahead.loader_options(config, tier_sizes, inputs)


def device_finds_rows(
    config: Config, layout: Layout, singles: Sequence[str], tier_sizes: Sequence[TierSize]
) -> bool:
    """Whether a GPU computes the slots of the rows that stay in these tiers from their ids.

    Args:
        config: Of the run.
        layout: Tables and features.
        singles: The names of the single columns, in order.
        tier_sizes: The fast tier of each group.
    """
    from slipstream.gpu.planning.device_placement import can_finish

    return uses_gpu(config, tier_sizes) and can_finish(layout, singles, tier_sizes)


def device_placement(
    config: Config, layout: Layout, singles: Sequence[str], tier_sizes: Sequence[TierSize]
) -> Placement:
    """Where rows are if `device_finds_rows`: the host plans only the other rows."""
    from slipstream.gpu.planning import plan_ahead
    from slipstream.gpu.planning.device_placement import DevicePlacement

    window, at_once = plan_ahead.window_of(config), plan_ahead.read_at_once(config, tier_sizes)
    return DevicePlacement(
        layout, singles, tier_sizes, window, plans_in_threads(config, tier_sizes), at_once
    )


def prepared_plans(
    config: Config,
    tier_sizes: Sequence[TierSize] | None,
    engine: Engine,
    plans: Iterator[Plan],
    *,
    position: int,
    total: int,
    stack: ExitStack,
    foresee: Callable[[Plan, int], bool] | None = None,
) -> Iterator[list[Plan]]:
    """Plans that are stepped through together, once the engine was asked to prepare them.

    Args:
        config: Of the run.
        tier_sizes: The fast tier of each group, if there is one.
        engine: Prepares the plans.
        plans: The plans; where threads plan, no one else may take any.
        position: Where the first plan begins.
        total: Inputs of the whole run.
        stack: Ends the threads.
        foresee: Whether the step of a plan, which begins at a position, must be the last of those
            that are stepped through together. It is called for each plan in order.
    """
    from slipstream.gpu.planning.plan_queue import PlanQueue

    return PlanQueue(config, tier_sizes, engine, total, foresee).plans(plans, position, stack)


def prepared_one_by_one(
    engine: Engine, plans: Iterator[Plan], factor: Callable[[Plan], float]
) -> Iterator[Plan]:
    """Plans one by one, once the engine was asked to prepare the next few of them.

    Args:
        engine: Prepares the plans.
        plans: The plans.
        factor: The factor of all learning rates in the step of a plan.
    """
    from slipstream.gpu.planning import plan_queue

    return plan_queue.prepared_one_by_one(engine, plans, factor)


def prepared_in_thread(
    engine: Engine, plans: Iterator[Plan], factor: Callable[[Plan], float]
) -> BackgroundIterator[Plan]:
    """As `prepared_one_by_one`, but a thread plans and prepares; close it at the end."""
    from slipstream.gpu.planning import plan_queue

    return plan_queue.prepared_in_thread(engine, plans, factor)


# Memory.


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

    Args:
        config: The configuration.
        layout: Tables and features.
        tiers: The fast tier of each group; None if rows stay on the host.
        step: The sizes of a step.
        popularity: The accesses of all rows.
        examples: Examples of the training part.
        finished: Whether the GPU finds kept rows by itself.
    """
    from slipstream.gpu import memory

    return memory.memory_estimate(
        config,
        layout,
        tiers,
        step,
        popularity=popularity,
        examples=examples,
        finished=finished,
    )


def read_ahead_bytes(
    config: Config, tiers: Sequence[TierSize] | None, example_bytes: float, examples: int
) -> int:
    """Bytes of page-locked batches in a run of so many examples; 0 on the CPU.

    Args:
        config: The configuration.
        tiers: The fast tier of each group; None if rows stay on the host.
        example_bytes: Bytes of an example in a batch.
        examples: Examples of the whole run.
    """
    from slipstream.gpu import memory

    return memory.read_ahead_bytes(config, tiers, example_bytes, examples)


def out_of_memory(parts: Mapping[str, int], device: str) -> str:
    """A sentence about a training that does not fit a GPU, and what would fit.

    Args:
        parts: Bytes by part, as `memory_estimate` returns them.
        device: The GPU.
    """
    from slipstream.gpu import devices, memory

    return memory.out_of_memory(parts, devices.available_memory(device))
