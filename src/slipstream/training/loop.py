"""The training loop: the path of one batch, from the order of inputs to a checkpoint."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from slipstream.config import Config
from slipstream.data.dataset import Dataset
from slipstream.data.loader import Loader
from slipstream.data.manifest import versions
from slipstream.errors import ConfigError, SlipstreamError
from slipstream.plan import Plan, Planner
from slipstream.training import build
from slipstream.training.checkpoint import Checkpoints, load, newest, weights_digest
from slipstream.training.evaluation import evaluate
from slipstream.training.fit import described
from slipstream.training.init_from import init_from
from slipstream.training.memory import Peak, keep_memory
from slipstream.training.metrics import Scores
from slipstream.training.progress import Report
from slipstream.training.recent import Recent
from slipstream.training.run import Lines, Run
from slipstream.training.schedule import rate

_RECENT = 1 << 16
_PHASES = ("data", "plan", "transfer", "step", "evaluate")


class StoppedError(SlipstreamError):
    """The run was asked to stop, and has saved where it stands."""


class DivergedError(SlipstreamError):
    """The loss is no longer a number."""


@dataclass
class State:
    """Where a run stands, between two steps; what a checkpoint holds beside rows and weights."""

    step: int = 0
    position: int = 0
    inputs_trained: int = 0
    ended: bool = False
    curve: list[dict[str, Any]] = field(default_factory=list)
    best_validation: float | None = None
    no_better: int = 0
    init_from: dict[str, Any] | None = None
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_PHASES, 0.0))

    @property
    def train_seconds(self) -> float:
        """Time spent on training, evaluations left out."""
        return sum(self.seconds.values()) - self.seconds["evaluate"]


@dataclass(frozen=True)
class Hooks:
    """What a run tells its caller, and asks it.

    Args:
        report: Told how far the run is, every so often.
        say: Told a sentence that a user should see.
        stop: Asked between two steps whether to save and stop.
    """

    report: Callable[[Report], None] = lambda _: None
    say: Callable[[str], None] = lambda _: None
    stop: Callable[[], bool] = lambda: False


def train(
    dataset: Dataset,
    config: Config,
    out: str | Path,
    *,
    resume: bool = False,
    force: bool = False,
    hooks: Hooks | None = None,
) -> dict[str, Any]:
    """Train a model on a data set, into a folder.

    Args:
        dataset: What to train on.
        config: How.
        out: The folder of the run.
        resume: Go on with the run that is there, from its newest checkpoint.
        force: Replace a run that is there.
        hooks: What to tell, and whether to stop.

    Returns:
        The summary, as it is in the folder.

    Example:
        >>> summary = train(dataset, Config(batch_size=256), "run")
        >>> summary["inputs_trained"], summary["strategy"]
        (1700, 'plain')
    """
    folder = Path(out)
    if config.init_from and not resume and Path(config.init_from).resolve() == folder.resolve():
        raise ConfigError(f"{folder} cannot be begun from itself. Choose another folder for it.")
    steps = build.steps_of(config, build.order_of(config, dataset))
    config = build.resolved(config, steps)
    run = Run.open(folder) if resume else Run.create(folder, config, force=force)
    keep_memory()
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    with ExitStack() as stack:
        trainer = Trainer(dataset, config, run, hooks or Hooks(), stack)
        trainer.start(resume)
        trainer.run_through()
        return trainer.finish()


class Trainer:
    """One run. Its methods, read in order, are the path of a batch."""

    def __init__(
        self, dataset: Dataset, config: Config, run: Run, hooks: Hooks, stack: ExitStack
    ) -> None:
        self.dataset, self.config, self.run, self.hooks = dataset, config, run, hooks
        self.order = build.order_of(config, dataset)
        if not len(self.order):
            raise ConfigError("There is nothing to train on: the training part has no inputs.")
        self.total = len(self.order)
        self.saver = Checkpoints(run.checkpoints, config.checkpoint.keep)
        stack.enter_context(self.saver)
        model = build.model_of(config, dataset)
        self.placement = build.placement_of(model.layout, dataset)
        self.described = described(dataset)
        # Rows that a checkpoint brings need no first values.
        fresh = next(run.checkpoints.glob("[0-9]*"), None) is None
        self.engine = build.engine_of(config, model, steps=0, fresh=fresh)
        self.state = State()
        self.recent = Recent(_RECENT)
        self.peak = Peak()
        stack.callback(self.peak.close)
        self._stack = stack
        self._saved_at = time.monotonic()
        every = config.log.every_inputs
        self.log_every = every or max(config.batch_size, self.total // 100)

    def start(self, resume: bool) -> None:
        """Begin at the beginning, or where the newest checkpoint stands."""
        length = 0
        found = newest(self.run.checkpoints) if resume else None
        if found is not None:
            for warning in found.warnings:
                self.hooks.say(warning)
            tensors, state = load(found, self.engine.tables.stores)
            if state["dataset"] != self.dataset.manifest.checksum:
                raise ConfigError("The run was begun with another data set.")
            recent = {n[7:]: v for n, v in tensors.items() if n.startswith("recent.")}
            self.engine.dense.load_state_dict(tensors)
            self.recent.load_state_dict(recent)
            self.state = State(**state["training"])
            length = state["lines"]
            self.hooks.say(f"Going on from input {self.state.position:,} of {self.total:,}.")
        elif self.config.init_from is not None:
            run, say = self.config.init_from, self.hooks.say
            self.state.init_from = init_from(run, self.engine, self.dataset, say)
        board = self.config.log.tensorboard
        self.lines = Lines(self.run.folder, length, board, self.state.position)
        self._stack.callback(self.lines.close)

    def run_through(self) -> None:
        """Train until the inputs are used up, or until validation gets no better."""
        loader = self._stack.enter_context(
            Loader(self.dataset.train, self.config.batch_size, order=self.order)
        )
        loader.load_state_dict({"position": self.state.position})
        planner = Planner(self.placement)
        while not self.state.ended:
            with self._timed("data"):
                batch = next(loader, None)
            if batch is None:
                break
            with self._timed("plan"):
                plan = planner.plan(batch, self.state.step + 1)
            with self._timed("step"):
                self._step(plan)
            before = self.state.position
            self.state.position = plan.next_position
            self.state.step += 1
            self.state.inputs_trained += plan.n_valid
            self._after_step(before)
        self.state.ended = True

    def _step(self, plan: Plan) -> None:
        stepped = self.engine.forward(plan)
        if not math.isfinite(stepped.loss):
            raise DivergedError(
                f"The loss of step {plan.step} is {stepped.loss}: the batch of {plan.n_valid} "
                f"inputs at positions {self.state.position:,} to {plan.next_position:,}, which "
                f"begins with input {int(plan.numbers[0]):,} of the training part. Try a lower "
                "learning rate (dense.lr, embedding.lr), warm-up (schedule.warmup_inputs) or "
                "dense.clip."
            )
        n = plan.n_valid
        self.recent.add(stepped.logits[:n], plan.labels[:n], plan.weight[:n])
        for number, group in enumerate(plan.groups):
            assert group.touched is not None, "training plans move rows"
            self.saver.before_update(number, group.touched.rows.numpy())
        factor = rate(self.config.schedule, self.state.position, self.total)
        self.engine.move(plan, factor)

    def _after_step(self, before: int) -> None:
        """What is due between two steps: a report, scores, a checkpoint, the end."""
        after = self.state.position
        if _crossed(self.log_every, before, after):
            self._report()
        for share in self.config.evaluate.at:
            if before < share * self.total <= after:
                self._score(share)
        if _crossed(self.config.early_stopping.every_inputs, before, after):
            self._validate()
        if self.hooks.stop():
            self._save()
            self.saver.close()
            raise StoppedError(
                f"Stopped at input {after:,} of {self.total:,}; everything up to there is saved."
            )
        minutes = self.config.checkpoint.every_minutes
        late = minutes is not None and time.monotonic() - self._saved_at >= 60 * minutes
        if late or _crossed(self.config.checkpoint.every_inputs, before, after):
            self._save()

    def _report(self) -> None:
        self.peak.look()
        lately = self.recent.result()
        seconds = self.state.train_seconds
        speed = self.state.inputs_trained / seconds if seconds else 0.0
        self.lines.write(
            {
                "kind": "training",
                "position": self.state.position,
                "step": self.state.step,
                "loss": lately.loss,
                "auc": lately.auc,
                "train_seconds": seconds,
                "samples_per_second": speed,
            }
        )
        self.hooks.report(
            Report("train", self.state.position, self.total, speed, lately.loss, lately.auc)
        )

    def _score(self, share: float) -> Scores:
        """Score the evaluation part: a point of the learning curve."""
        scores = self._evaluate("evaluation")
        line = {"kind": "evaluation", "position": self.state.position, "share": share}
        line |= scores.to_json()
        self.state.curve.append(line)
        self.lines.write(line | {"train_seconds": self.state.train_seconds})
        return scores

    def _validate(self) -> None:
        """Score the validation part, which steers; stop if it has not got better for long."""
        scores = self._evaluate("validation")
        self.lines.write(
            {"kind": "validation", "position": self.state.position, **scores.to_json()}
        )
        if scores.logloss is None:
            raise ConfigError("early_stopping needs a validation part, and this data set has none.")
        best, stop = self.state.best_validation, self.config.early_stopping
        if best is None or scores.logloss < best - stop.min_change:
            self.state.best_validation, self.state.no_better = scores.logloss, 0
            return
        self.state.no_better += 1
        if self.state.no_better >= stop.patience:
            self.state.ended = True
            self.hooks.say(
                f"Validation has not got better {stop.patience} times in a row: training ends at "
                f"input {self.state.position:,} of {self.total:,}."
            )

    def _evaluate(self, part: str) -> Scores:
        size = self.config.evaluate.batch_size or self.config.batch_size
        with self._timed("evaluate"):
            scores = evaluate(
                self.engine,
                self.placement,
                self.dataset.parts[part],
                size,
                self.config.evaluate.auc,
            )
        self.peak.look()
        return scores

    def _save(self) -> None:
        """Begin a checkpoint of everything as it is now; it is written beside the next steps."""
        recent = {f"recent.{name}": value for name, value in self.recent.state_dict().items()}
        self.saver.begin(
            self.state.step,
            self.engine.tables.stores,
            self.engine.dense.state_dict() | recent,
            {
                "dataset": self.dataset.manifest.checksum,
                "data": self.described,
                "lines": self.lines.secured(),
                "training": asdict(self.state),
            },
        )
        self._saved_at = time.monotonic()

    def finish(self) -> dict[str, Any]:
        """Save, score the evaluation part for the last time, and write the summary."""
        if self.saver.last_saved != self.state.step:
            self._save()
        scores = self._score(1.0)
        self._report()
        self.saver.close()
        state, manifest = self.state, self.dataset.manifest
        oracle = (manifest.oracle or {}).get("evaluation")
        skipped = state.position - state.inputs_trained
        summary = {
            **build.about(self.config, self.dataset),
            **scores.to_json(),
            "oracle_auc": oracle["auc"] if oracle else None,
            "init_from": state.init_from,
            "inputs_total": self.total,
            "inputs_trained": state.inputs_trained,
            "inputs_skipped": skipped,
            "skip_share": skipped / state.position,
            "hot_rows": 0,
            "hot_access_share": 0.0,
            "curve": [{"share": one["share"], "auc": one["auc"]} for one in state.curve],
            "train_seconds": state.train_seconds,
            "samples_per_second": state.inputs_trained / state.train_seconds,
            "phase_seconds": state.seconds,
            "peak_memory_bytes": {"host": self.peak.bytes, "device": 0},
            "weights_digest": weights_digest(
                self.engine.tables.stores, self.engine.dense.model.state_dict()
            ),
            "versions": versions(),
        }
        self.run.write_summary(summary)
        return summary

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.state.seconds[phase] += time.perf_counter() - begun


def _crossed(every: int | None, before: int, after: int) -> bool:
    """Whether a multiple of `every` lies between two positions."""
    return every is not None and after // every > before // every
