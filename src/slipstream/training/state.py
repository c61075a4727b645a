"""Where a run stands between two steps, what it tells and asks, and how it can end."""

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
from slipstream.training.progress import Report

_PHASES = ("data", "plan", "transfer", "step", "evaluate")
_CLOCKS = ("seconds", "waits")

DOES_NOT_FIT = (
    "needs more rows than the fast tier holds. Such steps work in the slow tier, which is slower "
    "and has the same result. `transfers.oversized_steps` in summary.json counts them; with more "
    "placement.fast_memory or smaller batches there are fewer."
)


class StoppedError(SlipstreamError):
    """The run was asked to stop, and has saved where it stands."""


@dataclass
class State:
    """Where a run stands, between two steps; what a checkpoint holds beside rows and weights.

    It also says what has been done since the last step, so that a run that was stopped between a
    step and an evaluation that is due makes up for it when it goes on.

    Args:
        total: Inputs of the whole run, as it is planned.
        step: Steps done.
        before: The position before the last step.
        position: Inputs of the order that are used up.
        inputs_trained: Inputs that were trained.
        reported: The position of the last report.
        validated: The position of the last score of the validation part.
        ended: No step is left.
        ended_early: Validation got no better.
        curve: The scores of the evaluation part so far.
        best_validation: The lowest logloss of the validation part.
        no_better: How many scores in a row were no better than that.
        init_from: What a warm start took over from another run, if there was one.
        transfers: Counts of rows and bytes moved between the tiers, by name.
        hot_rows: Rows that stay in the fast tier, at the last step.
        order: The arguments of the order that the position is in.
        decisions: The losses that the order has asked for, each with its number.
        skipping: Where skipping stands, apart from what is kept for rows.
        seconds: Time spent, by phase.
        waits: Steps whose rows were still on their way, and the seconds spent on that.
    """

    total: int
    step: int = 0
    before: int = 0
    position: int = 0
    inputs_trained: int = 0
    reported: int = 0
    validated: int = 0
    ended: bool = False
    ended_early: bool = False
    curve: list[dict[str, Any]] = field(default_factory=list)
    best_validation: float | None = None
    no_better: int = 0
    init_from: dict[str, Any] | None = None
    transfers: dict[str, int] = field(default_factory=no_transfers)
    hot_rows: int = 0
    order: dict[str, Any] = field(default_factory=dict)
    decisions: list[tuple[int, float]] = field(default_factory=list)
    skipping: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_PHASES, 0.0))
    waits: dict[str, float] = field(default_factory=lambda: {"steps": 0, "seconds": 0.0})

    @property
    def train_seconds(self) -> float:
        """Time spent on training, evaluations left out."""
        return sum(self.seconds.values()) - self.seconds["evaluate"]

    def stepped(self, plan: Plan, row_bytes: Sequence[int], clock: Clock) -> None:
        """A step is done.

        Args:
            plan: Its plan.
            row_bytes: Bytes of a row of each group.
            clock: What it spent on moving rows, which was counted as time of the step.
        """
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
        """Count the time of what is done inside as that of a phase."""
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] += time.perf_counter() - begun

    def line(self) -> dict[str, Any]:
        """The line of `metrics.jsonl` about where it stands, without metrics."""
        seconds = self.train_seconds
        return {
            "kind": "training",
            "position": self.position,
            "step": self.step,
            "inputs_trained": self.inputs_trained,
            "train_seconds": seconds,
            "samples_per_second": self.inputs_trained / seconds if seconds else 0.0,
        }

    def crossed(self, every: int | None) -> bool:
        """Whether the last step has reached or passed a multiple of so many inputs."""
        return crossed(self.before, self.position, every)

    def is_better(self, logloss: float) -> bool:
        """Note a score of the validation part; whether it is the best so far."""
        better = self.best_validation is None or logloss < self.best_validation
        if better:
            self.best_validation = logloss
        self.no_better = 0 if better else self.no_better + 1
        return better

    def apart_from_time(self) -> dict[str, Any]:
        """All but what a clock said: it differs exactly if there is something new to save."""
        return {key: value for key, value in asdict(self).items() if key not in _CLOCKS}


def no_better(state: State, patience: int) -> str:
    """The sentence about a run that ends because validation got no better."""
    times = "once" if patience == 1 else f"{patience} times in a row"
    return (
        f"Validation has not got better {times}: training ends at input {state.position:,} of "
        f"{state.total:,}."
    )


@dataclass(frozen=True)
class Hooks:
    """Functions that a run calls.

    Args:
        report: Called with how far the run is, every so often.
        say: Called with a sentence that a user should see.
        stop: Called between two steps, and between two batches of an evaluation: whether to save
            and stop. Once it has returned True it must go on returning True.
        on_metrics: Called with every line of `metrics.jsonl`, at once when it is written: a mapping
            with its `kind`, its `position` and the metrics by name.
    """

    report: Callable[[Report], None] = lambda _: None
    say: Callable[[str], None] = lambda _: None
    stop: Callable[[], bool] = lambda: False
    on_metrics: Callable[[Mapping[str, Any]], None] = lambda _: None
