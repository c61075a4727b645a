"""Trains for minutes with stalls at random places, and compares every bit with a run without any.

python benchmarks/soak.py [--seconds 480] [--device cuda] [--load 4]

Rows come and go while the threads that plan, read, copy and write are held up at random, the
streams of the GPU too, and other processes take some of the CPU. Round after round a strategy with
few rows on the device trains the same steps; what it ends with must have the bits of a run without
stalls that has every row on the device (fae and hotline: as many), and neither the memory of the
host nor that of the device may be larger in the last rounds of a kind than in the first. The exit
status is 1 if one of these does not hold. In rounds of one kind a rule skips inputs.
--device cpu runs the kernels in Triton's interpreter.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

SPIN = "while True: sum(range(100_000))"
WAITS = (0.0, 0.0, 0.0, 0.0, 0.0003, 0.001, 0.004)  # seconds; and now and then a long one
LONG, LONG_ONE_IN = 0.03, 200
CYCLES = 1_500_000_000  # of a GPU, a second
# A strategy, perhaps with a rule that skips, and its fast tier.
KINDS = [
    ("fast", "3%"),
    ("bagpipe", "12%"),
    ("fast+movement", "12%"),
    ("fast", "20%"),
    ("hotline", "12%"),
    ("fae", "12%"),
]
SPARE = 48 << 20  # bytes that the last rounds of a kind may take more than the first ones
LAST = 3  # rounds of a kind that are looked at, at either end
GATHER, CARRIER = "slipstream.gpu.transfer.gather", "slipstream.gpu.transfer.carrier"
# Where work is held up: by whom it is done, and what is called.
POINTS = {
    "looking at inputs": ("slipstream.gpu.planning.cold_planner", "ColdPlanner", "on_read"),
    "rows that enter the window": ("slipstream.gpu.planning.cold_tier", "ColdTier", "enter"),
    "handing out slots": ("slipstream.gpu.planning.cold_tier", "ColdTier", "emit"),
    "reading rows": (GATHER, "Pool", "gather"),
    "reading rows of several steps": (GATHER, "Pool", "gather_pages"),
    "writing rows": (GATHER, "Pool", "scatter"),
    "writing rows of several steps": (GATHER, "Pool", "scatter_pages"),
    "packing": (CARRIER, "Carrier", "prepare"),
    "sending inputs": ("slipstream.gpu.transfer.bundle", "PlanBundle", "send_inputs"),
    "stepping": (CARRIER, "Carrier", "arrive"),
    "what a step gives": (CARRIER, "Carrier", "leave"),
    "landing": (CARRIER, "Carrier", "landed"),
    "learning what to skip": ("slipstream.skip.skipper", "Skipper", "update"),
    "waiting for what is skipped": ("slipstream.skip.decision", "Decisions", "wait_for"),
}
ON_STREAM = ("arrive", "leave")  # by the thread whose stream computes
STREAM = ("slipstream.gpu.streams", "Stream", "used")
PLANS = ("slipstream.tables.plan", "Planner", "plans")


class Round(NamedTuple):
    """What a round ended with."""

    kind: tuple[str, str]
    digest: str
    stalls: int
    seconds: float
    host: int
    device: int


class Stalls:
    """Holds threads and streams up, at random, and counts how often."""

    def __init__(self, seed: int, on_device: bool) -> None:
        self._random, self._on_device = random.Random(seed), on_device
        self.count = 0

    def here(self, stream: bool = False) -> None:
        """Perhaps hold up this thread, or what the stream that it uses does next."""
        wait = self._random.choice(WAITS)
        if self._random.randrange(LONG_ONE_IN) == 0:
            wait = LONG
        if not wait:
            return
        self.count += 1
        if stream and self._on_device and self._random.randrange(2):
            import torch

            if not torch.cuda.is_current_stream_capturing():
                torch.cuda._sleep(int(wait * CYCLES))
            return
        time.sleep(wait)

    def before(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """The same work, held up before it begins."""
        stream = work.__name__ in ON_STREAM

        def stalled(*args: Any, **keys: Any) -> Any:
            self.here(stream)
            return work(*args, **keys)

        return stalled

    def between(self, work: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        """The same plans, each held up."""

        def stalled(*args: Any, **keys: Any) -> Iterator[Any]:
            for one in work(*args, **keys):
                self.here()
                yield one

        return stalled

    def inside(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """The same context, in which what comes first is held up."""

        @contextmanager
        def stalled(*args: Any) -> Iterator[Any]:
            with work(*args) as made:
                self.here(stream=True)
                yield made

        return stalled


@contextmanager
def stalling(stalls: Stalls) -> Iterator[None]:
    """Have stalls wherever work is handed over."""
    wrapped = [(*point, stalls.before) for point in POINTS.values()]
    wrapped += [(*STREAM, stalls.inside), (*PLANS, stalls.between)]
    undo = []
    try:
        for module, name, method, wrap in wrapped:
            owner = getattr(import_module(module), name)
            undo.append((owner, method, getattr(owner, method)))
            setattr(owner, method, wrap(getattr(owner, method)))
        yield
    finally:
        for owner, method, work in undo:
            setattr(owner, method, work)


def of_this_process() -> int:
    """Bytes of the GPU that this process has, whatever others have; of all where nobody tells."""
    import torch

    asked = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    try:
        told = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    except OSError:
        told = ""
    for line in told.splitlines():
        number, _, mib = line.partition(",")
        if number.strip() == str(os.getpid()) and mib.strip().isdigit():
            return int(mib) << 20
    free, total = torch.cuda.mem_get_info()
    return int(total - free)


def trained(dataset: Any, kind: tuple[str, str], asked: Any, stalls: Stalls | None) -> Round:
    """Train the steps of a round, and what it ended with."""
    import torch

    from slipstream import Config
    from slipstream.training.loop import train
    from slipstream.training.process_memory import anonymous_bytes

    strategy, _, rule = kind[0].partition("+")
    wanted = Config(
        strategy=strategy, batch_size=asked.batch, device=asked.device, compile="off"
    ).with_settings(
        [
            f"placement.fast_memory={kind[1]}",
            f"placement.window={12 if rule else 4}",
            "model={dim: 8, bottom: [16], top: [16]}",
            "evaluate.at=[]",
            "log.trackers=[]",
            f"checkpoint.every_inputs={asked.batch * 100}",
            *([f"skip.rule={rule}"] if rule else []),
        ]
    )
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as out:
        if stalls is None:
            summary = train(dataset, wanted, Path(out) / "run")
        else:
            with stalling(stalls):
                summary = train(dataset, wanted, Path(out) / "run")
    gc.collect()
    device = 0
    if asked.device != "cpu":
        torch.cuda.empty_cache()
        device = of_this_process()
    count = 0 if stalls is None else stalls.count
    seconds = time.monotonic() - begun
    return Round(kind, summary["weights_digest"], count, seconds, anonymous_bytes(), device)


def soak(dataset: Any, asked: Any, say: Callable[[str], None] = print) -> list[str]:
    """Rounds until the time is up; gives what was wrong."""
    end = time.monotonic() + asked.seconds
    wanted: dict[tuple[str, str], str] = {}
    rounds: dict[tuple[str, str], list[Round]] = {}
    wrong: list[str] = []
    number, longest = 0, 0.0
    # A round that has begun is finished: none begins that would not be done in time.
    while not number or time.monotonic() + longest < end:
        kind = asked.kinds[number % len(asked.kinds)]
        # Which inputs are in a batch, or in its parts, follows from the rows that are kept.
        whole = (
            kind if kind[0] in ("fae", "hotline") else (kind[0].replace("bagpipe", "fast"), "100%")
        )
        if whole not in wanted:
            wanted[whole] = trained(dataset, whole, asked, None).digest
        one = trained(dataset, kind, asked, Stalls(number, asked.device != "cpu"))
        number += 1
        longest = max(longest, one.seconds)
        same = one.digest == wanted[whole]
        say(
            f"round {number:3} {kind[0]:13} {kind[1]:>4} {one.seconds:6.1f} s, {one.stalls:6,} "
            f"stalls, host {one.host >> 20:,} MiB, device {one.device >> 20:,} MiB: "
            f"{'the same bits' if same else 'OTHER BITS'}"
        )
        if not same:
            wrong.append(f"Round {number} ({kind}) ended with other bits.")
        rounds.setdefault(kind, []).append(one)
    # The first round of a kind compiles.
    enough = {kind: some[1:] for kind, some in rounds.items() if len(some) > 1 + 2 * LAST}
    for kind, some in enough.items():
        wrong += grown(kind, some)
    say(f"Memory was compared for {len(enough)} of {len(rounds)} kinds of rounds." if enough else
        "Too few rounds to say whether memory grows: give it more --seconds.")  # fmt: skip
    return wrong


def grown(kind: tuple[str, str], rounds: Sequence[Round]) -> Iterator[str]:
    """A sentence for each memory that is larger at the end than at the beginning.

    What is on its way when a round is looked at comes and goes, so the least of some rounds counts.

    Args:
        kind: The kind of the rounds.
        rounds: All of them, in order.
    """
    for what in ("host", "device"):
        sizes = [getattr(one, what) for one in rounds]
        more = min(sizes[-LAST:]) - min(sizes[:LAST])
        if more > SPARE:
            yield f"The {what}'s memory grew by {more >> 20} MiB, in rounds of {kind}."


def main() -> int:
    """Make the data, load the CPU, and soak."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=480)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--load", type=int, default=4, help="processes beside it that take CPU")
    parser.add_argument("--inputs", type=int, default=2_000_000)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--smaller", type=int, default=20, help="tables than Criteo Kaggle's")
    asked = parser.parse_args()
    asked.kinds = KINDS
    begun = time.monotonic()
    if asked.device == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"
    from gpu_data import Made, make

    from slipstream import Dataset
    from slipstream.gpu.planning import plan_ahead

    # On a CPU too the engine is that of a GPU.
    plan_ahead.kernels_for = lambda _, tier_sizes: "cpu" if tier_sizes is None else "gpu"

    spinning = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(asked.load)]
    try:
        with tempfile.TemporaryDirectory() as folder:
            made = Made("kaggle", 1.05, asked.inputs, asked.smaller)
            data = make(made, Path(folder))
            asked.seconds -= time.monotonic() - begun
            wrong = soak(Dataset.open(data), asked, lambda text: print(text, flush=True))
    finally:
        for one in spinning:
            one.kill()
    print("\n".join(wrong) or "Nothing was wrong.")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
