"""Data sets from NumPy arrays in memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream.arrays import Array
from slipstream.data.dataset import Dataset, Part
from slipstream.data.encoder import Dictionary, is_missing, is_unicode
from slipstream.data.inputs import Examples, Ragged
from slipstream.data.layout import PARTS
from slipstream.data.manifest import ListStats, Manifest, PartInfo, versions
from slipstream.data.ranking import rank
from slipstream.data.schema import Column, Kind, Schema, Table
from slipstream.errors import DataError, did_you_mean


@dataclass(frozen=True)
class Lists:
    """The raw values of a list column: list i is `values[offsets[i]:offsets[i + 1]]`.

    Example:
        >>> Lists.of([["a", "b"], [], ["a"]], kind="sum").offsets.tolist()
        [0, 2, 2, 3]
    """

    values: Array
    offsets: Array
    kind: Kind = "mean"

    @classmethod
    def of(cls, lists: Iterable[Sequence[Any]], kind: Kind = "mean") -> Lists:
        """From any lists of values."""
        arrays = [list(values) for values in lists]
        values = np.array([value for array in arrays for value in array], dtype=object)
        return cls(values, np.cumsum([0, *map(len, arrays)]), kind)


def from_arrays(
    labels: Array,
    columns: Mapping[str, Array | Lists],
    *,
    dense: Mapping[str, Array] | None = None,
    weights: Array | None = None,
    times: Array | None = None,
    tables: Mapping[str, str] | None = None,
    label: str = "label",
    min_count: int = 2,
    validation: float = 0.05,
    evaluation: float = 0.10,
) -> Dataset:
    """Build a data set from arrays of raw values, one row for each example, in the order of time.

    Raw values are whole numbers or strings; None (in an array of objects) and empty text are
    missing values.
    They are ranked by how often they occur in the training part.

    Args:
        labels: 0 or 1 for each example.
        columns: The raw values of each column, an array or `Lists`.
        dense: The values of each dense column, used as they are.
        weights: The weight of each example in the loss.
        times: The time of each example, as whole numbers or datetime64 (of which the seconds are
            kept); may not fall.
        tables: The table of each column that shares one; others have one of their own name.
        label: The name of the label.
        min_count: Values seen less often in training share one id.
        validation: The share of examples before the evaluation part that makes the validation part.
        evaluation: The share of examples at the end that makes the evaluation part.

    Example:
        >>> dataset = from_arrays(
        ...     labels=np.array([0, 1, 0, 1]),
        ...     columns={"shop": np.array(["b", "a", "b", "b"])},
        ...     validation=0, evaluation=0, min_count=1,
        ... )
        >>> dataset.train.shards[0].ids[:, 0].tolist()
        [0, 1, 0, 0]
    """
    if min_count < 0:
        raise DataError(f"min_count is {min_count}; it must be at least 0.")
    labels = _numbers("labels", labels)
    n = len(labels)
    _check_all("label", labels, (labels == 0) | (labels == 1), "labels are 0 or 1")
    ends = _part_ends(n, validation, evaluation)
    raw = {name: _raw_column(name, values, n) for name, values in columns.items()}
    table_of = {name: (tables or {}).get(name, name) for name in raw}
    unknown = set(tables or {}) - set(raw)
    if unknown:
        raise DataError(f"tables names column {sorted(unknown)[0]!r}, which is not in columns.")
    ranked: dict[str, _RankedValues] = {}
    for table in dict.fromkeys(table_of.values()):
        members = [name for name in raw if table_of[name] == table]
        ranked[table] = _rank_values(table, {m: raw[m] for m in members}, ends[0], min_count)
    schema = Schema(
        tables=tuple(m.table for m in ranked.values()),
        columns=tuple(Column(name, table_of[name], raw[name].kind) for name in raw),
        dense=tuple(dense or {}),
        label=label,
        weights=weights is not None,
        times=times is not None,
    )
    ids = {name: ranked[table_of[name]].ids[name] for name in raw}
    singles = [ids[c.name].astype(schema.id_dtype) for c in schema.singles]
    dense_values = [_numbers(name, values, n) for name, values in (dense or {}).items()]
    whole = Examples(
        labels=labels,
        ids=np.stack(singles, axis=1) if singles else np.empty((n, 0), dtype=schema.id_dtype),
        dense=np.stack(dense_values, axis=1) if dense_values else np.empty((n, 0), np.float32),
        lists={c.name: Ragged(ids[c.name], raw[c.name].offsets) for c in schema.lists},
        weights=None if weights is None else _numbers("weights", weights, n),
        times=None if times is None else _times(times, n),
    )
    whole.check(schema)
    if whole.weights is not None:
        _check_all("weight", whole.weights, whole.weights >= 0, "weights are 0 or more")
    infos, parts = {}, {}
    for name, start, end in zip(PARTS, (0, *ends[:-1]), ends, strict=True):
        inputs = whole.slice(start, end)
        shards = [inputs] if len(inputs) else []
        parts[name] = Part(name, schema, shards)
        infos[name] = PartInfo(
            len(inputs),
            float(inputs.labels.sum(dtype=np.float64)),
            [len(shard) for shard in shards],
            {
                column: ListStats.of(Counter(np.diff(ragged.offsets).tolist()))
                for column, ragged in inputs.lists.items()
            },
        )
    manifest = Manifest(
        schema=schema,
        parts=infos,
        files={},
        source={"kind": "arrays", "min_count": min_count, "files": []},
        rows_per_shard=max(1, *map(len, parts.values())),
        versions=versions(),
    )
    dictionaries = {name: values.dictionary for name, values in ranked.items()}
    return Dataset(manifest, parts, lambda name: ranked[name].counts, dictionaries.get)


def from_table(
    table: Any,
    *,
    label: str,
    columns: Sequence[str],
    dense: Sequence[str] = (),
    lists: Mapping[str, Kind] | None = None,
    weight: str | None = None,
    time: str | None = None,
    **options: Any,
) -> Dataset:
    """Build a data set from a Polars data frame or an Arrow table, one row for each example.

    Args:
        table: The table; nulls in its columns are missing values.
        label: The column with the label.
        columns: The columns with a single raw value for each example.
        dense: The columns with dense values.
        lists: The columns with lists of raw values, and how each is used: sum, mean or sequence.
        weight: The column with weights.
        time: The column with times, as whole numbers.
        options: Passed on to `from_arrays`.

    Example:
        >>> len(from_table(frame, label="click", columns=["user", "ad"]).train)
        2
    """
    import polars as pl

    frame: Any = table if isinstance(table, pl.DataFrame) else pl.from_arrow(table)

    def series(name: str) -> Any:
        if name not in frame.columns:
            hint = did_you_mean(name, frame.columns)
            raise DataError(f"The table has no column {name!r}.{hint}")
        return frame[name]

    def raw(name: str) -> Array:
        column = series(name)
        if column.dtype.is_integer() and not column.null_count():
            return np.asarray(column.to_numpy())
        return np.array(column.to_list(), dtype=object)

    values: dict[str, Array | Lists] = {name: raw(name) for name in columns}
    for name, kind in (lists or {}).items():
        rows = series(name).to_list()
        if None in rows:
            row = rows.index(None)
            raise DataError(f"Column {name!r} has no list in row {row}; an empty list is fine.")
        values[name] = Lists.of(rows, kind)
    return from_arrays(
        labels=series(label).to_numpy(),
        columns=values,
        dense={name: series(name).to_numpy() for name in dense},
        weights=series(weight).to_numpy() if weight else None,
        times=series(time).to_numpy() if time else None,
        label=label,
        **options,
    )


@dataclass(frozen=True)
class _RawColumn:
    """Raw values one after the other: int64, or objects that are strings."""

    values: Array
    missing: Array
    offsets: Array
    kind: Kind


def _raw_column(name: str, column: Array | Lists, n: int) -> _RawColumn:
    kind, offsets, values = "single", np.arange(n + 1), column
    if isinstance(column, Lists):
        kind, offsets, values = column.kind, np.asarray(column.offsets), column.values
    values = np.asarray(values)
    if values.ndim != 1:
        raise DataError(
            f"Column {name!r} has shape {values.shape}; give one value for each example."
        )
    length = len(values) if kind == "single" else len(offsets) - 1
    if length != n:
        raise DataError(f"Column {name!r} has {length} examples, but there are {n} labels.")
    if kind != "single" and not Ragged(values, offsets).whole:
        raise DataError(
            f"The offsets of column {name!r} must rise from 0 to the number of values, "
            f"{len(values)}."
        )
    missing = np.zeros(len(values), dtype=np.bool_)
    if values.dtype.kind == "O":
        missing = np.array([is_missing(value) for value in values], dtype=np.bool_)
    elif values.dtype.kind in "SU":
        missing = np.char.str_len(values) == 0
    return _RawColumn(_typed(name, values, missing), missing, offsets, kind)


def _typed(name: str, values: Array, missing: Array) -> Array:
    """The values as int64 or as strings (objects: fixed-width arrays drop a NUL at the end)."""
    if values.dtype.kind == "S":
        try:
            return np.char.decode(values, "utf-8").astype(object)
        except UnicodeDecodeError as error:
            raise DataError(f"Column {name!r} holds bytes that are not UTF-8: {error}.") from None
    if values.dtype.kind == "U":
        return values.astype(object)
    if values.dtype.kind == "O":
        present = values[~missing]
        if not all(value is None or isinstance(value, (int, np.integer)) for value in values):
            for value in present:
                if not isinstance(value, str):
                    raise DataError(
                        f"Column {name!r} holds {value!r}; use whole numbers or strings, one or "
                        "the other, or make it a dense column."
                    )
                if not is_unicode(value):
                    raise DataError(f"Column {name!r} holds {value!r}, which is not Unicode text.")
            return np.where(missing, "", values).astype(object)
        values = np.where(missing, 0, values)
    elif values.dtype.kind not in "biu":
        raise DataError(
            f"Column {name!r} is of type {values.dtype}; use whole numbers or strings, or make it "
            "a dense column."
        )
    if len(values) and not -(2**63) <= int(values.min()) <= int(values.max()) < 2**63:
        raise DataError(
            f"Column {name!r} holds a number beyond 64 bits with a sign; give it as strings."
        )
    return values.astype(np.int64)


@dataclass(frozen=True)
class _RankedValues:
    table: Table
    counts: Array
    dictionary: Dictionary
    ids: dict[str, Array]


def _rank_values(
    name: str, columns: dict[str, _RawColumn], train: int, min_count: int
) -> _RankedValues:
    """Rank the values of the columns that share a table."""
    if len({column.values.dtype for column in columns.values()}) > 1:
        raise DataError(f"The columns of table {name!r} mix whole numbers and strings.")
    values = np.concatenate([column.values for column in columns.values()])
    missing = np.concatenate([column.missing for column in columns.values()])
    distinct, codes = _codes(values[~missing])
    code = np.full(len(values), len(distinct))
    code[~missing] = codes
    has_missing = bool(missing.any())
    trained = np.zeros(len(values), dtype=np.bool_)
    bounds = np.cumsum([0, *(len(column.values) for column in columns.values())])
    for start, column in zip(bounds, columns.values(), strict=False):
        trained[start : start + int(column.offsets[train])] = True
    counts = np.bincount(code[trained], minlength=len(distinct) + has_missing)
    ranking = rank(counts, min_count=min_count)
    unseen = ranking.unseen
    of_missing = int(ranking.ids[-1]) if has_missing else unseen
    text = values.dtype.kind == "O"
    known = np.append(distinct, np.array(["" if text else 0], dtype=distinct.dtype))
    raw = known[np.minimum(ranking.values, len(distinct))]
    table = Table(
        name,
        len(ranking.counts),
        unseen,
        None if of_missing == unseen else of_missing,
        "text" if text else "int",
    )
    ids = ranking.ids[code].astype(table.id_dtype)
    return _RankedValues(
        table,
        ranking.counts,
        Dictionary.of_text(raw.tolist()) if text else Dictionary.of_int(raw),
        {
            column: ids[start:stop]
            for column, start, stop in zip(columns, bounds, bounds[1:], strict=False)
        },
    )


def _codes(values: Array) -> tuple[Array, Array]:
    """The distinct values in order, and the place of each value among them."""
    if values.dtype.kind == "i":
        return np.unique(values, return_inverse=True)
    distinct = sorted(set(values.tolist()))
    place = {value: number for number, value in enumerate(distinct)}
    codes = np.fromiter((place[value] for value in values), dtype=np.int64, count=len(values))
    return np.array(distinct, dtype=object), codes


def _part_ends(n: int, validation: float, evaluation: float) -> tuple[int, int, int]:
    if not (validation >= 0 and evaluation >= 0 and validation + evaluation < 1):
        raise DataError(
            f"validation is {validation:g} and evaluation {evaluation:g}; together they must leave "
            "a share for training."
        )
    before_evaluation = n - round(n * evaluation)
    return before_evaluation - round(n * validation), before_evaluation, n


def _numbers(name: str, values: Array, n: int | None = None) -> Array:
    array = np.asarray(values, dtype=np.float32)
    _one_each(name, array, n)
    bad = np.flatnonzero(~np.isfinite(array))
    if len(bad):
        raise DataError(
            f"{name} has {array[bad[0]]} at example {bad[0]}; fill or drop such values first."
        )
    return array


def _check_all(noun: str, values: Array, good: Array, rule: str) -> None:
    bad = np.flatnonzero(~good)
    if len(bad):
        raise DataError(f"The {noun} of example {bad[0]} is {values[bad[0]]:g}; {rule}.")


def _times(values: Array, n: int) -> Array:
    array = np.asarray(values)
    _one_each("times", array, n)
    if array.dtype.kind == "M":
        if bool(np.isnat(array).any()):
            raise DataError("times has missing values; fill or drop them first.")
        array = array.astype("datetime64[s]")
    elif array.dtype.kind not in "iu":
        raise DataError(
            f"times is of type {array.dtype}; give whole numbers, such as Unix seconds, or "
            "datetime64, of which the seconds are kept."
        )
    array = array.astype(np.int64)
    falls = np.flatnonzero(np.diff(array) < 0)
    if len(falls):
        raise DataError(
            f"times falls from {array[falls[0]]} to {array[falls[0] + 1]} at example "
            f"{falls[0] + 1}; sort the examples by time."
        )
    return array


def _one_each(name: str, array: Array, n: int | None) -> None:
    if array.ndim != 1 or (n is not None and len(array) != n):
        wanted = (
            "one value for each example" if n is None else f"one value for each of {n} examples"
        )
        raise DataError(f"{name} has shape {array.shape}; give {wanted}.")
