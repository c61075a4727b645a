"""A profile: how much fast memory the ids of a data set need, before anything is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from itertools import product
from typing import Any

from slipstream.analyze.profile import pooled, top_share
from slipstream.analyze.profile.calibrate import calibrate
from slipstream.analyze.profile.whatif import COMPARED, BatchSample, plan_outcome
from slipstream.data.batch import Batch
from slipstream.data.dataset import Dataset
from slipstream.data.loader import Loader
from slipstream.errors import ConfigError
from slipstream.models.inputs import LINEAR
from slipstream.order import InputOrder
from slipstream.pipeline.place.accesses import Popularity
from slipstream.pipeline.place.budget import auto_bytes, least_bytes, too_small_for_all
from slipstream.pipeline.place.working_set import count_working_set
from slipstream.tables.sizes import budget_bytes, row_bytes
from slipstream.tables.spec import Layout

TOP = (0.001, 0.01, 0.05, 0.1)
COVERED = (0.5, 0.75, 0.9, 0.95, 0.99)
BUDGETS = ("1%", "2%", "5%", "10%", "20%")
Progress = Callable[[str, int, int], None]


def profile(
    dataset: Dataset,
    layout: Layout,
    order: InputOrder,
    *,
    fast_memory: str = "auto",
    batch_size: int = 2048,
    sample_batches: int = 300,
    window: int | None = None,
    on_progress: Progress = lambda *_: None,
) -> dict[str, Any]:
    """Count accesses and plan batches; train nothing.

    Args:
        dataset: The data set; only its training part is read.
        layout: The tables of the model that would be trained, with their optimizers.
        order: The order of examples.
        fast_memory: The budget of the model: a size, a share, or auto.
        batch_size: Examples of a batch.
        sample_batches: The most batches to plan for the comparison of placements.
        window: The most batches to look ahead; None takes each placement's.
        on_progress: Called with the name of a step, and how much of it is done and of how much.

    Returns:
        Plain JSON values, see docs/profile.md.
    """
    examples = len(dataset.train)
    if not examples:
        raise ConfigError("There is nothing to profile: the training part has no examples.")
    popularity = Popularity.of(layout, dataset.counts)
    progress = partial(_count_steps, on_progress)
    read = progress("batches", examples)
    sample = _sample(dataset, layout, order, batch_size, sample_batches, read)
    largest = sample.needed.largest
    chosen = budget_bytes(fast_memory, layout, lambda: auto_bytes(popularity, largest))
    if (error := too_small_for_all(popularity.sizes, sample.needed, chosen)) is not None:
        raise ConfigError(error)
    budgets = [(text, budget_bytes(text, layout)) for text in BUDGETS]
    best = [_best_rows(popularity, popularity.bytes_for(share)) for share in COVERED]
    best += [_best_rows(popularity, bytes_) for _, bytes_ in (*budgets, (fast_memory, chosen))]
    outcomes = []
    planned = progress("plans", len(budgets) * len(COMPARED) * len(sample.batches))
    sizes: dict[str, Any] = {"batch_size": batch_size, "window": window}
    for (_, bytes_), kind in product(budgets, COMPARED):
        outcomes.append(asdict(plan_outcome(sample, popularity, examples, kind, bytes_, **sizes)))
        planned(len(sample.batches))
    return {
        "inputs": examples,
        "rows": sum(group.rows for group in layout.groups),
        "bytes": popularity.bytes,
        "row_bytes": row_bytes(layout),
        "accesses": popularity.total,
        "tables": _tables(dataset, layout),
        "coverage": best[: len(COVERED)],
        "budgets": [
            {"budget": text, **rows}
            for (text, _), rows in zip(budgets, best[len(COVERED) : -1], strict=True)
        ],
        "fast_memory": {
            "budget": fast_memory,
            **best[-1],
            "least_bytes": sample.needed.smallest_bytes,
            "every_batch_fits_bytes": least_bytes(popularity.sizes, largest),
        },
        "calibration": _calibration(dataset, layout, chosen),
        "what_if": {
            "batch_size": batch_size,
            "batches": len(sample.batches),
            "batches_counted": len(sample.counted),
            "outcomes": outcomes,
        },
    }


def _sample(
    dataset: Dataset,
    layout: Layout,
    order: InputOrder,
    batch_size: int,
    sample_batches: int,
    progress: Callable[[int], None],
) -> BatchSample:
    """The first batches of an epoch; the rows that batches need are counted over all of it."""
    singles = [column.name for column in dataset.schema.singles]
    batches: list[Batch] = []

    def all_batches() -> Iterator[Batch]:
        with Loader(dataset.train, batch_size, order=order) as loader:
            for batch in loader:
                yield batch
                progress(batch.n_valid)
                if len(batches) < sample_batches:
                    batches.append(batch)

    needed = count_working_set(layout, singles, all_batches())
    return BatchSample(layout, singles, batches, needed)


def _best_rows(popularity: Popularity, bytes_: int) -> dict[str, Any]:
    """How many of the best rows fit some bytes, and the share of accesses that they take."""
    rows = sum(int(mask.sum()) for mask in popularity.hot(bytes_))
    return {"bytes": bytes_, "rows": rows, "access_share": popularity.coverage(bytes_)}


def _tables(dataset: Dataset, layout: Layout) -> list[dict[str, Any]]:
    sizes = {
        table.name: bytes_
        for bytes_, group in zip(row_bytes(layout), layout.groups, strict=True)
        for table in group.tables
    }
    counts = {table.name: pooled([dataset.counts(table.name)]) for table in dataset.schema.tables}
    bytes_ = {
        name: (sizes[name] + sizes.get(name + LINEAR, 0)) * len(rows)
        for name, rows in counts.items()
    }
    bytes_["all"], counts["all"] = sum(bytes_.values()), pooled(counts.values())
    return [
        {
            "table": name,
            "rows": len(rows),
            "bytes": bytes_[name],
            "accesses": int(rows.sum()),
            "top": {f"{share * 100:g}%": top_share(rows, share) for share in TOP},
        }
        for name, rows in counts.items()
    ]


def _calibration(dataset: Dataset, layout: Layout, budget: int) -> dict[str, Any]:
    try:
        calibration = calibrate(dataset.train, layout, budget)
    except ConfigError as error:
        return {"why_not": str(error)}
    return {**asdict(calibration), "rows": calibration.rows._asdict()}


def _count_steps(on_progress: Progress, step: str, total: int) -> Callable[[int], None]:
    """A function that adds to the amount of a step that is done, and reports the sum."""
    done = 0

    def add(amount: int) -> None:
        nonlocal done
        done += amount
        on_progress(step, done, total)

    return add
