"""Skipping inside the training loop: nothing at all where all inputs are trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from torch import Tensor

from slipstream.config import Config
from slipstream.data.dataset import Dataset, Part
from slipstream.data.loader import Loader
from slipstream.order import Order
from slipstream.pipeline.engine import Engine
from slipstream.pipeline.place.tier import Room
from slipstream.pipeline.strategies import answers
from slipstream.skip.accesses import Reader
from slipstream.skip.context import Context
from slipstream.skip.control import SIZE
from slipstream.skip.foresight import Foresight
from slipstream.skip.heard import Heard
from slipstream.skip.rules import rule
from slipstream.skip.skipper import Skipper
from slipstream.tables.plan import Moving, Plan
from slipstream.tables.spec import Layout
from slipstream.training import build
from slipstream.training.example_scorer import ExampleScorer
from slipstream.training.state import Hooks, State

_SAVED = "skipping."


def say_unread(config: Config, say: Callable[[str], None]) -> None:
    """Say which keys about skipping are set that nothing reads."""
    chosen = answers(config)
    for sentence in config.skip.unread(chosen.skipping, chosen.ordering):
        say(sentence)


class Skipping:
    """What skips inputs, if anything does, between the loop and its state.

    Args:
        order: The order in which inputs come, skipped ones left out.
        skipper: What decides; None where all inputs are trained.
    """

    def __init__(self, order: Order, skipper: Skipper | None) -> None:
        self.order, self._skipper = order, skipper
        self._foresight: Foresight | None = None

    @classmethod
    def of(
        cls,
        config: Config,
        layout: Layout,
        dataset: Dataset,
        rooms: Sequence[Room] | None,
        engine: Engine,
    ) -> Skipping:
        """As a configuration says.

        Args:
            config: The configuration.
            layout: The model's tables.
            dataset: What is trained on.
            rooms: The fast tier of each group, if there is one.
            engine: Rows and dense part, for rules that look at them and for the control sample.
        """
        name = answers(config).skipping
        if name == "none":
            return cls(build.arranged(config, layout, dataset, rooms), None)
        hot = build.hot_of(config, layout, dataset) if rule(name).needs_hot(config.skip) else None
        order = build.arranged(config, layout, dataset, rooms, hot)
        context = Context(
            keys=config.skip,
            reader=Reader(dataset.train),
            base=build.order_of(config, dataset),
            layout=layout,
            model=config.model.name,
            batch_size=config.batch_size,
            seed=config.seed,
            tables=engine.tables,
            hot=hot,
            hot_last=answers(config).ordering == "cold-first",
        )
        scorer = ExampleScorer(engine, build.placement_of(layout, dataset), dataset.train, SIZE)
        split = answers(config).ordering == "split"  # its parts follow from the batches before
        assert config.skip.lag is not None, "what a configuration leaves open is decided before"
        skipper = Skipper(name, context, order, config.skip.lag, scorer, remember=split)
        return cls(skipper.order, skipper)

    @property
    def overhead(self) -> dict[str, float]:
        """The seconds that it has taken so far, by what for."""
        return {} if self._skipper is None else self._skipper.overhead

    @property
    def on(self) -> bool:
        """Whether a rule was chosen."""
        return self._skipper is not None

    def passed(self, part: Part, batch_size: int, stack: ExitStack) -> Loader | None:
        """The batches of all steps so far, where they are remembered.

        Args:
            part: Where the inputs are.
            batch_size: Inputs of a batch.
            stack: Closes what is opened.
        """
        order = None if self._skipper is None else self._skipper.passed()
        if not order:
            return None
        return stack.enter_context(Loader(part, batch_size, order=order))

    @property
    def moves(self) -> Moving | None:
        """Which rows a batch moves; None moves all."""
        if self._skipper is None or not self._skipper.rule.FREEZES:
            return None
        return self._skipper.moves

    def take_up(self, state: State, tensors: Mapping[str, Tensor] | None, hooks: Hooks) -> None:
        """Begin, or go on from the tensors of a checkpoint.

        Args:
            state: Where the run stands.
            tensors: Those of the checkpoint, if there is one.
            hooks: Told if the run is too short for any skipping.
        """
        if self._skipper is None:
            return
        if tensors is not None:
            kept = {
                name.removeprefix(_SAVED): one
                for name, one in tensors.items()
                if name.startswith(_SAVED)
            }
            self._skipper.load_state_dict(state.skipping, kept, state.step)
        elif too_short := self._skipper.rule.too_short():
            hooks.say(too_short)

    @property
    def wait(self) -> Callable[[], None] | None:
        """Waits until the batch that was asked for is decided; None where all are."""
        return None if self._skipper is None else self._skipper.order.wait

    def look_ahead(self) -> Foresight | None:
        """From here on a thread plans ahead, and asks what is due; None where nothing ever is."""
        self._foresight = None if self._skipper is None else self._skipper.foresight()
        return self._foresight

    def close(self) -> None:
        """Take no more decisions: threads that wait for one are told."""
        if self._skipper is not None:
            self._skipper.decisions.close()

    def awaits(self, plans: Sequence[Plan]) -> int:
        """Of plans that were just stepped through, how many need not have said anything yet.

        Not one where rows are looked at after the last of them, or where nobody can tell; otherwise
        all of them: for what is read ahead those before must be known.
        """
        foresight = self._foresight
        return 0 if foresight is None or foresight.foreseen(plans[-1]) else len(plans)

    def after(self, heard: Sequence[Heard], state: State) -> list[dict[str, Any]]:
        """Let it learn from steps, and decide what is due; the lines to report.

        Args:
            heard: What the steps have said, in their order.
            state: Counts the time that it takes.
        """
        if self._skipper is None:
            return []
        with state.timed("plan"):
            if self._foresight is None:
                return self._skipper.after(heard)
            return self._skipper.after(heard, self._foresight.foreseen)

    def saved(self, state: State) -> dict[str, Tensor]:
        """What a checkpoint holds of it; the rest is put into the state."""
        if self._skipper is None:
            return {}
        state.skipping, kept = self._skipper.state_dict()
        return {f"{_SAVED}{name}": one for name, one in kept.items()}

    def summary(self, summary: Mapping[str, Any], state: State) -> dict[str, Any]:
        """What it adds to the summary of a run."""
        if self._skipper is None:
            return {}
        return {"skipping": self._skipper.summary(summary, state.curve)}
