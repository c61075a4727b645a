"""The plots of a profile: the access curve of each table, and coverage against bytes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstream.report.page import standalone
from slipstream.report.skew import skew_plots

if TYPE_CHECKING:
    from slipstream.data.dataset import Dataset
    from slipstream.embedding.spec import Layout


def draw(dataset: Dataset, layout: Layout, found: dict[str, Any], to: Path) -> None:
    """Write `access.svg` and `coverage.svg`; the same data gives the same bytes."""
    to.mkdir(parents=True, exist_ok=True)
    hot = found["hot_set"]
    marks = [(hot["budget_bytes"], f"fast memory {hot['fast_memory']}")]
    all_hot = [(one["bytes"], one["all_hot_inputs"]) for one in _budgets(found)]
    for plot in skew_plots(dataset, layout, marks, all_hot):
        (to / f"{plot.name}.svg").write_text(standalone(plot), encoding="utf-8")


def _budgets(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for one in (*found["coverage"], *found["budgets"]) if one["bytes"] > 0]
