"""How long `slipstream prepare criteo` takes, beside Polars' streaming parse of the same file.

python benchmarks/prepare.py [--rows N] [--large N] [--repeats R] [--folder DIR]

The file comes from `slipstream synth --shape criteo-kaggle --raw`. Both read it from the page
cache, each in a process of its own, one after the other; medians count. Start-up is left out of
both. By turns with it the same for a file several times as large, to show that the time for a row
stays the same.
Memory is anonymous memory, read from /proc every 10 ms. The exit status is 1 if a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from slipstream import Recipe
from slipstream.data.synthetic.raw import write_raw

MEMORY = 2 << 30
MIB = 1 << 20
WATCHED = """
import json, sys, threading, time
def anonymous_memory():
    status = open("/proc/self/status").read()
    return int(status.partition("RssAnon:")[2].split()[0]) << 10
peak, done = 0, False
def watch():
    global peak
    while not done:
        peak = max(peak, anonymous_memory())
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


@dataclass(frozen=True)
class Figures:
    """What was measured at one size: medians, and the highest peak."""

    rows: int
    parse: float
    prepare: float
    peak: float

    @property
    def per_million(self) -> float:
        """Seconds of a preparation for a million rows."""
        return self.prepare / self.rows * 1e6


def compare(sizes: list[int], repeats: int, folder: Path) -> list[Figures]:
    """Measure both at every size by turns, so that a busy moment falls on all; print them."""
    files = {rows: folder / f"{rows}.tsv" for rows in sizes}
    parses: dict[int, list[dict[str, float]]] = {rows: [] for rows in sizes}
    prepares: dict[int, list[dict[str, float]]] = {rows: [] for rows in sizes}
    for rows, file in files.items():
        if not file.exists():
            write_raw(Recipe("criteo-kaggle", rows=rows), file)
    for _ in range(repeats):
        for rows, file in files.items():
            measure(PARSE, file)  # warms the page cache
            parses[rows].append(measure(PARSE, file))
            prepares[rows].append(prepare(file, folder))
    figures = []
    for rows, file in files.items():
        print(f"\n{rows:,} rows, {file.stat().st_size / 1e9:.2f} GB, limit {MEMORY >> 20} MiB\n")
        print("| | seconds | k rows/s | times the parse | peak MiB |\n|---|---|---|---|---|")
        plain = statistics.median(run["seconds"] for run in parses[rows])
        for name, runs in (("Polars' streaming parse", parses), ("prepare", prepares)):
            seconds = statistics.median(run["seconds"] for run in runs[rows])
            peak = max(run["peak"] for run in runs[rows])
            times, rate = seconds / plain, rows / seconds / 1e3
            print(f"| {name} | {seconds:.1f} | {rate:.0f} | {times:.2f} | {peak / MIB:.0f} |")
        figures.append(Figures(rows, plain, seconds, peak))
    return figures


def verdict(title: str, value: float, most: float) -> bool:
    """Print whether a figure stays within its limit, and return it."""
    print(f"{title}: {value:.2f}, at most {most:.2f}: {'reached' if value <= most else 'MISSED'}")
    return value <= most


def main() -> int:
    """Measure at both sizes; exit status 1 if a figure is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--large", type=int, default=20_000_000, help="0 leaves it out")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--folder", type=Path, help="where to work (20 GB); keeps the raw files")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        sizes = [arguments.rows, *([arguments.large] if arguments.large else [])]
        figures = compare(sizes, arguments.repeats, folder)
    print()
    small = figures[0]
    reached = [verdict("prepare, times Polars' streaming parse", small.prepare / small.parse, 6)]
    for figure in figures:
        reached.append(
            verdict(f"peak MiB at {figure.rows:,} rows", figure.peak / MIB, MEMORY / MIB)
        )
    for figure in figures[1:]:
        ratio = figure.per_million / small.per_million
        reached.append(verdict(f"time for a row at {figure.rows:,} rows, times", ratio, 1.15))
    return 0 if all(reached) else 1


if __name__ == "__main__":
    sys.exit(main())
