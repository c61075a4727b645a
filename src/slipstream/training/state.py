"""The state of a run between two steps, the functions that a run calls, and how it can stop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from slipstream.errors import SlipstreamError
from slipstream.pipeline.place.counting import count, kept_rows, no_transfers
from slipstream.pipeline.schedule import crossed
from slipstream.tables.mover import Clock
from slipstream.tables.plan import Plan
from slipstream.training.progress import Progress

_PHASES = ("data", "plan", "transfer", "step", "evaluate")
_TIMES = ("seconds", "waits")

OVERSIZED = (
    "needs more rows than the fast tier holds. Such steps work in the slow tier, which is slower "
    "and has the same result. `transfers.oversized_steps` in summary.json counts them; with more "
    "placement.fast_memory or smaller batches there are fewer."
)


class StoppedError(SlipstreamError):
    """The run was stopped by its caller, and everything up to there is saved."""


@dataclass
class RunState:
    """The state of a run between two steps; a checkpoint holds it beside rows and weights.

    It also records what was done since the last step, so that a run that was stopped between a
    step and an evaluation that is due makes up for it when it is resumed.
    """

    total: int  # inputs of the whole run, as it is planned
    step: int = 0  # steps done
    before: int = 0  # the position before the last step
    position: int = 0  # inputs of the order that are trained or skipped
    inputs_trained: int = 0
    reported: int = 0  # the position of the last report
    validated: int = 0  # the position of the last score of the validation part
    ended: bool = False  # no step is left
    ended_early: bool = False  # validation did not improve
    curve: list[dict[str, Any]] = field(default_factory=list)  # scores of the evaluation part
    best_validation: float | None = None  # the lowest logloss of the validation part
    no_better: int = 0  # how many scores in a row were no better than that
    init_from: dict[str, Any] | None = None  # the run that this one began from, and copied rows
    transfers: dict[str, int] = field(default_factory=no_transfers)  # between the tiers, by name
    hot_rows: int = 0  # rows that stay in the fast tier, at the last step
    order: dict[str, Any] = field(default_factory=dict)  # arguments of the order at the position
    decisions: list[tuple[int, float]] = field(default_factory=list)  # numbered losses for it
    skipping: dict[str, Any] = field(default_factory=dict)  # its state, apart from its tensors
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_PHASES, 0.0))
    # Steps whose rows were not there in time, and the seconds of waiting for them.
    waits: dict[str, float] = field(default_factory=lambda: {"steps": 0, "seconds": 0.0})

    @property
    def train_seconds(self) -> float:
        """Time spent on training, without evaluations."""
        return sum(self.seconds.values()) - self.seconds["evaluate"]

    def count_step(self, plan: Plan, row_bytes: Sequence[int], clock: Clock) -> None:
        """Count a step that is done."""
        self.before, self.position = self.position, plan.next_position
        self.step += 1
        self.inputs_trained += plan.n_valid
        count(self.transfers, plan, row_bytes)
        self.hot_rows = kept_rows(plan)
        self.seconds["step"] -= clock.seconds
        self.seconds["transfer"] += clock.seconds
        self.waits["steps"] += clock.waits
        self.waits["seconds"] += clock.waited

    @contextmanager
    def timed(self, phase: str) -> Iterator[None]:
        """Count the time of the `with` block as time of a phase."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] += time.perf_counter() - begun

    def line(self) -> dict[str, Any]:
        """The line of `metrics.jsonl` about this state, without metrics."""
        seconds = self.train_seconds
        return {
            "kind": "training",
            "position": self.position,
            "step": self.step,
            "inputs_trained": self.inputs_trained,
            "train_seconds": seconds,
            "samples_per_second": self.position / seconds if seconds else 0.0,
        }

    def crossed(self, every: int | None) -> bool:
        """Whether the last step reached or passed a multiple of `every`."""
        return crossed(self.before, self.position, every)

    def is_better(self, logloss: float) -> bool:
        """Record a score of the validation part; whether it is the best so far."""
        better = self.best_validation is None or logloss < self.best_validation
        if better:
            self.best_validation = logloss
        self.no_better = 0 if better else self.no_better + 1
        return better

    def without_times(self) -> dict[str, Any]:
        """All but measured times: it differs exactly if there is something new to save."""
        return {key: value for key, value in asdict(self).items() if key not in _TIMES}


def no_improvement(state: RunState, patience: int) -> str:
    """The sentence about a run that ends because validation did not improve."""
    times = "once" if patience == 1 else f"{patience} times in a row"
    return (
        f"Validation did not improve {times}: training ends at example {state.position:,} of "
        f"{state.total:,}."
    )


@dataclass(frozen=True)
class Hooks:
    """Functions that a run calls.

    Args:
        on_progress: Called every so often with how far the run is.
        on_message: Called with a sentence that a user should see.
        should_stop: Called between two steps, and between two batches of an evaluation: whether to
            save and stop. Once it has returned True it must go on returning True.
        on_metrics: Called with every line of `metrics.jsonl`, at once when it is written: a mapping
            with its `kind`, its `position` and the metrics by name.
    """

    on_progress: Callable[[Progress], None] = lambda _: None
    on_message: Callable[[str], None] = lambda _: None
    should_stop: Callable[[], bool] = lambda: False
    on_metrics: Callable[[Mapping[str, Any]], None] = lambda _: None
