"""Data sets and configurations for runs that take a moment."""

import itertools
import json
from pathlib import Path

import numpy as np

from slipstream import Lists, from_arrays
from slipstream.config import Config
from slipstream.gpu.planning import plan_ahead
from slipstream.pipeline.place.popularity import Refresh
from slipstream.training import build, trainer
from slipstream.training.state import Hooks

SIZES = ("model.bottom=[4]", "model.top=[4]", "model.dim=2", "log.trackers=[]")


def short_segments(monkeypatch, batches):
    """Hot and cold batches apart, in segments that a small data set has several of."""
    monkeypatch.setattr(plan_ahead, "SEGMENT", batches)
    monkeypatch.setattr(build, "SEGMENT", batches)


def often_chosen(monkeypatch, batches):
    """The rows that stay in fast memory are chosen every few batches, where a strategy does."""
    of = Refresh.of

    def every(share, total, *arguments, **options):
        return of(batches / total if share else 0, total, *arguments, **options)

    monkeypatch.setattr(Refresh, "of", every)


def reported(monkeypatch, inputs):
    """A line about training after so many inputs."""
    monkeypatch.setattr(trainer, "report_every", lambda *_: inputs)


def config(*settings, batch_size=16, **keys) -> Config:
    return Config(batch_size=batch_size, **keys).with_settings([*SIZES, *settings])


def clicks(n=300, seed=0, **options):
    """A few inputs; 80 % of them in the training part, the rest shared by the other two."""
    random = np.random.default_rng(seed)
    arguments = {
        "labels": random.integers(0, 2, n),
        "columns": {"user": random.integers(0, 30, n), "ad": random.integers(0, 9, n)},
        "dense": {"price": random.normal(size=n).astype(np.float32)},
        "min_count": 0,
        "validation": 0.1,
        "evaluation": 0.1,
    }
    return from_arrays(**(arguments | options))


def stop_after(calls):
    """Hooks that stop the run after so many calls."""
    count = itertools.count()
    return Hooks(should_stop=lambda: next(count) >= calls)


def lines(run, kind=None):
    text = (Path(run) / "metrics.jsonl").read_text()
    reports = [json.loads(line) for line in text.splitlines()]
    return [line for line in reports if kind in (None, line["kind"])]


def skewed(n=600, seed=0, **options):
    """The same with ids that are drawn by a power law, and a list: some inputs are hot."""
    random = np.random.default_rng(seed)
    draw = lambda rows, size: (rows * random.random(size) ** 4).astype(np.int64)  # noqa: E731
    lists = [draw(40, random.integers(0, 4)).tolist() for _ in range(n)]
    columns = {"user": draw(200, n), "ad": draw(30, n), "seen": Lists.of(lists, "sum")}
    return clicks(n, seed, columns=columns, **options)


# Options with which a rule decides and skips within a few hundred examples.
QUICK = {
    "published": {"warmup_batches": 5, "sample_share": 0.5, "max_movement": 1, "hot_sample": 1},
    "movement": {"min_touches": 2, "hot_sample": 1},
    "freeze": {"min_touches": 2, "hot_sample": 1},
    "random-hot": {"hot_only": "true", "hot_sample": 1},
}


def skip_rule(name, **options):
    """The settings of a rule for a short run; random-hot is `random` with `hot_only`."""
    options = QUICK.get(name, {}) | options
    settings = (f"skip.options.{option}={value}" for option, value in options.items())
    return (f"skip.rule={name.removesuffix('-hot')}", *settings)
