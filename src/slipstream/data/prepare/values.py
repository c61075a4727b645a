"""Turns fields into numbers, and finds the cells that are none."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from slipstream.arrays import Array
from slipstream.data.encoder import PATTERNS
from slipstream.data.formats.spec import Dense, Time
from slipstream.data.key_table import text_keys
from slipstream.data.schema import ValueKind
from slipstream.errors import DataError

_DATES = frozenset("YyCmdjbBheFDxGgVUWAauwq")  # the parts of a format that name no time of day


@dataclass(frozen=True)
class Cells:
    """The values of a field."""

    values: Array  # a number for each row; 0 where it is bad or missing
    missing: Array  # where the log has no value
    bad: Array  # where it has one that cannot be used
    negative: Array = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))


def label(field: pl.Series) -> Cells:
    """Labels: 0 or 1; a missing one is bad."""
    numbers = _floats(field)
    bad = numbers.bad | numbers.missing | ~np.isin(numbers.values, (0, 1))
    return Cells(numbers.values.astype(np.float32), np.zeros_like(bad), bad)


def weight(field: pl.Series) -> Cells:
    """Weights: numbers from 0 on that 32 bits can hold; a missing one is bad."""
    numbers = _floats(field)
    with np.errstate(over="ignore"):
        values = numbers.values.astype(np.float32)
    bad = numbers.bad | numbers.missing | (numbers.values < 0) | ~np.isfinite(values)
    return Cells(values, np.zeros_like(bad), bad)


def dense(field: pl.Series, spec: Dense) -> Cells:
    """Dense values, transformed."""
    numbers = _floats(field)
    x = numbers.values
    negative = x < 0
    if spec.transform == "log":
        x = np.log1p(np.maximum(x, 0))
    elif spec.transform == "sqrt":
        x = np.sqrt(np.maximum(x, 0))
    elif spec.transform == "signed-log":
        x = np.sign(x) * np.log1p(np.abs(x))
    with np.errstate(over="ignore"):
        values = x.astype(np.float32)
    bad = numbers.bad | ~np.isfinite(values)
    values[numbers.missing] = spec.missing
    return Cells(values, numbers.missing, bad, negative)


def times(field: pl.Series, spec: Time) -> Cells:
    """Times in milliseconds since 1970; a missing one is bad."""
    kind = field.dtype
    if spec.format in ("unix", "unix_ms") and (kind == pl.String or kind.is_integer()):
        whole = _whole(field)
        factor = 1000 if spec.format == "unix" else 1
        bound = 2**62 // 1000
        bad = whole.bad | whole.missing | (whole.values > bound) | (whole.values < -bound)
        return Cells(np.where(bad, 0, whole.values) * factor, np.zeros_like(bad), bad)
    if kind == pl.String:
        moment = _moments(field, spec.format)
    elif kind in (pl.Datetime, pl.Date):
        moment = field.dt.epoch("ms")
    else:
        raise DataError(f"is of type {kind}, which is no time")
    bad = moment.is_null().to_numpy()
    values = moment.to_physical().fill_null(0).to_numpy().astype(np.int64)
    return Cells(values, np.zeros_like(bad), bad)


def keys(field: pl.Series, values: ValueKind, plain: bool = False) -> Cells:
    """A 64-bit key (32-bit for hex) for each raw value of a column; nulls are missing.

    `plain` promises that no value has a plus sign or a capital from A to F.
    """
    if values == "hex":
        return _hex(field, plain)
    if values == "int":
        return _whole(field, exact=True)
    return _text(field)


def as_in_text(field: pl.Series) -> pl.Series:
    """A column of Parquet with missing values as they come from text: empty text is none."""
    if field.dtype in (pl.Categorical, pl.Enum):
        field = field.cast(pl.String)
    if field.dtype != pl.String:
        return field
    empty = field == ""
    return field.set(empty, None) if empty.any() else field


def key_values(dtype: pl.DataType) -> ValueKind:
    """The kind of keys that a Parquet column can have."""
    if dtype.is_integer() or dtype == pl.Boolean:
        return "int"
    if dtype in (pl.String, pl.Categorical, pl.Enum):
        return "text"
    raise DataError(
        f"is of type {dtype}, which does not fit a categorical column; whole numbers and strings do"
    )


def _floats(field: pl.Series) -> Cells:
    if field.dtype not in (pl.String, pl.Boolean) and not field.dtype.is_numeric():
        raise DataError(f"is of type {field.dtype}, which is no number")
    missing = field.is_null().to_numpy()
    numbers = field.cast(pl.Float64, strict=field.dtype != pl.String)
    bad = numbers.is_null().to_numpy() & ~missing
    values = numbers.fill_null(0.0).to_numpy()
    finite = np.isfinite(values)
    if not finite.all():
        bad |= ~finite
        values = np.where(finite, values, 0.0)
    return Cells(values, missing, bad)


def _whole(field: pl.Series, exact: bool = False) -> Cells:
    """Whole numbers; `exact` ones are written in one way only, so that no raw value is lost."""
    if field.dtype not in (pl.String, pl.Boolean) and not field.dtype.is_integer():
        raise DataError(f"is of type {field.dtype}, which is no whole number")
    missing = field.is_null().to_numpy()
    numbers = field.cast(pl.Int64, strict=False)
    bad = numbers.is_null().to_numpy() & ~missing
    if exact and field.dtype == pl.String:
        bad |= _unlike(field, "int")
    return Cells(numbers.fill_null(0).to_numpy(), missing, bad)


def _hex(field: pl.Series, plain: bool) -> Cells:
    if field.dtype != pl.String:
        raise DataError(f"is of type {field.dtype}; 8 hex digits are text")
    numbers = field.str.to_integer(base=16, dtype=pl.UInt32, strict=False)
    lengths = field.str.len_bytes()
    missing = field.is_null().to_numpy()
    bad = np.zeros(len(field), dtype=np.bool_)
    same = numbers.null_count() == field.null_count()
    if not (plain and same and lengths.min() in (8, None) and lengths.max() in (8, None)):
        # A sign or capitals make a number too, but the key would not show them.
        bad = _unlike(field, "hex")
    return Cells(numbers.fill_null(0).to_numpy(), missing, bad)


def _unlike(field: pl.Series, kind: ValueKind) -> Array:
    """Where a value is not written as values of its kind are."""
    return ~field.str.contains(f"^{PATTERNS[kind]}$").fill_null(True).to_numpy()


def _text(field: pl.Series) -> Cells:
    if field.dtype != pl.String and not field.dtype.is_integer():
        raise DataError(f"is of type {field.dtype}, which is neither text nor whole numbers")
    field = field.cast(pl.String)
    bad = np.zeros(len(field), dtype=np.bool_)
    return Cells(text_series_keys(field), field.is_null().to_numpy(), bad)


def text_series_keys(field: pl.Series) -> Array:
    """The keys of strings; of nulls, that of the empty one."""
    filled = field.fill_null("")
    joined = filled.str.join("").item() if len(filled) else ""
    return text_keys(joined.encode(), filled.str.len_bytes().to_numpy())


def _moments(field: pl.Series, format: str) -> pl.Series:
    if "%H" in format and "%M" not in format and "%T" not in format and "%R" not in format:
        field, format = field + ":00", format + ":%M"
    parts = set(re.findall(r"%[-_0]?([A-Za-z+])", format))
    if not parts & (_DATES | {"s", "c", "+"}):
        raise DataError(f"has the time format {format!r}, which names no date")
    if parts <= _DATES:
        return field.str.to_date(format, strict=False).cast(pl.Datetime("ms"))
    return field.str.to_datetime(format, time_unit="ms", strict=False, ambiguous="null")
