"""Data sets and orders for tests: any that Hypothesis can think of."""

import numpy as np
from hypothesis import strategies as st

from slipstream import Dataset, InputOrder, Lists, from_arrays

KINDS = ("sum", "mean", "sequence")
names = st.text(min_size=1, max_size=12).filter(lambda name: name != "label")
whole = st.integers(-(2**40), 2**40) | st.integers(0, 3)
text = st.text(st.characters(codec="utf-8"), max_size=6)


@st.composite
def datasets(draw: st.DrawFn, max_rows: int = 60, min_rows: int = 0) -> Dataset:
    """Any small data set: any columns, shared tables, lists, weights, times, missing values."""
    n = draw(st.integers(min_rows, max_rows))
    chosen = draw(st.lists(names, unique=True, max_size=5))
    columns, tables = {}, {}
    for name in chosen:
        values = draw(st.sampled_from([whole, text]))
        if draw(st.booleans()):
            column = st.lists(values | st.none(), min_size=n, max_size=n)
            columns[name] = np.array(draw(column), dtype=object)
        else:
            lists = draw(st.lists(st.lists(values, max_size=4), min_size=n, max_size=n))
            columns[name] = _lists(lists, draw(st.sampled_from(KINDS)), values is text)
    if len(chosen) >= 2 and draw(st.booleans()):
        first = columns[chosen[0]]
        if isinstance(first, np.ndarray):
            columns[chosen[1]] = first[::-1].copy()
            tables[chosen[1]] = chosen[0]
    dense = {
        f"dense {number}": np.array(draw(_floats(n, -10, 10)), dtype=np.float32)
        for number in range(draw(st.integers(0, 2)))
    }
    times = sorted(draw(st.lists(st.integers(0, 10**9), min_size=n, max_size=n)))
    return from_arrays(
        labels=np.array(draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))),
        columns=columns,
        dense=dense,
        weights=np.array(draw(_floats(n, 0, 5))) if draw(st.booleans()) else None,
        times=np.array(times, dtype=np.int64) if draw(st.booleans()) else None,
        tables=tables,
        min_count=draw(st.integers(0, 3)),
        validation=draw(st.sampled_from([0.0, 0.1, 0.3])),
        evaluation=draw(st.sampled_from([0.0, 0.1, 0.3])),
    )


@st.composite
def orders(draw: st.DrawFn, max_examples: int = 400) -> InputOrder:
    """Any order of a few examples."""
    run = draw(st.sampled_from([1, 2, 8]))
    examples = draw(st.integers(0, max_examples))
    start = draw(st.integers(0, max(0, examples - 1)))
    return InputOrder(
        examples=examples,
        seed=draw(st.none() | st.integers(0, 5)),
        epochs=draw(st.integers(0, 3)),
        start=start,
        stop=draw(st.none() | st.integers(start + 1, examples)) if examples else None,
        block=run * draw(st.integers(1, 20)),
        mixed=draw(st.integers(1, 5)),
        run=run,
    )


def _lists(lists: list[list[object]], kind: str, textual: bool) -> Lists:
    ragged = Lists.of(lists, kind)
    if textual:
        values = np.array([value for values in lists for value in values], dtype=object)
        return Lists(values, ragged.offsets, kind)
    return ragged


def _floats(n: int, low: float, high: float) -> st.SearchStrategy[list[float]]:
    return st.lists(st.floats(low, high, width=32), min_size=n, max_size=n)


def assert_same_inputs(dataset: Dataset, other: Dataset) -> None:
    """Every input of every part is equal, array by array."""
    assert dataset.schema == other.schema
    for name, part in dataset.parts.items():
        again = other.parts[name]
        assert len(part) == len(again)
        (left,), (right,) = _whole(part), _whole(again)
        for array, values in left.items():
            np.testing.assert_array_equal(values, right[array], err_msg=f"{name} {array}")
            assert values.dtype == right[array].dtype, array


def _whole(part):
    """All arrays of a part in one piece, lists included."""
    if not len(part):
        return [{}]
    arrays: dict[str, list[np.ndarray]] = {}
    for run in part.runs(0, len(part)):
        for name, array in run.fixed().items():
            arrays.setdefault(name, []).append(np.asarray(array))
        for name, ragged in run.lists.items():
            arrays.setdefault(f"values of {name}", []).append(np.asarray(ragged.values))
            arrays.setdefault(f"lengths of {name}", []).append(np.diff(ragged.offsets))
    return [{name: np.concatenate(pieces) for name, pieces in arrays.items()}]
