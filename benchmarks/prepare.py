"""How long `slipstream prepare criteo` takes, beside Polars' streaming parse of the same file.

python benchmarks/prepare.py [--rows N] [--large N] [--repeats R] [--folder DIR]

The file comes from `slipstream synth --raw criteo`. Both read it from the page cache, each in a
process of its own, one after the other; medians count. Start-up is left out of both. Then the same
for a file several times as large, to show that the time for a row stays the same. Memory is
anonymous memory, read from /proc every 10 ms.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from slipstream import Recipe
from slipstream.data.synthetic.raw import write_raw

MEMORY = 2 << 30
WATCHED = """
import json, sys, threading, time
from slipstream.data.prepare.room import anonymous_memory
peak, done = 0, False
def watch():
    global peak
    while not done:
        peak = max(peak, anonymous_memory() or 0)
        time.sleep(0.01)
thread = threading.Thread(target=watch, daemon=True)
{setup}
thread.start()
begun = time.perf_counter()
{work}
seconds = time.perf_counter() - begun
done = True
thread.join()
print(json.dumps({{"seconds": seconds, "peak": peak}}))
"""
PARSE = WATCHED.format(
    setup="""
import polars as pl
names = [f"f{n}" for n in range(40)]
types = [pl.Int64] * 14 + [pl.String] * 26
""",
    work="""
pl.scan_csv(
    sys.argv[1], separator="\\t", has_header=False, quote_char=None,
    schema=dict(zip(names, types)),
).select(pl.all().count()).collect(engine="streaming")
""",
)
PREPARE = WATCHED.format(
    setup="""
from slipstream.data.formats import log_spec
from slipstream.data.prepare import Options, prepare
""",
    work="""
prepare(log_spec("criteo", {}), [sys.argv[1]], sys.argv[2], Options(memory=int(sys.argv[3])))
""",
)


def measure(script: str, *words: object) -> dict[str, float]:
    """Seconds and peak of anonymous memory of a process."""
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, words)], stdout=subprocess.PIPE, check=True
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result


def prepare(file: Path, folder: Path) -> dict[str, float]:
    """One preparation, whose result is removed again."""
    result = measure(PREPARE, file, folder / "out", MEMORY)
    shutil.rmtree(folder / "out")
    return result


def compare(rows: int, repeats: int, folder: Path) -> tuple[float, float]:
    """Print both; give the seconds of a preparation for a million rows, and the ratio."""
    file = folder / f"{rows}.tsv"
    if not file.exists():
        write_raw(Recipe("criteo-kaggle", rows=rows), "criteo", file)
    runs: dict[str, list[dict[str, float]]] = {"Polars' streaming parse": [], "prepare": []}
    measure(PARSE, file)  # warms the page cache
    for _ in range(repeats):
        runs["Polars' streaming parse"].append(measure(PARSE, file))
        runs["prepare"].append(prepare(file, folder))
    print(f"\n{rows:,} rows, {file.stat().st_size / 1e9:.2f} GB, limit {MEMORY >> 20} MiB\n")
    print("| | seconds | k rows/s | times the parse | peak MiB |\n|---|---|---|---|---|")
    plain = statistics.median(run["seconds"] for run in runs["Polars' streaming parse"])
    for name, results in runs.items():
        seconds = statistics.median(run["seconds"] for run in results)
        peak = max(run["peak"] for run in results) / (1 << 20)
        rate = rows / seconds / 1e3
        print(f"| {name} | {seconds:.1f} | {rate:.0f} | {seconds / plain:.2f} | {peak:.0f} |")
        assert peak * (1 << 20) <= MEMORY or name != "prepare", "memory stays within the limit"
    seconds = statistics.median(run["seconds"] for run in runs["prepare"])
    return seconds / rows * 1e6, seconds / plain


def main() -> None:
    """Measure at both sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--large", type=int, default=20_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to work (20 GB); keeps the raw files")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        small, ratio = compare(arguments.rows, arguments.repeats, folder)
        print(f"\n{ratio:.2f} times the parse (goal: at most 6)")
        if arguments.large:
            large, _ = compare(arguments.large, 1, folder)
            print(f"\n{large / small:.2f} times per row at {arguments.large:,} rows (goal: 1.15)")


if __name__ == "__main__":
    main()
