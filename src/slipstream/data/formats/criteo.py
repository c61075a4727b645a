"""Criteo: the Kaggle file, and the days of the Terabyte log."""

from __future__ import annotations

from slipstream.data.formats.spec import Categorical, Dense, LogSpec

_DENSE = tuple(f"I{number}" for number in range(1, 14))
_COLUMNS = tuple(f"C{number}" for number in range(1, 27))


def criteo() -> LogSpec:
    """Tab-separated without a header: label, 13 whole numbers, 26 values of 8 hex digits."""
    return LogSpec(
        format="criteo",
        label="click",
        label_name="click",
        dense=tuple(Dense(name) for name in _DENSE),
        columns=tuple(Categorical(name, name, name, "hex") for name in _COLUMNS),
        fields=("click", *_DENSE, *_COLUMNS),
        separator="\t",
    )
