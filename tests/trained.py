"""Small runs for tests: logs, data sets of them, and models trained on these in a moment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from raw_logs import criteo_rows, prepare_criteo, write

from slipstream import Dataset
from slipstream.config import Config
from slipstream.training.loop import train

SIZES = {
    "dlrm": ("model.dim=4", "model.bottom=[8]", "model.top=[8]"),
    "tbsm": ("model.dim=4", "model.top=[5]", "model.attention=[5]", "model.final=[6]"),
    "dcn": ("model.dim=4", "model.cross=2", "model.deep=[8]"),
    "deepfm": ("model.dim=4", "model.deep=[8]"),
    "wide_deep": ("model.dim=4", "model.deep=[8]"),
}


def config_of(data: Dataset, *settings: str, model: str = "dlrm") -> Config:
    """A configuration of few and small layers, quick to train."""
    base = (f"model.name={model}", *SIZES[model], "batch_size=128", "log.trackers=[]")
    moved = ("embedding={optimizer: sgd, lr: 0.5}", "dense={optimizer: sgd, lr: 0.2}")
    rates = (*moved, "compile=off", "evaluate.at=[]")
    return Config(data=str(data.folder)).with_settings([*base, *rates, *settings])


def small_run(out: Path, data: Dataset, *settings: str, **options: Any) -> dict[str, Any]:
    """Train, and give the summary."""
    config = config_of(data, *settings, model=options.pop("model", "dlrm"))
    return train(data, config, out, **options)


def criteo_data(folder: Path, rows: int = 1500, seed: int = 0, **options: Any) -> Dataset:
    """A criteo log `log.tsv` in a folder, and the data set `data` made of it."""
    folder.mkdir(parents=True, exist_ok=True)
    log = write(folder / "log.tsv", criteo_rows(rows, seed))
    return prepare_criteo([log], folder / "data", **options)
