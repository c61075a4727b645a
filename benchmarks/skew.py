"""How skewed built-in data is, beside published figures: a table and docs/access-curves.svg.

    python benchmarks/skew.py [--rows N] [--out docs]

The table goes to standard output as Markdown. Needs 2 GB of memory, and room for one
data set at a time in the temporary folder: 3 GB with the default number of rows.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slipstream import Dataset, Recipe, synthesize
from slipstream.analyze.profile import pooled, top_share
from slipstream.analyze.report.page import standalone
from slipstream.analyze.report.svg import Axis, Plot, Series

SHAPES = ("small", "criteo-kaggle", "taobao")
SHARES = (0.001, 0.01, 0.068, 0.1)


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
    def name(self) -> str:
        """The shape, and whether every row of it is there."""
        return self.recipe.shape + ("" if self.recipe.min_count else ", every row")

    @property
    def points(self) -> list[tuple[float, float]]:
        """Its access curve: the logarithm of the share of rows, and their share of accesses."""
        total = len(self.counts)
        rows = np.unique(np.rint(np.geomspace(1, total, 200)).astype(np.int64))
        accesses = np.cumsum(self.counts)[rows - 1] / self.counts.sum()
        return list(zip(np.log10(rows / total).tolist(), accesses.tolist(), strict=True))

    @property
    def cells(self) -> list[str]:
        """What a table says of it."""
        shares = [f"{top_share(self.counts, share) * 100:.1f} %" for share in SHARES]
        return [self.name, f"{self.recipe.rows:,}", f"{len(self.counts):,}", *shares]


def measure(recipe: Recipe) -> Curve:
    """Make the data set, count, and throw it away."""
    suffix = ", every row" if recipe.min_count == 0 else ""
    print(f"making {recipe.rows:,} inputs of {recipe.shape}{suffix}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        dataset = Dataset.open(synthesize(recipe, Path(folder) / "data"))
        counts = pooled(dataset.counts(table.name) for table in dataset.schema.tables)
    return Curve(recipe, counts)


def markdown(names: list[str], rows: list[list[str]]) -> str:
    """A Markdown table, numbers to the right."""
    rule = ["---", *["---:"] * (len(names) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (names, rule, *rows))


def table(curves: list[Curve]) -> str:
    """The curves in rows, and below them the published figures."""
    tops = [f"top {share * 100:g} %" for share in SHARES]
    rows = [curve.cells for curve in curves]
    for point in PUBLISHED:
        rows.append([point.name, "", "", *(str(point) if s == point.rows else "" for s in SHARES)])
    return markdown(["shape", "inputs drawn", "ids in tables", *tops], rows)


def plot(curves: list[Curve]) -> Plot:
    """The access curves, and the published figures, each "at least": a curve should pass above."""
    series = []
    for curve in curves:
        every_row = not curve.recipe.min_count
        name = curve.name + (" (dashed)" if every_row else "")
        colour = 1 + SHAPES.index(curve.recipe.shape)
        series.append(Series(curve.name, name, colour, curve.points, dashed=every_row))
    for point in PUBLISHED:
        text = f"{point.name}, {point.rows * 100:g} %: {point}"
        series.append(Series(text, text, 0, [(math.log10(point.rows), point.accesses)], line=False))
    return Plot(
        "access-curves",
        "A few rows take most of the accesses",
        Axis("share of rows, most accessed first", shown=lambda power: _percent(10**power)),
        Axis("share of training accesses", shown=_percent, least=0.0),
        series,
    )


def _percent(share: float) -> str:
    return f"{share * 100:g} %"


def main() -> None:
    """Make, count, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4_000_000, help="inputs; small has a tenth")
    parser.add_argument("--out", type=Path, default=Path("docs"), help="folder of the figure")
    options = parser.parse_args()
    rows = options.rows
    recipes = [Recipe(s, max(1, rows // 10) if s == "small" else rows) for s in SHAPES]
    curves = [measure(recipe) for recipe in (*recipes, Recipe("criteo-kaggle", rows, min_count=0))]
    print(table(curves), flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    picture = standalone(plot(curves))
    (options.out / "access-curves.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
