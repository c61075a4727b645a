"""Pictures of how unevenly rows are accessed, from the data set that runs were trained on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from slipstream.number_format import percent, size
from slipstream.report.axes import Axis
from slipstream.report.svg import Plot, Series

if TYPE_CHECKING:  # torch takes seconds to import
    from slipstream.data.dataset import Dataset
    from slipstream.data.inputs import Array
    from slipstream.embedding.spec import Layout

_NAMED = 7  # tables with a colour and a name of their own
_POINTS = 60


def skew_plots(
    dataset: Dataset,
    layout: Layout,
    budgets: Sequence[tuple[int, str]] = (),
    all_hot: Sequence[tuple[float, float]] = (),
) -> list[Plot]:
    """The access curve of each table, and the coverage of accesses against bytes.

    Args:
        dataset: The data set, for the accesses of its training part.
        layout: The tables of the model.
        budgets: Bytes of fast memory to mark, each with a word.
        all_hot: Bytes, and the share of inputs whose rows they hold, where that was counted.
    """
    return [_access(dataset), _coverage(dataset, layout, budgets, all_hot)]


def _access(dataset: Dataset) -> Plot:
    from slipstream.skew import access_curve, pooled

    tables = sorted(dataset.schema.tables, key=lambda table: -table.rows)
    counted = [pooled([dataset.counts(table.name)]) for table in tables]
    series = []
    for number, (table, counts) in enumerate(zip(tables, counted, strict=True), 1):
        own = number <= _NAMED
        series.append(
            Series(
                f"t{number}",
                table.name,
                number if own else 0,
                _pairs(*access_curve(counts, _POINTS)),
                f"{len(counts):,} rows",
                line=len(counts) > 1,
                quiet=not own,
            )
        )
    together = pooled(counted)
    series.append(Series("t0", "all together", 0, _pairs(*access_curve(together, _POINTS))))
    return Plot(
        "access",
        "Access curve of each table",
        Axis("share of rows, most accessed first", log=True, shown=percent, exact=percent),
        Axis("share of accesses", log=True, shown=percent, exact=percent, most=1.0),
        [one for one in series if one.points],
        text="Which share of training accesses the most accessed rows take, by table.",
    )


def _coverage(
    dataset: Dataset,
    layout: Layout,
    budgets: Sequence[tuple[int, str]],
    all_hot: Sequence[tuple[float, float]],
) -> Plot:
    from slipstream.skew.popularity import Popularity

    bytes_, shares = Popularity.of(layout, dataset.counts).points(_POINTS)
    series = [Series("accesses", "accesses", 1, _pairs(bytes_, shares))]
    if all_hot:
        series.append(Series("all-hot", "inputs all hot", 2, sorted(all_hot)))
    return Plot(
        "coverage",
        "Coverage against bytes",
        Axis("fast memory, optimizer state counted", log=True, shown=size, bytes=True, exact=size),
        Axis("share covered", shown=percent, exact=percent, least=0.0, most=1.0),
        series,
        marks=budgets,
        text="Which share of accesses the best rows for so many bytes take.",
    )


def _pairs(first: Array, second: Array) -> list[tuple[float, float]]:
    return [(float(a), float(b)) for a, b in zip(first, second, strict=True)]
