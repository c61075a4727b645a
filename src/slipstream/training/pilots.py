"""Paired pilots: short trainings with and without skipping, to choose how much may be skipped."""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from slipstream.config import Config
from slipstream.data.dataset import Dataset, Part
from slipstream.errors import ConfigError
from slipstream.student import t_quantile
from slipstream.training.strategies import answers

SHARES = (0.5, 0.3, 0.15)
SEEDS = 3
LEAST_STEPS = 20  # of a pilot, without which it would say nothing
_FIXED = ("shares", "keep_negatives", "h_t")  # in place of the target, which pilots choose
_CONFIDENCE = 0.95
_SCORED = 3  # inputs that are scored in the time that one is trained

Train = Callable[[Dataset, Config, Path], dict[str, Any]]


def piloted(
    dataset: Dataset, config: Config, train: Train, say: Callable[[str], None]
) -> tuple[Config, dict[str, Any]]:
    """The configuration with the largest share that pilots show to cost no more than allowed.

    Pilots train on the first inputs, with and without skipping from the same seeds, and are scored
    on the validation part: each seed on a piece of its own, so that what another piece would have
    said is in the spread between seeds. Together they take no more than `skip.pilot_share` of the
    run's time, counted in inputs. Rows have seen less by then than at the end of the run, where
    skipping costs less: a share that they show to be within bounds is a careful one. Where they
    cannot decide, nothing is skipped.

    Args:
        dataset: What the run is to be trained on.
        config: How; `skip.max_auc_loss` says what may be lost.
        train: Trains into a folder, and gives the summary.
        say: Told what was found.
    """
    allowed = config.skip.max_auc_loss
    assert allowed is not None, "asked for only then"
    if answers(config).skipping == "none":
        raise ConfigError(
            "skip.max_auc_loss says how much skipping may cost, but nothing is skipped. Choose a "
            "rule (--skip), or leave it out."
        )
    fixed = [name for name in _FIXED if getattr(config.skip, name)]
    if fixed:
        raise ConfigError(
            f"skip.max_auc_loss chooses the share by pilots, but skip.{fixed[0]} says it already. "
            "Leave one of them out."
        )
    if not len(dataset.validation):
        raise ConfigError(
            "skip.max_auc_loss needs a validation part to score pilots on, and this data set has "
            "none. Prepare it with one, or leave it out."
        )
    per_epoch = min(len(dataset.train), config.limit or len(dataset.train))
    each = int(config.skip.pilot_share * per_epoch * config.epochs) // (SEEDS * (1 + len(SHARES)))
    # A quarter of its time at most goes to scoring.
    scored = min(len(dataset.validation) // SEEDS, _SCORED * each // 4)
    inputs = each - math.ceil(scored / _SCORED)
    report: dict[str, Any] = {
        "max_auc_loss": allowed,
        "inputs_each": inputs,
        "scored_each": scored,
        "shares": [],
    }
    if inputs < LEAST_STEPS * config.batch_size:
        return _nothing(
            config,
            report,
            say,
            f"each would have {inputs:,} inputs, fewer than {LEAST_STEPS} batches",
        )
    with tempfile.TemporaryDirectory(prefix="slipstream-pilots-") as folder:
        short = _short(config, min(inputs, per_epoch))
        runs = _Runs(dataset, scored, short, train, Path(folder))
        for share in SHARES:
            found = runs.cost(share)
            report["shares"].append(found)
            if found["most"] is not None and found["most"] <= allowed:
                report["chosen"] = share
                say(
                    f"Pilots of {inputs:,} inputs: at {share:.0%} skipped the AUC fell by "
                    f"{found['mean']:.4f}, and by at most {found['most']:.4f} with 95 % "
                    f"confidence; up to {allowed:g} is allowed. The run skips {share:.0%}."
                )
                return replace(config, skip=replace(config.skip, target=share)), report
    seen = ", ".join(
        f"{one['share']:.0%}: "
        + (f"up to {one['most']:.4f}" if one["most"] is not None else one["why"])
        for one in report["shares"]
    )
    return _nothing(config, report, say, f"the fall of the AUC may be larger ({seen})")


class _Runs:
    """Pilots of several seeds, each with and without skipping."""

    def __init__(
        self, dataset: Dataset, scored: int, config: Config, train: Train, folder: Path
    ) -> None:
        self._config, self._train, self._folder = config, train, folder
        self._datasets = {
            config.seed + k: _scored_on(dataset, k * scored, (k + 1) * scored) for k in range(SEEDS)
        }
        self._full: dict[int, float] = {}

    def cost(self, share: float) -> dict[str, Any]:
        """What a share costs: the mean over seeds, and a bound of it."""
        falls, reached = [], []
        for seed in self._datasets:
            if seed not in self._full:
                self._full[seed] = self._run(seed, None)["auc"] or math.nan
            summary = self._run(seed, share)
            falls.append(self._full[seed] - (summary["auc"] or math.nan))
            reached.append(summary["skip_share"])
        found = {"share": share, "reached": min(reached), "mean": None, "most": None, "why": ""}
        if not all(map(math.isfinite, falls)):
            return found | {"why": "the inputs that were scored have labels all alike"}
        found["mean"] = mean = statistics.fmean(falls)
        if min(reached) < share / 2:
            return found | {"why": "too little was skipped"}
        error = statistics.stdev(falls) / math.sqrt(SEEDS)
        return found | {"most": mean + t_quantile(_CONFIDENCE, SEEDS - 1) * error}

    def _run(self, seed: int, share: float | None) -> dict[str, Any]:
        skip = self._config.skip
        skip = replace(skip, rule="none") if share is None else replace(skip, target=share)
        config = replace(self._config, seed=seed, skip=skip)
        return self._train(self._datasets[seed], config, self._folder / f"{seed}-{share}")


def _scored_on(dataset: Dataset, start: int, stop: int) -> Dataset:
    """The data set with some of its validation part in place of the evaluation part."""
    part = dataset.validation
    scored = Part(part.name, part.schema, part.runs(start, stop))
    return Dataset(
        dataset.manifest,
        {**dataset.parts, "evaluation": scored},
        dataset.counts,
        dataset.dictionary,
        buckets=dataset.buckets,
    )


def _short(config: Config, inputs: int) -> Config:
    return replace(
        config,
        data="",
        limit=inputs,
        epochs=1,
        compile="off",
        evaluate=replace(config.evaluate, at=()),
        checkpoint=replace(config.checkpoint, every_inputs=None, every_minutes=None),
        log=replace(config.log, tensorboard=False),
        skip=replace(config.skip, max_auc_loss=None, lag=None),
    )


def _nothing(
    config: Config, report: dict[str, Any], say: Callable[[str], None], why: str
) -> tuple[Config, dict[str, Any]]:
    """Skip nothing, and say why."""
    report["chosen"] = 0.0
    say(
        f"Pilots cannot show that skipping costs no more than {config.skip.max_auc_loss:g} AUC: "
        f"{why}. Nothing is skipped."
    )
    return replace(config, skip=replace(config.skip, target=0.0)), report
