"""Kills training again and again, resumes it, and compares what comes out with a run left alone.

    python benchmarks/kill.py [--kills 200] [--rows 60000] [--seed 0]

Prints how often it was killed and doing what; status 1 if a single run ended otherwise.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from kills import BF16_ADAGRAD, Ended, Nursery, kill_until_it_ends, outcome

from slipstream import Recipe, synthesize

KINDS = {
    "sgd, as it comes": ("embedding.optimizer=sgd", "dense.optimizer=sgd"),
    "sgd, shuffled, two epochs, validated": (
        "embedding.optimizer=sgd",
        "dense.optimizer=sgd",
        "shuffle=true",
        "epochs=2",
        "early_stopping.every_inputs=9000",
        "early_stopping.patience=100",
    ),
    "row-wise adagrad, split-bf16 rows, bf16": BF16_ADAGRAD,
    "adam, clipped, with a schedule": (
        "embedding.optimizer=adam",
        "dense.optimizer=adam",
        "dense.clip=1",
        "schedule.warmup_inputs=9000",
        "schedule.decay=linear",
    ),
    "tbsm, histories": ("model.name=tbsm", "embedding.optimizer=adagrad"),
}


def main() -> int:
    """Kill until it was enough; 0 if every run ended as one that was left alone."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, Nursery() as nursery:
        ends, runs, lost = kill_all(nursery, Path(name), options)
    print(f"{len(ends)} kills in {runs} runs of {options.rows:,} inputs, {lost} lost")
    for phase, count in Counter(end.phase for end in ends).most_common():
        print(f"  {count:4} {phase}")
    print(f"  {sum(end.saving for end in ends):4} of them while a checkpoint was written")
    return 1 if lost else 0


def kill_all(
    nursery: Nursery, folder: Path, options: argparse.Namespace
) -> tuple[list[Ended], int, int]:
    """How each process was killed, how many runs it took, and how many ended otherwise."""
    chance = random.Random(options.seed)
    data = {
        "tbsm": synthesize(Recipe(rows=options.rows // 8, shape="taobao"), folder / "histories"),
        "": synthesize(Recipe(rows=options.rows), folder / "clicks"),
    }
    wanted: dict[str, tuple[dict[str, object], float]] = {}
    ends: list[Ended] = []
    runs = lost = 0
    while len(ends) < options.kills:
        kind = list(KINDS)[runs % len(KINDS)]
        begin = command(data["tbsm" if "tbsm" in kind else ""], kind, options.rows)
        if kind not in wanted:
            begun = time.monotonic()
            whole = folder / f"whole {len(wanted)}"
            if nursery.run(*begin, "--out", whole).status:
                raise SystemExit(f"{kind}: a run left alone does not end well")
            wanted[kind] = outcome(whole), time.monotonic() - begun
        left, (result, longest) = options.kills - len(ends), wanted[kind]
        run = folder / f"run {runs}"
        killed = kill_until_it_ends(nursery, run, begin, chance, longest, left)
        runs += 1
        ends += killed
        same = outcome(run) == result
        lost += not same
        verdict = "the same" if same else "NOT THE SAME"
        print(f"{kind}: killed {len(killed)} times, {verdict}", flush=True)
    return ends, runs, lost


def command(data: Path, kind: str, rows: int) -> list[str]:
    """The command that begins a run of some kind."""
    every = rows // 80 if "tbsm" in kind else rows // 10
    words = ["train", str(data), "--batch-size", "512"]
    sizes = () if "tbsm" in kind else ("model.bottom=[64, 16]", "model.top=[64]")
    for setting in (f"checkpoint.every_inputs={every}", *sizes, *KINDS[kind]):
        words += ["--set", setting]
    return words


if __name__ == "__main__":
    sys.exit(main())
