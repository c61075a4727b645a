"""A profile: everything that the accesses of a data set say about fast memory, in one mapping."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from slipstream.data.batch import Batch
from slipstream.data.dataset import Dataset
from slipstream.data.inputs import Array
from slipstream.data.loader import Loader
from slipstream.embedding.spec import Layout
from slipstream.errors import ConfigError
from slipstream.models.inputs import LINEAR
from slipstream.ordering import InputOrder
from slipstream.placement.budget import (
    AUTO_SHARE,
    auto_bytes,
    budget_bytes,
    least_bytes,
    too_small_for_all,
)
from slipstream.placement.need import Need
from slipstream.skew.calibrate import calibrate
from slipstream.skew.curve import pooled, top_share
from slipstream.skew.drift import drift
from slipstream.skew.hot_set import hot_set
from slipstream.skew.passes import all_hot
from slipstream.skew.popularity import Popularity, row_bytes
from slipstream.skew.rates import measured
from slipstream.skew.whatif import Sample, what_if

TOP = (0.001, 0.01, 0.05, 0.1)
COVERED = (0.5, 0.75, 0.9, 0.95, 0.99)
BUDGETS = ("1%", "2%", "5%", "10%", "20%")
Told = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Question:
    """What to find out.

    Args:
        fast_memory: The budget to choose a hot set for: a size, a share, or auto.
        budgets: Those to compare the strategies with.
        batch_size: Inputs of a batch.
        sample_batches: The most batches to plan for that.
        window: The most batches to look ahead; None is what each strategy has.
        step_rate: Inputs a second of a training whose rows are all in fast memory, if known.
        tell: Told of each part of the work how much is done, and of how much.
    """

    fast_memory: str = "5%"
    budgets: Sequence[str] = BUDGETS
    batch_size: int = 2048
    sample_batches: int = 300
    window: int | None = None
    step_rate: float | None = None
    tell: Told = field(default=lambda *_: None, repr=False)


def profile(
    dataset: Dataset, layout: Layout, order: InputOrder, question: Question
) -> dict[str, Any]:
    """Count, plan and measure; trains nothing.

    Args:
        dataset: The data set; only its training part is looked at.
        layout: The tables of the model that would be trained, with their optimizers.
        order: In what order inputs would come.
        question: What to find out.

    Returns:
        Plain JSON values, see docs/profile.md.
    """
    if not len(dataset.train):
        raise ConfigError("There is nothing to profile: the training part has no inputs.")
    popularity = Popularity.of(layout, dataset.counts)
    sample = _sample(dataset, layout, popularity, order, question)
    least = least_bytes(popularity.sizes, sample.needed.largest)
    budget = budget_bytes(
        question.fast_memory, layout, lambda: auto_bytes(popularity, sample.needed.largest)
    )
    if (error := too_small_for_all(popularity.sizes, sample.needed, budget)) is not None:
        raise ConfigError(error)
    coverage = [_covering(popularity, share) for share in COVERED]
    budgets = [budget_bytes(text, layout) for text in question.budgets]
    found = _all_hot(dataset, layout, popularity, coverage, budgets, budget, question.tell)
    inputs = len(dataset.train)
    for one, hot in zip(coverage, found, strict=False):
        one["all_hot_inputs"] = hot / inputs
    by_budget = [
        {
            "budget": text,
            "bytes": bytes_,
            "access_share": popularity.coverage(bytes_),
            "all_hot_inputs": hot / inputs,
        }
        for text, bytes_, hot in zip(question.budgets, budgets, found[len(COVERED) :], strict=False)
    ]
    chosen = hot_set(layout, dataset.counts, budget)
    drifted = drift(dataset.train, layout, budget, progress=_steps(question.tell, "drift", inputs))
    outcomes = what_if(
        sample,
        popularity,
        inputs,
        budgets,
        question.batch_size,
        question.window,
        _steps(question.tell, "planning", 100, 100),
    )
    rates = measured(popularity.sizes, question.step_rate)
    return {
        "inputs": inputs,
        "rows": sum(group.rows for group in layout.groups),
        "bytes": popularity.bytes,
        "row_bytes": row_bytes(layout),
        "accesses": popularity.total,
        "tables": _tables(dataset, layout),
        "coverage": coverage,
        "budgets": by_budget,
        "hot_set": {
            **chosen.to_json(),
            "fast_memory": question.fast_memory,
            "auto_share": AUTO_SHARE,
            "all_hot_inputs": found[-1] / inputs,
            "least_bytes": sample.needed.fewest,
            "every_batch_fits_bytes": least,
        },
        "calibration": _calibration(dataset, layout, budget),
        "drift": drifted.to_json(),
        "what_if": {
            "batch_size": question.batch_size,
            "batches": len(sample.batches),
            "batches_counted": len(sample.counted),
            "inputs_counted": sample.inputs,
            "rows_needed": sample.lookups,
            "copy_bytes_per_second": [
                size / seconds
                for size, seconds in zip(popularity.sizes, rates.row_seconds, strict=True)
            ],
            "step_rate": question.step_rate,
            "outcomes": [one.to_json(popularity.sizes, rates) for one in outcomes],
        },
    }


def _sample(
    dataset: Dataset,
    layout: Layout,
    popularity: Popularity,
    order: InputOrder,
    question: Question,
) -> Sample:
    """The first batches to plan with; every batch is looked at for the rows that it needs."""
    singles = [column.name for column in dataset.schema.singles]
    need = Need(layout, singles, popularity)
    kept: list[Batch] = []
    told = _steps(question.tell, "batches", len(order))
    with Loader(dataset.train, question.batch_size, order=order) as loader:
        for batch in loader:
            need.add(batch)
            told(batch.n_valid)
            if len(kept) < question.sample_batches:
                kept.append(batch)
    return Sample(layout, singles, kept, need.needed)


def _covering(popularity: Popularity, share: float) -> dict[str, Any]:
    bytes_ = popularity.bytes_for(share)
    rows = sum(int(mask.sum()) for mask in popularity.hot(bytes_))
    return {"access_share": share, "bytes": bytes_, "rows": rows}


def _all_hot(
    dataset: Dataset,
    layout: Layout,
    popularity: Popularity,
    coverage: list[dict[str, Any]],
    budgets: list[int],
    chosen: int,
    tell: Told,
) -> list[int]:
    """The all-hot inputs of what covers each share, of each budget, and of the hot set chosen."""

    def best(bytes_: int) -> Callable[[], Sequence[Array]]:
        return lambda: popularity.hot(bytes_)

    sets = [best(one["bytes"]) for one in coverage] + [best(one) for one in budgets]
    sets.append(lambda: hot_set(layout, dataset.counts, chosen).hot)
    told = _steps(tell, "all-hot inputs", len(dataset.train))
    return all_hot(dataset.train, layout, sets, told)


def _tables(dataset: Dataset, layout: Layout) -> list[dict[str, Any]]:
    size = {
        table.name: bytes_
        for bytes_, group in zip(row_bytes(layout), layout.groups, strict=True)
        for table in group.tables
    }
    made, counted = [], []
    for table in dataset.schema.tables:
        counts = pooled([dataset.counts(table.name)])
        counted.append(counts)
        bytes_ = size[table.name] + size.get(table.name + LINEAR, 0)
        made.append(_shares(table.name, counts, bytes_ * len(counts)))
    return [*made, _shares("all", pooled(counted), sum(one["bytes"] for one in made))]


def _shares(name: str, counts: Array, bytes_: int) -> dict[str, Any]:
    top = {f"{share * 100:g}%": top_share(counts, share) for share in TOP}
    return {
        "table": name,
        "rows": len(counts),
        "bytes": bytes_,
        "accesses": int(counts.sum()),
        "top": top,
    }


def _calibration(dataset: Dataset, layout: Layout, budget: int) -> dict[str, Any]:
    try:
        return calibrate(dataset.train, layout, budget).to_json()
    except ConfigError as error:
        return {"why_not": str(error)}


def _steps(tell: Told, what: str, total: int, scale: float = 1) -> Callable[[float], None]:
    done = 0.0

    def told(amount: float) -> None:
        nonlocal done
        done += amount * scale
        tell(what, round(done), total)

    return told
