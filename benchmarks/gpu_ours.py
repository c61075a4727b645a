"""Our own engine in the benchmark of a GPU: through `train`, timed between two of its steps."""

from __future__ import annotations

import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import torch
from gpu_watch import Busy, Compiled, Threads, wait_for

from slipstream import Dataset, estimate
from slipstream.config import Config
from slipstream.gpu import peak_memory
from slipstream.pipeline.place.counting import per_input
from slipstream.training import build, loop, placement, trainer
from slipstream.training import estimate as estimation
from slipstream.training.state import Hooks

MIB = 1 << 20
# What is reported of a run of Criteo Kaggle's size by default: after each per cent of its inputs.
_REPORT = 39_291_958 // 100
_SLICE = 0.1  # seconds of which the speed is told, so that a stall shows
_ENDLESS = 1000  # epochs; the runs end when they have been timed
_LOOKED_AT = 600_000  # inputs
_KNOWN: dict[Any, Any] = {}
_USERS = (build, estimation, placement, trainer)  # modules that call them


def look_once() -> None:
    """Have what is found out of a data set before a run found once, and from its first inputs.

    Runs without an end would look at every batch for the one that needs the most rows, and the
    estimate beside each run would do all of it again.
    """
    tier_sizes_of, working_set = placement.tier_sizes_of, placement.working_set

    def needed(config: Config, layout: Any, dataset: Dataset) -> Any:
        few = config.replace(epochs=1, stop=min(_LOOKED_AT, len(dataset.train)))
        return _known(working_set, few, layout, dataset)

    for module in _USERS:
        if hasattr(module, "working_set"):
            module.working_set = needed
        if hasattr(module, "tier_sizes_of"):
            module.tier_sizes_of = lambda *args: _known(tier_sizes_of, *args)


def _known(work: Any, config: Config, layout: Any, dataset: Dataset) -> Any:
    keys = (config.strategy, config.batch_size, config.placement, config.epochs, config.stop)
    key = (work.__name__, repr(keys), repr(layout), str(dataset.folder))
    if key not in _KNOWN:
        _KNOWN[key] = work(config, layout, dataset)
    return _KNOWN[key]


class EnoughError(Exception):
    """Everything is known of a run."""


class Watched(loop.Trainer):  # type: ignore[misc]
    """A run that can be looked at from outside, and that saves nothing."""

    latest: ClassVar[Any] = None

    def __init__(self, *args: Any, **keys: Any) -> None:
        super().__init__(*args, **keys)
        self.log_every = max(self.config.batch_size, min(_REPORT, self.total // 2))
        Watched.latest = self

    def _save_changes(self) -> None:
        pass

    def finish(self) -> dict[str, Any]:
        """Score, and nothing else."""
        self.ended_at = wait_for(self.config.device)
        scores = self._score(1.0)
        scored = len(self.dataset.evaluation) / (wait_for(self.config.device) - self.ended_at)
        return {"auc": scores["auc"], "logloss": scores["logloss"], "scored_per_second": scored}


class Window:
    """Asked between two steps: times some of them, watches the GPU for more, and ends the run.

    Args:
        device: Where steps run.
        warm: Steps that come first, and how long more go on after them.
        seconds: How long it is timed then.
        watched: Steps after that whose work on the GPU is looked at; None times the whole run.
    """

    def __init__(
        self, device: str, warm: tuple[int, float], seconds: float, watched: int | None
    ) -> None:
        self._device, self._warm, self._seconds, self._watched = device, warm, seconds, watched
        self._first: float | None = None
        self.begun: tuple[float, int, int, dict[str, int], int] | None = None
        self._busy: Busy | None = None
        self._threads: Threads | None = None
        self._compiled: Compiled | None = None
        self._seen: list[tuple[float, int]] = []  # now and then: when, and the inputs by then
        self._last = 0
        self.pools: dict[str, list[float]] = {}
        self.found: dict[str, Any] = {}

    def stop(self) -> bool:
        """Never, by what it says: it ends a run by an error."""
        if Watched.latest is None or not hasattr(Watched.latest, "engine"):
            return False
        state = Watched.latest.state
        if self._busy is not None:
            if state.step - self._last >= (self._watched or 0):
                self.found |= self._busy.end(state.step - self._last)
                raise EnoughError
        elif self.begun is None:
            if state.step >= self._warm[0]:
                self._first = self._first or time.perf_counter()
                if time.perf_counter() - self._first >= self._warm[1]:
                    self._begin()
        elif self._watched is not None and self._went_on() >= self._seconds:
            self.end(wait_for(self._device))
            if not self._watched:
                raise EnoughError
            self._last, self._busy = state.step, Busy(self._device)
        return False

    def _went_on(self) -> float:
        """How long it has been timed."""
        now = time.perf_counter()
        if now - self._seen[-1][0] >= _SLICE:
            self._seen.append((now, Watched.latest.state.position))
        return now - self._seen[0][0]

    def _begin(self) -> None:
        now, state = wait_for(self._device), Watched.latest.state
        self.begun = now, state.position, state.step, dict(state.transfers), state.inputs_trained
        self._threads, self._compiled, self._seen = Threads(), Compiled(), [(now, state.position)]

    def end(self, now: float) -> None:
        """What went on from the beginning to a time."""
        state = Watched.latest.state
        if self.begun is None or state.step == self.begun[2]:
            raise RuntimeError("The run had ended before it was warm: it needs more inputs.")
        assert self._threads is not None, "it began with them"
        assert self._compiled is not None, "it began with that"
        self.found["threads"] = self._threads.end()
        self.found["compiled"] = self._compiled.end()
        self.found["slices"] = [
            round((after[1] - before[1]) / (after[0] - before[0]) / 1e6, 2)
            for before, after in pairwise(self._seen)
        ]
        self.pools = pools(self._device)
        begun, position, step, transfers, trained = self.begun
        inputs, seconds = state.position - position, now - begun
        moved = {name: state.transfers[name] - transfers[name] for name in transfers}
        each = per_input(moved, max(1, state.inputs_trained - trained))
        groups = Watched.latest.model.layout.groups
        vectors = 2 * 4 * sum(len(group.features) * group.dim for group in groups)
        tiered = Watched.latest.tier_sizes is not None
        self.found |= {
            "samples_per_second": inputs / seconds,
            "wall_ms": seconds / (state.step - step) * 1e3,
            "trained_share": (state.inputs_trained - trained) / inputs,
            "misses": each["misses"],
            "bytes": each["bytes_in"] + each["bytes_out"] if tiered else vectors,
            "hit_rate": moved["hits"] / moved["lookups"] if moved["lookups"] else None,
            "waits": Watched.latest.state.waits["steps"] / state.step,
        }


def pools(device: str) -> dict[str, list[float]]:
    """MiB that PyTorch has of a GPU, and uses of that, by whom it has them for."""
    made: dict[str, list[float]] = {}
    for one in torch.cuda.memory_snapshot() if device.startswith("cuda") else ():
        recorded = tuple(one["segment_pool_id"]) != (0, 0)
        name = f"{'recorded' if recorded else 'eager'} stream {one['stream'] % 997}"
        mine = made.setdefault(name, [0.0, 0.0])
        mine[0] += one["total_size"] / MIB
        mine[1] += one["allocated_size"] / MIB
    return {name: [round(size, 1) for size in sizes] for name, sizes in made.items()}


def pinned_bytes(device: str) -> int:
    """Page-locked memory of the host that PyTorch has, all in all."""
    if not device.startswith("cuda"):
        return 0
    return int(torch.cuda.host_memory_stats().get("allocated_bytes.current", 0))


def config_of(one: dict[str, Any]) -> Config:
    """How a contender trains."""
    dim, strategy = one.get("dim", 16), one.get("strategy", "fast")
    tiny = one["device"] == "cpu"
    settings = [
        f"placement.fast_memory={one['memory']}",
        f"embedding.optimizer={one.get('optimizer', 'rowwise_adagrad')}",
        f"model.dim={dim}",
        f"model.top={[512, 256] if dim == 16 else [512, 512, 256]}",
        "log.trackers=[]",
        "evaluate.at=[]",
        *one.get("settings", []),
    ]
    return Config(
        strategy=strategy,
        batch_size=one["batch"],
        device=one["device"],
        precision="fp32" if tiny else one.get("precision", "bf16"),
        compile="off",  # as auto would have it: layers and interaction are kernels of their own
        epochs=one.get("epochs", _ENDLESS),
        stop=one.get("stop"),
    ).with_settings(settings)


def ours(dataset: Dataset, one: dict[str, Any]) -> dict[str, Any]:
    """A contender of ours: steady state, or with `whole` from early on to the end of its run."""
    config, whole = config_of(one), one.get("whole", False)
    said: list[str] = []
    warm = one["warm"], 0.0 if whole else one["seconds"] / 2
    window = Window(one["device"], warm, one["seconds"], None if whole else one["watched"])
    loop.Trainer, made = Watched, loop.Trainer
    scores: dict[str, Any] = {}
    try:
        with tempfile.TemporaryDirectory() as folder:
            hooks = Hooks(on_message=said.append, should_stop=window.stop)
            scores = loop.train(dataset, config, Path(folder) / "run", hooks=hooks)
        window.end(Watched.latest.ended_at)
    except EnoughError:
        pass
    finally:
        loop.Trainer = made
    expected = estimate(dataset, config)
    parts = dict(expected.device)
    if not whole:
        parts.pop("evaluation", None)  # it ends before there is one
    found = {
        **window.found,
        **scores,
        "device_mib": peak_memory(one["device"]) / MIB,
        "pinned_mib": pinned_bytes(one["device"]) / MIB,
        "estimate_pinned_mib": sum(expected.host.get(n, 0) for n in ("loader", "pinned")) / MIB,
        "pools_mib": window.pools or pools(one["device"]),
        "estimate_mib": sum(parts.values()) / MIB,
        "estimate_parts_mib": {name: round(size / MIB, 1) for name, size in parts.items()},
        "said": said,
    }
    Watched.latest = None  # and with it all of its memory
    return found
