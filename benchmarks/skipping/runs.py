"""One run of the benchmark of skipping: its data set made, trained, scored."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.skipping.ledger import Outcome, Task
from benchmarks.skipping.tail import POINTS, scored, scores_of_tail
from benchmarks.skipping.truth import PARTS, Array, expected, oracle, true_chances

from slipstream import Dataset, Recipe, synthesize
from slipstream.config import Config
from slipstream.training import trainer
from slipstream.training.load_run import open_run
from slipstream.training.loop import train

_KEPT = (
    *("auc", "logloss", "calibration", "oracle_auc", "inputs_total", "skip_share"),
    *("train_seconds", "skipping"),
)


def make_data(folder: Path, task: Task) -> Outcome:
    """Make the data set of a task, with the true chances beside it, unless it is there."""
    data, truth = _places(folder, task)
    begun = time.perf_counter()
    if not truth.is_file():
        torch.set_num_threads(1)
        recipe = Recipe(**task["data"]["recipe"])
        synthesize(recipe, data, force=True)
        np.save(truth, np.concatenate([true_chances(recipe, part) for part in PARTS]))
    return {"seconds": time.perf_counter() - begun}


def measure(folder: Path, task: Task) -> Outcome:
    """Train and score one run; where the truth is known, scores are against it."""
    torch.set_num_threads(1)
    trainer.CHECKPOINTS = POINTS if task["tail"] else 2
    data, truth = _places(folder, task)
    dataset = Dataset.open(data)
    _warm(dataset, task["settings"])
    config = _config(task["settings"], task["seed"])
    chances = np.load(truth, mmap_mode="r") if truth.is_file() else None
    with tempfile.TemporaryDirectory() as folder_of_run:
        run = Path(folder_of_run) / "run"
        begun = time.perf_counter(), time.process_time()
        summary = train(dataset, config, run)
        whole, core = time.perf_counter() - begun[0], time.process_time() - begun[1]
        made: Outcome = {name: summary.get(name) for name in _KEPT}
        # Beside other runs the clock says little: the part of it that training had, of core time.
        made["core_seconds"] = core * summary["train_seconds"] / whole
        if task["tail"]:
            made |= scores_of_tail(run, dataset, chances)
        elif chances is not None:
            made |= _against_truth(run, dataset, chances[-len(dataset.evaluation) :])
    return made


_warmed: set[str] = set()


def _warm(dataset: Dataset, settings: dict[str, Any]) -> None:
    """Have a process load what a rule needs, so that no run's time counts it."""
    rule = settings.get("skip.rule", "none")
    if rule in _warmed:
        return
    _warmed.add(rule)
    few = settings | {"stop": 4 * settings.get("batch_size", 2048)}
    with tempfile.TemporaryDirectory() as folder:
        train(dataset, _config(few, 0), Path(folder) / "run")


def _config(settings: dict[str, Any], seed: int) -> Config:
    keys = (f"{key}={json.dumps(value)}" for key, value in settings.items())
    return Config(seed=seed).with_settings(keys)


def _against_truth(run: Path, dataset: Dataset, chances: Array) -> Outcome:
    logits, _ = scored(open_run(run, dataset), dataset.evaluation)
    return expected(logits, chances)._asdict() | {"oracle_auc": oracle(chances).auc}


def _places(folder: Path, task: Task) -> tuple[Path, Path]:
    """The folder of a task's data set, and the file of its true chances, if it has any."""
    recipe = task["data"].get("recipe")
    if recipe is None:
        return Path(task["data"]["folder"]), folder / "none"
    words = [str(recipe[key]) for key in ("shape", "rows", "positives", "exponent", "drift")]
    name = "-".join(words).translate(str.maketrans("=,", "--"))
    return folder / "data" / name, folder / "data" / f"{name}.npy"
