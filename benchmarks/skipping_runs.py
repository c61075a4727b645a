"""One run of the benchmark of skipping: its data set made, trained, scored."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from ledger import Outcome, Task
from truth import expected, true_chances

from slipstream import Dataset, Recipe, synthesize
from slipstream.config import Config
from slipstream.training.evaluation import predictions
from slipstream.training.loop import train
from slipstream.training.restored import open_run

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
        np.save(truth, true_chances(recipe))
    return {"seconds": time.perf_counter() - begun}


def measure(folder: Path, task: Task) -> Outcome:
    """Train and score one run; where the truth is known, scores are against it."""
    torch.set_num_threads(1)
    data, truth = _places(folder, task)
    dataset = Dataset.open(data)
    config = Config(seed=task["seed"]).with_settings(
        f"{key}={json.dumps(value)}" for key, value in task["settings"].items()
    )
    with tempfile.TemporaryDirectory() as run:
        summary = train(dataset, config, Path(run) / "run")
        made: Outcome = {name: summary.get(name) for name in _KEPT}
        if truth.is_file():
            made |= _against_truth(Path(run) / "run", dataset, np.load(truth))
    return made


def _against_truth(run: Path, dataset: Dataset, chance: np.ndarray) -> Outcome:
    opened = open_run(run, dataset)
    made = predictions(opened.engine, opened.placement, dataset.evaluation, 8192)
    logits = torch.cat([logits[: batch.n_valid].float() for batch, logits in made])
    return expected(logits.numpy(), chance)._asdict()


def _places(folder: Path, task: Task) -> tuple[Path, Path]:
    """The folder of a task's data set, and the file of its true chances, if it has any."""
    recipe = task["data"].get("recipe")
    if recipe is None:
        return Path(task["data"]["folder"]), folder / "none"
    words = [str(recipe[key]) for key in ("shape", "rows", "positives", "exponent", "drift")]
    name = "-".join(words).translate(str.maketrans("=,", "--"))
    return folder / "data" / name, folder / "data" / f"{name}.npy"
