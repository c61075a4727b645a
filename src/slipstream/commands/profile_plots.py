"""The plots of a profile: the access curve of each table, and coverage against bytes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstream.errors import ConfigError

if TYPE_CHECKING:
    from slipstream.data.dataset import Dataset
    from slipstream.embedding.spec import Layout

_STYLE: dict[Any, Any] = {"svg.hashsalt": "slipstream", "svg.fonttype": "none", "font.size": 11}
_NAMED = 8  # tables with a colour and a name of their own
_COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31", "#666666"),
)


def draw(dataset: Dataset, layout: Layout, found: dict[str, Any], to: Path) -> None:
    """Write `access-curves.svg` and `coverage.svg`; the same data gives the same bytes."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise ConfigError("Plots need matplotlib: pip install 'slipstream[plots]'.") from None
    mpl.use("svg")
    from matplotlib import pyplot as plt

    to.mkdir(parents=True, exist_ok=True)
    with plt.rc_context(_STYLE):
        for name, fill in (("access-curves", _access), ("coverage", _coverage)):
            figure, axes = plt.subplots(figsize=(8, 5.6), layout="constrained")
            fill(axes, dataset, layout, found)
            axes.grid(color="#DDDDDD", linewidth=0.8)
            axes.spines[["top", "right"]].set_visible(False)
            figure.legend(loc="outside lower center", ncols=4, frameon=False)
            metadata = {"Date": None, "Creator": None}
            figure.savefig(to / f"{name}.svg", format="svg", metadata=metadata)
            plt.close(figure)


def _access(axes: Any, dataset: Dataset, _layout: Layout, _found: dict[str, Any]) -> None:
    from slipstream.skew import access_curve, pooled

    tables = sorted(dataset.schema.tables, key=lambda table: -table.rows)
    counted = [pooled([dataset.counts(table.name)]) for table in tables]
    for number, (table, counts) in enumerate(zip(tables, counted, strict=True)):
        own = number < _NAMED
        axes.plot(
            *access_curve(counts),
            color=_COLOURS[number] if own else "#BBBBBB",
            linewidth=1.2,
            label=table.name if own else None,
            marker="." if len(counts) < 3 else None,
        )
    axes.plot(*access_curve(pooled(counted)), color="black", linewidth=2.4, label="all together")
    axes.set(xscale="log", yscale="log", ylim=(None, 1.1))
    axes.set(xlabel="share of rows, most accessed first", ylabel="share of training accesses")


def _coverage(axes: Any, dataset: Dataset, layout: Layout, found: dict[str, Any]) -> None:
    from slipstream.skew.popularity import Popularity

    bytes_, shares = Popularity.of(layout, dataset.counts).points()
    axes.plot(bytes_, shares, color="black", linewidth=2.4, label="share of accesses")
    reached = sorted((one["bytes"], one["all_hot_inputs"]) for one in _budgets(found))
    axes.plot(*zip(*reached, strict=True), "o--", color=_COLOURS[0], label="inputs all hot")
    hot = found["hot_set"]["budget_bytes"]
    axes.axvline(hot, color=_COLOURS[1], linewidth=1.2, label=found["hot_set"]["fast_memory"])
    axes.set(xscale="log", ylim=(0, 1.02))
    axes.set(xlabel="bytes of fast memory, optimizer state counted", ylabel="share")


def _budgets(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [*found["coverage"], *found["budgets"]]
