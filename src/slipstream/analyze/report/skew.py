"""Plots of how unevenly the rows of a data set are accessed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from slipstream.analyze.report.svg import Axis, Plot, Series
from slipstream.number_format import percent, size

if TYPE_CHECKING:  # torch takes seconds to import
    from slipstream.data.dataset import Dataset
    from slipstream.data.inputs import Array
    from slipstream.tables.spec import Layout

_NAMED = 7  # tables with their own colour and name
_POINTS = 60


def skew_plots(
    dataset: Dataset,
    layout: Layout,
    budgets: Sequence[tuple[int, str]] = (),
    all_hot: Sequence[tuple[float, float]] = (),
) -> list[Plot]:
    """The access curve of each table, and the share of accesses against bytes.

    Args:
        dataset: The data set; the accesses of its training part are counted.
        layout: The tables of the model.
        budgets: Sizes of fast memory in bytes to mark, each with a word.
        all_hot: Bytes, and the share of examples whose rows all fit in them.
    """
    return [_access(dataset), _coverage(dataset, layout, budgets, all_hot)]


def _access(dataset: Dataset) -> Plot:
    from slipstream.analyze.profile import access_curve, pooled

    tables = sorted(dataset.schema.tables, key=lambda table: -table.rows)
    counts = [pooled([dataset.counts(table.name)]) for table in tables]
    series = [
        Series(
            f"t{number}",
            table.name,
            number if number <= _NAMED else 0,
            _pairs(*access_curve(rows, _POINTS)),
            f"{len(rows):,} rows",
            line=len(rows) > 1,
            quiet=number > _NAMED,
        )
        for number, (table, rows) in enumerate(zip(tables, counts, strict=True), 1)
    ]
    series.append(Series("t0", "all", 0, _pairs(*access_curve(pooled(counts), _POINTS))))
    return Plot(
        "access",
        "Access curve of each table",
        Axis("share of rows, most accessed first", log=True, shown=percent, exact=percent),
        Axis("share of accesses", log=True, shown=percent, exact=percent, most=1.0),
        [each for each in series if each.points],
        text="The share of training accesses that the most accessed rows take, by table.",
    )


def _coverage(
    dataset: Dataset,
    layout: Layout,
    budgets: Sequence[tuple[int, str]],
    all_hot: Sequence[tuple[float, float]],
) -> Plot:
    from slipstream.pipeline.place.accesses import Popularity

    bytes_, shares = Popularity.of(layout, dataset.counts).points(_POINTS)
    series = [Series("accesses", "accesses", 1, _pairs(bytes_, shares))]
    if all_hot:
        series.append(Series("all-hot", "examples with all rows", 2, sorted(all_hot)))
    return Plot(
        "coverage",
        "Coverage against bytes",
        Axis("fast memory, optimizer state included", log=True, base=2, shown=size, exact=size),
        Axis("share covered", shown=percent, exact=percent, least=0.0, most=1.0),
        series,
        marks=budgets,
        text="The share of accesses that the most accessed rows of this size take.",
    )


def _pairs(first: Array, second: Array) -> list[tuple[float, float]]:
    return [(float(a), float(b)) for a, b in zip(first, second, strict=True)]
