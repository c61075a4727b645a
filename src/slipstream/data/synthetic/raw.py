"""Writes built-in data as the raw log that a public data set comes in."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl

from slipstream.arrays import Array
from slipstream.data.atomic_write import partial_path
from slipstream.data.synthetic.generator import MISSING_VALUE, ExampleGenerator, RawExamples
from slipstream.data.synthetic.random_words import key, random_words
from slipstream.data.synthetic.shapes import SHAPES
from slipstream.data.synthetic.synth import Progress, Recipe, raw_values
from slipstream.data.synthetic.teacher import Teacher
from slipstream.errors import ConfigError, DataError, did_you_mean

_BEHAVIOURS = np.array(["pv", "cart", "fav", "buy"])
_BEHAVIOUR_ENDS = (90, 96, 99)  # in per cent of the events


def write_raw(
    recipe: Recipe,
    format: str,
    out: str | Path,
    *,
    force: bool = False,
    progress: Progress = lambda _: None,
) -> Path:
    """Write the examples of a recipe as a raw log, one line an example, in order.

    The lines of criteo and avazu are the examples that `synthesize` packs, with the same labels.
    A taobao log is one of events, which have no labels and no histories: each line is an example's
    user, item and category with a behaviour and a time.

    Args:
        recipe: What to make; its shape must be the one that the format belongs to.
        format: criteo, avazu or taobao.
        out: The file to write; compressed if its name ends in `.gz`.
        force: Replace a file that is already there.
        progress: Called with a number of examples done.

    Example:
        >>> write_raw(Recipe("avazu", rows=100), "avazu", "train.gz").name
        'train.gz'
    """
    if format not in _FORMATS:
        raise ConfigError(f"There is no raw format {format!r}.{did_you_mean(format, _FORMATS)}")
    fields, separator, header = _FORMATS[format]
    shapes = [name for name, shape in SHAPES.items() if shape.raw == format]
    if recipe.shape not in shapes:
        raise ConfigError(
            f"DataShape {recipe.shape} cannot be written as raw {format}; "
            f"use shape {' or '.join(shapes)}."
        )
    with _whole_file(Path(out).resolve(), force) as file:
        generator = recipe.generator()
        teacher = Teacher(generator, recipe.share)

        def lines(numbers: Array) -> tuple[int, str]:
            raw = generator.draw(numbers)
            labels = teacher.label(raw).labels.astype(np.int64)
            table = pl.DataFrame(fields(generator, raw, labels))
            has_header = header and not numbers[0]
            return len(numbers), table.write_csv(include_header=has_header, separator=separator)

        for rows, text in generator.map_chunks(lines, 0, recipe.rows):
            file.write(text.encode())
            progress(rows)
    return Path(out)


Fields = dict[str, "Array | pl.Series"]


def _criteo(generator: ExampleGenerator, raw: RawExamples, labels: Array) -> Fields:
    dense = {f"I{n}": _with_missing(counts, counts < 0) for n, counts in enumerate(raw.dense, 1)}
    return {"label": labels, **dense, **_columns(generator, raw)}


def _avazu(generator: ExampleGenerator, raw: RawExamples, labels: Array) -> Fields:
    # Distinct, because a key's words are a permutation of all 64-bit numbers.
    ids = random_words(key(generator.seed, "id"), raw.numbers)
    hours = pl.from_epoch(pl.Series(raw.times)).dt.strftime("%y%m%d%H")
    return {"id": ids, "click": labels, "hour": hours, **_columns(generator, raw)}


def _taobao(generator: ExampleGenerator, raw: RawExamples, _: Array) -> Fields:
    words = random_words(key(generator.seed, "behaviour"), raw.numbers)
    behaviour = np.searchsorted(_BEHAVIOUR_ENDS, words % np.uint64(100), side="right")
    assert raw.times is not None, "a log of events has times"
    fields = _columns(generator, raw)
    return {**fields, "behaviour": _BEHAVIOURS[behaviour], "time": raw.times}


# For each format its fields, the character between two of them, and whether it has a header.
_FORMATS: dict[str, tuple[Callable[[ExampleGenerator, RawExamples, Array], Fields], str, bool]] = {
    "criteo": (_criteo, "\t", False),
    "avazu": (_avazu, ",", True),
    "taobao": (_taobao, ",", False),
}


def _columns(generator: ExampleGenerator, raw: RawExamples) -> Fields:
    """A field for each single column; a log has the time itself where a column is its hour."""
    tables = {table.name: table for table in generator.shape.tables}
    fields: Fields = {}
    for column in generator.shape.columns:
        if column.kind != "single" or column.clock:
            continue
        table, numbers = tables[column.table], raw.columns[column.name].values
        values = raw_values(table, numbers, generator.seed)
        if table.values == "hex":
            values = np.frombuffer(values.astype(">u4").tobytes().hex().encode(), "S8").astype("U8")
        missing = (numbers == MISSING_VALUE) & table.missing
        fields[column.name] = _with_missing(values, missing)
    return fields


def _with_missing(values: Array, missing: Array) -> pl.Series:
    """A series whose missing values are written as empty fields."""
    series = pl.Series(values)
    return series.set(pl.Series(missing), None) if missing.any() else series


@contextmanager
def _whole_file(out: Path, force: bool) -> Iterator[io.BufferedIOBase]:
    """A file that has its name only once it is whole, and is removed if it never is."""
    _check_free(out, force)
    with partial_path(out) as partial:
        try:
            with partial.open("wb") as file:
                if out.suffix == ".gz":  # without a name and a time, so that the bytes are equal
                    with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
                        yield packed
                else:
                    yield file
                file.flush()
                os.fsync(file.fileno())
            _check_free(out, force)
            partial.replace(out)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def _check_free(out: Path, force: bool) -> None:
    if out.is_dir():
        raise DataError(f"{out} is a folder. Choose the name of a file.")
    if out.exists() and not force:
        raise DataError(f"{out} exists already. Choose another name, or add --force.")
