"""Plots of how unevenly the rows of a data set are accessed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from slipstream.analyze.report.svg import Axis, Plot, Series
from slipstream.number_format import percent, size

if TYPE_CHECKING:  # torch takes seconds to import
    from slipstream.arrays import Array
    from slipstream.data.dataset import Dataset
    from slipstream.tables.spec import Layout

_TABLES = 7  # the largest tables have a curve of their own
_POINTS = 60


def skew_plots(
    dataset: Dataset,
    layout: Layout,
    budgets: Sequence[tuple[int, str]] = (),
    all_hot: Sequence[tuple[float, float]] = (),
) -> list[Plot]:
    """The access curve of the largest tables, and the share of accesses against bytes.

    Args:
        dataset: The data set; the accesses of its training part are counted.
        layout: The tables of the model.
        budgets: Sizes of fast memory in bytes to mark, each with a word.
        all_hot: Bytes, and the share of examples whose rows all fit in them.
    """
    from slipstream.analyze.profile import access_curve, pooled
    from slipstream.pipeline.place.accesses import Popularity

    tables = sorted(dataset.schema.tables, key=lambda table: -table.rows)
    counts = {table.name: pooled([dataset.counts(table.name)]) for table in tables}
    curves = {"all": pooled(list(counts.values()))}
    curves |= {table.name: counts[table.name] for table in tables[:_TABLES]}
    series = [
        Series(f"t{number}", name, number, points, f"{len(rows):,} rows")
        for number, (name, rows) in enumerate(curves.items())
        if (points := _pairs(*access_curve(rows, _POINTS)))
    ]
    bytes_, shares = Popularity.of(layout, dataset.counts).points(_POINTS)
    covered = [Series("accesses", "accesses", 1, _pairs(bytes_, shares))]
    if all_hot:
        covered.append(Series("all-hot", "examples with all rows", 2, sorted(all_hot)))
    return [
        Plot(
            "access",
            "Access curve of the largest tables",
            Axis("share of rows, most accessed first", log=True, shown=percent, exact=percent),
            Axis("share of accesses", log=True, shown=percent, exact=percent, most=1.0),
            series,
            text="The share of training accesses that the most accessed rows take, by table.",
        ),
        Plot(
            "coverage",
            "Coverage against bytes",
            Axis("fast memory, optimizer state included", log=True, base=2, shown=size, exact=size),
            Axis("share covered", shown=percent, exact=percent, least=0.0, most=1.0),
            covered,
            marks=budgets,
            text="The share of accesses that the most accessed rows of this size take.",
        ),
    ]


def _pairs(first: Array, second: Array) -> list[tuple[float, float]]:
    return [(float(a), float(b)) for a, b in zip(first, second, strict=True)]
