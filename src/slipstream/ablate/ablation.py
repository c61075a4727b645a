"""An ablation from beginning to end: the runs that say most come first."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from slipstream.ablate.controls import control_keys
from slipstream.ablate.lines import CONTROLS, Keys, Line, lines_of
from slipstream.ablate.table import Ended, Row, as_csv, as_json, as_markdown, rows_of
from slipstream.compare.folder import Folder
from slipstream.compare.grid import PlannedRun, planned_run
from slipstream.compare.runner import Event, Tell, run_all
from slipstream.config import Config
from slipstream.data.dataset import Dataset
from slipstream.environment import environment
from slipstream.errors import ConfigError, SlipstreamError, did_you_mean
from slipstream.models import MODELS
from slipstream.report.runs import read_run
from slipstream.report.write import report_on
from slipstream.training import build
from slipstream.training.resolved import resolved


class Step(NamedTuple):
    """A line to be trained with a seed."""

    line: Line
    seed: int


class Ablation:
    """Blocks of skipping on and off, rules, thresholds and models, in a folder.

    Args:
        base: The configuration that all lines change, with the data set.
        models: To try; the first stands in all lines but those about models.
        seeds: How many, from the configuration's on.
        out: The folder.
        only: The groups of lines to train; None trains all.
    """

    def __init__(
        self,
        base: Config,
        models: Sequence[str],
        seeds: int,
        out: Path,
        only: Sequence[str] | None = None,
    ) -> None:
        self.dataset = Dataset.open(base.data)
        self.base = replace(base, data=str(Path(base.data).absolute()))
        self.folder = Folder(out)
        self.seeds = [base.seed + number for number in range(seeds)]
        for name in models:
            if name not in MODELS:
                raise ConfigError(f"There is no model {name!r}.{did_you_mean(name, MODELS)}")
        lines = lines_of(self.base, self.dataset, models)
        self.lines = [one for one in lines if only is None or one.group in only]
        if not self.lines:
            raise ConfigError(f"There are no lines about {', '.join(only or ())}.")
        self._seconds: list[float] = []

    @property
    def steps(self) -> list[Step]:
        """All steps in their order.

        The first lines come with all their seeds soon, for one seed says nothing about noise; of
        the others each comes with one seed before any comes with the next.
        """
        steps = [Step(line, seed) for line in self.lines for seed in self.seeds]
        first = self.seeds[0]
        return sorted(steps, key=lambda one: (one.line.tier + one.seed - first, one.line.tier))

    @property
    def runs(self) -> list[PlannedRun]:
        """All runs that are known of: controls are, once what they control has been trained."""
        made: dict[str, PlannedRun] = {}
        for step in self.steps:
            for one in (*self._pair(step), *self._controls(step).values()):
                made.setdefault(one.name, one)
        return list(made.values())

    @property
    def titles(self) -> dict[str, str]:
        """What to call runs that are known of, by variant: after the first line they are for."""
        made: dict[str, str] = {}
        for line in self.lines:
            step = Step(line, self.seeds[0])
            base, mine = self._pair(step)
            made.setdefault(mine.variant, line.label)
            made.setdefault(base.variant, f"full training, {line.name_of_base}")
            for rule, one in self._controls(step).items():
                made.setdefault(one.variant, f"{line.label}: {rule}")
        return made

    @property
    def unknown_controls(self) -> int:
        """How many runs may come to those that are known of, at most: controls of what is left."""
        first = self.seeds[0]
        left = [one for one in self.lines if self._summary(self._pair(Step(one, first))[1]) is None]
        return len(self.seeds) * sum(len(one.controls) for one in left)

    def check(self, say: Callable[[str], None]) -> None:
        """Leave out the lines that cannot be trained here, and say so."""
        kept, wrong = [], dict[str, list[str]]()
        for line in self.lines:
            try:
                for one in self._pair(Step(line, self.seeds[0])):
                    build.model_of(one.config, self.dataset)
                    build.check_device(one.config)
                    build.check(one.config, self.dataset)
                    resolved(one.config, build.order_of(one.config, self.dataset))
                kept.append(line)
            except SlipstreamError as error:
                wrong.setdefault(str(error), []).append(line.label)
        for why, labels in wrong.items():
            say(f"{'; '.join(labels)} {'is' if len(labels) == 1 else 'are'} left out: {why}")
        if not kept:
            raise ConfigError("No line is left that can be trained.")
        self.lines = kept

    def train(
        self, tell: Tell, *, force: bool = False, seconds: float | None = None
    ) -> list[Event]:
        """Train what has not been trained; the table is written after every step.

        Args:
            tell: Told what happens.
            force: Replace what is there.
            seconds: Begin no step that would not be through within this time, but for the first.

        Returns:
            What became of runs that failed.
        """
        about = {"same": {"data": self.dataset.manifest.checksum}, "machine": environment()}
        self.folder.open([], about, force=force)
        begun, failed = time.monotonic(), []
        for step in self.steps:
            left = [one for one in self._pair(step) if not self.folder.ended(one)]
            more = self._controls(step) if not left else dict.fromkeys(step.line.controls)
            new = sum(one is None or not self.folder.ended(one) for one in more.values())
            if seconds is not None and self._seconds:
                needed = (len(left) + new) * sum(self._seconds) / len(self._seconds)
                if needed and time.monotonic() - begun + needed > seconds:
                    break
            failed += self._train(left, about, tell)
            failed += self._train(list(self._controls(step).values()), about, tell)
            if left or new:
                self.write()
        return failed

    def _train(self, runs: list[PlannedRun], about: dict[str, Any], tell: Tell) -> list[Event]:
        """Train some runs, but those that have ended."""

        def told(event: Event) -> None:
            if event.state == "ended":
                self._seconds.append(event.seconds)
            tell(event)

        left = [one for one in runs if not self.folder.ended(one)]
        self.folder.open(left, about, force=False)
        return run_all(self.folder, left, told)

    def rows(self) -> list[Row]:
        """The table of what has ended."""
        return rows_of([(line, self._ended(line)) for line in self.lines])

    def write(self, *, page: bool = False) -> list[Row]:
        """Write the table as Markdown, CSV and JSON; with `page`, the report of all runs too."""
        rows, out = self.rows(), self.folder.path
        for name, made in (("md", as_markdown), ("csv", as_csv), ("json", as_json)):
            (out / f"ablation.{name}").write_text(made(rows), encoding="utf-8")
        if page and rows:
            report_on([out]).write(out / "report.html", out / "plots")
        return rows

    def _ended(self, line: Line) -> list[Ended]:
        """For each seed with which a line has ended: it, its baseline, its controls."""
        made = []
        for seed in self.seeds:
            base, mine = (self._summary(one) for one in self._pair(Step(line, seed)))
            if base is None or mine is None:
                continue
            controls = {
                rule: summary
                for rule, one in self._controls(Step(line, seed)).items()
                if (summary := self._summary(one)) is not None
            }
            made.append(Ended(seed, mine, base, controls))
        return made

    def _pair(self, step: Step) -> tuple[PlannedRun, PlannedRun]:
        """The baseline of a step, and the step itself."""
        plain = {**step.line.base, "strategy": "plain", "skip.rule": "none"}
        return self._run(plain, step.seed), self._run(step.line.keys, step.seed)

    def _controls(self, step: Step) -> dict[str, PlannedRun]:
        """The controls of a step; they follow the first seed, so that all seeds have the same."""
        _, line = self._pair(Step(step.line, self.seeds[0]))
        summary = self._summary(line)
        if summary is None:
            return {}
        made = {}
        for rule in (one for one in CONTROLS if one in step.line.controls):
            keys = control_keys(step.line, rule, summary, self.base.epochs)
            if keys is not None:
                made[rule] = self._run(keys, step.seed)
        return made

    def _run(self, keys: Keys, seed: int) -> PlannedRun:
        return planned_run(self.base, keys, seed)

    def _summary(self, one: PlannedRun) -> dict[str, Any] | None:
        """What came out of a run that has ended, with its pace once all is compiled."""
        if not self.folder.ended(one):
            return None
        run = read_run(self.folder.run(one))
        return (run.summary or {}) | {"inputs_per_second": run.inputs_per_second}
