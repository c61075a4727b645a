"""How skewed built-in data is, beside published figures: two tables and docs/access-curves.svg.

    python benchmarks/skew.py [--rows N] [--out docs]

The tables go to standard output as Markdown. Needs the extra `plots`, 2 GB of memory, and room
for one data set at a time in the temporary folder: 3 GB with the default number of rows.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("svg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes

from slipstream import Dataset, Recipe, synthesize
from slipstream.skew import access_curve, pooled, top_share

SHAPES = ("small", "criteo-kaggle", "avazu", "taobao")
SHARES = (0.001, 0.01, 0.068, 0.1)
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")  # apart also for colour-blind eyes


@dataclass(frozen=True)
class Published:
    """A figure from a paper: the top `rows` take at least `accesses`."""

    name: str
    rows: float
    accesses: float
    sign: str

    def __str__(self) -> str:
        return f"{self.sign} {self.accesses * 100:.0f} %"


PUBLISHED = (
    Published("published: FAE, Criteo Kaggle", 0.068, 0.76, "≥"),
    Published("published: BagPipe", 0.01, 0.92, ">"),
)


@dataclass(frozen=True)
class Curve:
    """The accesses of all tables of one data set together, most accessed row first."""

    recipe: Recipe
    counts: np.ndarray

    @property
    def cells(self) -> list[str]:
        """What a table says of it."""
        shares = [f"{top_share(self.counts, share) * 100:.1f} %" for share in SHARES]
        return [self.recipe.shape, f"{self.recipe.rows:,}", f"{len(self.counts):,}", *shares]


def measure(recipe: Recipe) -> Curve:
    """Make the data set, count, and throw it away."""
    kept = ", every row" if recipe.min_count == 0 else ""
    print(f"making {recipe.rows:,} inputs of {recipe.shape}{kept}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        dataset = Dataset.open(synthesize(recipe, Path(folder) / "data"))
        counts = pooled(dataset.counts(table.name) for table in dataset.schema.tables)
    return Curve(recipe, counts)


def markdown(names: list[str], rows: list[list[str]]) -> str:
    """A Markdown table, numbers to the right."""
    rule = ["---", *["---:"] * (len(names) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (names, rule, *rows))


def table(curves: list[Curve]) -> str:
    """The curves in rows, and below them what was published."""
    tops = [f"top {share * 100:g} %" for share in SHARES]
    rows = [curve.cells for curve in curves]
    for point in PUBLISHED:
        rows.append([point.name, "", "", *(str(point) if s == point.rows else "" for s in SHARES)])
    return markdown(["shape", "inputs drawn", "ids in tables", *tops], rows)


def plot(shapes: list[Curve], whole: Curve, to: Path) -> None:
    """Draw the access curves, the same bytes each time."""
    with plt.rc_context({"svg.hashsalt": "slipstream", "svg.fonttype": "none", "font.size": 11}):
        figure, axes = plt.subplots(figsize=(8, 5.6), layout="constrained")
        for curve, colour in zip(shapes, COLOURS, strict=True):
            name = curve.recipe.shape
            axes.plot(*access_curve(curve.counts), color=colour, linewidth=2, label=name)
        label = f"{whole.recipe.shape}, every row of its tables"
        colour = COLOURS[SHAPES.index(whole.recipe.shape)]
        axes.plot(*access_curve(whole.counts), "--", color=colour, linewidth=2, label=label)
        _mark_published(axes)
        axes.set(xscale="log", xlim=(1e-5, 1), ylim=(0, 1.02))
        axes.set_xticks(
            [1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1],
            ["0.001 %", "0.01 %", "0.1 %", "1 %", "10 %", "100 %"],
        )
        axes.set_yticks(np.arange(0, 1.1, 0.2), [f"{share} %" for share in range(0, 101, 20)])
        axes.set(xlabel="share of rows, most accessed first", ylabel="share of training accesses")
        axes.grid(color="#DDDDDD", linewidth=0.8)
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
        figure.savefig(to, format="svg", metadata={"Date": None, "Creator": None})
        plt.close(figure)


def _mark_published(axes: Axes) -> None:
    """The published figures, each "at least": the curve should pass above it."""
    for point, marker in zip(PUBLISHED, ("^", "D"), strict=True):
        text = f"{point.name}, {point.rows * 100:g} %: {point}"
        at = [point.rows], [point.accesses]
        axes.plot(*at, marker, color="black", markersize=9, label=text, zorder=5)


def main() -> None:
    """Make, count, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000, help="inputs; small has a tenth")
    parser.add_argument("--out", type=Path, default=Path("docs"), help="folder of the figure")
    options = parser.parse_args()
    rows = options.rows
    shapes = [measure(Recipe(s, max(1, rows // 10) if s == "small" else rows)) for s in SHAPES]
    print(table(shapes), end="\n\n", flush=True)
    whole = [measure(Recipe("criteo-kaggle", n, min_count=0)) for n in (rows, 4 * rows)]
    print(table(whole), flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    plot(shapes, whole[-1], options.out / "access-curves.svg")


if __name__ == "__main__":
    main()
