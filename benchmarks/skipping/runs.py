"""One run of the benchmark of skipping: its data set, training and score."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.skipping.tail import MOMENTS, auc_of_tail, predicted
from benchmarks.skipping.tasks import Task
from benchmarks.skipping.truth import PARTS, expected_auc, true_chances

from slipstream import Dataset, Recipe, synthesize
from slipstream.config import Config
from slipstream.training import trainer
from slipstream.training.load_run import open_run
from slipstream.training.loop import train


def make_data(folder: Path, task: Task) -> None:
    """Make the data set of a task, with the true chances beside it, unless it exists."""
    data, truth = _places(folder, task)
    if task["recipe"] and not truth.is_file():
        torch.set_num_threads(1)
        recipe = Recipe(**task["recipe"])
        synthesize(recipe, data, force=True)
        np.save(truth, np.concatenate([true_chances(recipe, part) for part in PARTS]))


def measure(folder: Path, task: Task) -> dict[str, Any]:
    """Train and score one run; returns its AUC and the share that it skipped."""
    torch.set_num_threads(1)
    trainer.KEPT_CHECKPOINTS = MOMENTS if task["tail"] else 2
    data, truth = _places(folder, task)
    dataset = Dataset.open(data)
    keys = (f"{key}={json.dumps(value)}" for key, value in task["keys"].items())
    config = Config(seed=task["seed"]).with_settings(keys)
    chances = np.load(truth, mmap_mode="r") if task["recipe"] else None
    with tempfile.TemporaryDirectory() as folder_of_run:
        run = Path(folder_of_run) / "run"
        summary = train(dataset, config, run)
        if task["tail"]:
            auc = auc_of_tail(run, dataset, chances)
        else:
            assert chances is not None, "only built-in data are scored at the end"
            logits, _ = predicted(open_run(run, dataset), dataset.evaluation)
            auc = expected_auc(logits, chances[-len(logits) :])
    frozen = (summary.get("skipping") or {}).get("row_updates_frozen")
    return {"auc": auc, "share": summary["skip_share"] or frozen or 0.0}


def _places(folder: Path, task: Task) -> tuple[Path, Path]:
    """The folder of a task's data set, and the file of its true chances."""
    recipe = task["recipe"]
    if recipe is None:
        return Path(task["data"]), folder / "none"
    words = [str(recipe[key]) for key in ("shape", "rows", "positives", "drift")]
    return folder / "data" / "-".join(words), folder / "data" / f"{'-'.join(words)}.npy"
