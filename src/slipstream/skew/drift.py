"""How fast the hot set drifts in the course of the training part."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from slipstream.data.dataset import Part
from slipstream.data.inputs import Array
from slipstream.embedding.spec import Layout
from slipstream.skew.passes import Told, count
from slipstream.skew.popularity import Popularity


@dataclass(frozen=True)
class Stretch:
    """One of the equal stretches of the training part.

    Args:
        inputs: Its inputs.
        overlap: The share of its hot set that was in the hot set of the stretch before; None in
            the first.
        first: The share of its accesses that the hot set of the first stretch takes.
        before: The share that the hot set of the stretch before takes; None in the first.
        own: The share that its own hot set takes.
    """

    inputs: int
    overlap: float | None
    first: float
    before: float | None
    own: float


@dataclass(frozen=True)
class Drift:
    """The hot set of one budget over time.

    Args:
        budget: Bytes of the hot sets.
        stretches: In the order of the data.
        control: The overlap of two stretches as long whose inputs are dealt out evenly over the
            whole part: what chance alone makes of it, without any drift. None with too few inputs.
    """

    budget: int
    stretches: list[Stretch]
    control: float | None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values."""
        return asdict(self)


def drift(
    part: Part,
    layout: Layout,
    budget: int,
    *,
    stretches: int = 20,
    progress: Told = lambda _: None,
) -> Drift:
    """Compare the hot sets of equal stretches of a part; a row without access is in none.

    Args:
        part: The training part.
        layout: Tables and features.
        budget: Bytes of each hot set.
        stretches: How many; fewer where there are fewer inputs.
        progress: Told how many inputs were gone through.
    """
    n = max(1, min(stretches, len(part)))
    bounds = [len(part) * k // n for k in range(n + 1)]
    made: list[Stretch] = []
    first: list[Array] = []
    before: list[Array] = []
    for start, stop in pairwise(bounds):
        rows = Popularity.of(layout, count(part, start, stop, progress=progress).__getitem__)
        hot = _hot(rows, budget)
        first = first or hot
        made.append(
            Stretch(
                stop - start,
                _overlap(hot, before) if before else None,
                _share(rows, first),
                _share(rows, before) if before else None,
                _share(rows, hot),
            )
        )
        before = hot
    control = None
    if len(part) >= 2 * n:
        dealt = [count(part, k, len(part), every=n) for k in (0, 1)]
        one, other = (_hot(Popularity.of(layout, counts.__getitem__), budget) for counts in dealt)
        control = _overlap(other, one)
    return Drift(budget, made, control)


def _hot(rows: Popularity, budget: int) -> list[Array]:
    hot = rows.hot(budget)
    return [mask & (one > 0) for mask, one in zip(hot, rows.accesses, strict=True)]


def _overlap(hot: list[Array], before: list[Array]) -> float:
    mine = sum(int(one.sum()) for one in hot)
    both = sum(int((one & other).sum()) for one, other in zip(hot, before, strict=True))
    return both / mine if mine else 1.0


def _share(rows: Popularity, hot: list[Array]) -> float:
    taken = sum(int(one[mask].sum()) for one, mask in zip(rows.accesses, hot, strict=True))
    return taken / rows.total if rows.total else 0.0
