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
from slipstream.data.dataset import Dataset
from slipstream.errors import ConfigError
from slipstream.skew.calibrate import t_quantile
from slipstream.training.strategies import answers

SHARES = (0.5, 0.3, 0.15)
SEEDS = 3
LEAST_STEPS = 20  # of a pilot, without which it would say nothing
_FIXED = ("shares", "keep_negatives", "h_t")  # in place of the target, which pilots choose
_CONFIDENCE = 0.9  # of two sides, so 95 % of the one that counts

Train = Callable[[Dataset, Config, Path], dict[str, Any]]


def piloted(
    dataset: Dataset, config: Config, train: Train, say: Callable[[str], None]
) -> tuple[Config, dict[str, Any]]:
    """The configuration with the largest share that pilots show to cost no more than allowed.

    Pilots train on the first inputs, with and without skipping from the same seeds, and are scored
    on the validation part. Together they go through no more than `skip.pilot_share` of the inputs
    of the run. Rows have seen less by then than at the end of the run, where skipping costs less:
    a share that they show to be within bounds is a careful one. Where they cannot decide, nothing
    is skipped.

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
    inputs = int(config.skip.pilot_share * per_epoch * config.epochs) // (SEEDS * (1 + len(SHARES)))
    report: dict[str, Any] = {"max_auc_loss": allowed, "inputs_each": inputs, "shares": []}
    if inputs < LEAST_STEPS * config.batch_size:
        return _nothing(
            config,
            report,
            say,
            f"each would have {inputs:,} inputs, fewer than {LEAST_STEPS} batches",
        )
    steered = Dataset(
        dataset.manifest,
        {**dataset.parts, "evaluation": dataset.validation},
        dataset.counts,
        dataset.dictionary,
        buckets=dataset.buckets,
    )
    with tempfile.TemporaryDirectory(prefix="slipstream-pilots-") as folder:
        runs = _Runs(steered, _short(config, min(inputs, per_epoch)), train, Path(folder))
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
        + ("too little was skipped" if one["most"] is None else f"up to {one['most']:.4f}")
        for one in report["shares"]
    )
    return _nothing(config, report, say, f"the fall of the AUC may be larger ({seen})")


class _Runs:
    """Pilots of several seeds, each with and without skipping."""

    def __init__(self, dataset: Dataset, config: Config, train: Train, folder: Path) -> None:
        self._dataset, self._config, self._train, self._folder = dataset, config, train, folder
        self._full: dict[int, float] = {}

    def cost(self, share: float) -> dict[str, Any]:
        """What a share costs: the mean over seeds, and a bound of it."""
        falls, reached = [], []
        for seed in range(self._config.seed, self._config.seed + SEEDS):
            if seed not in self._full:
                self._full[seed] = self._run(seed, None)["auc"] or math.nan
            summary = self._run(seed, share)
            falls.append(self._full[seed] - (summary["auc"] or math.nan))
            reached.append(summary["skip_share"])
        mean, most = statistics.fmean(falls), None
        if min(reached) >= share / 2 and all(map(math.isfinite, falls)):
            error = statistics.stdev(falls) / math.sqrt(SEEDS)
            most = mean + t_quantile(SEEDS - 1, _CONFIDENCE) * error
        return {"share": share, "reached": min(reached), "mean": mean, "most": most}

    def _run(self, seed: int, share: float | None) -> dict[str, Any]:
        skip = self._config.skip
        skip = replace(skip, rule="none") if share is None else replace(skip, target=share)
        config = replace(self._config, seed=seed, skip=skip)
        return self._train(self._dataset, config, self._folder / f"{seed}-{share}")


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
