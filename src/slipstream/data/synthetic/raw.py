"""Writes built-in data as the raw log that a public data set comes in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import numpy as np
import polars as pl

from slipstream.arrays import Array
from slipstream.data.atomic_write import partial_path
from slipstream.data.synthetic.draws import key, random_words
from slipstream.data.synthetic.generator import MISSING_VALUE, ExampleGenerator, RawExamples
from slipstream.data.synthetic.synth import Progress, Recipe, raw_values
from slipstream.data.synthetic.teacher import Teacher
from slipstream.errors import ConfigError, DataError

_BEHAVIOURS = np.array(["pv", "cart", "fav", "buy"])
_BEHAVIOUR_ENDS = (90, 96, 99)  # in per cent of the events
Fields = dict[str, "Array | pl.Series"]


def write_raw(
    recipe: Recipe, out: str | Path, *, force: bool = False, progress: Progress = lambda _: None
) -> Path:
    """Write the examples of a recipe as the raw log of its shape, one line an example, in order.

    The lines of criteo-kaggle are the examples that `synthesize` packs, with the same labels. A
    taobao log is one of events, which have no labels and no histories: each line is an example's
    user, item and category with a behaviour and a time.

    Args:
        recipe: What to make; its shape is criteo-kaggle or taobao.
        out: The file to write.
        force: Replace a file that is already there.
        progress: Called with a number of examples done.

    Example:
        >>> write_raw(Recipe("taobao", rows=100), "events.csv").name
        'events.csv'
    """
    if recipe.shape not in ("criteo-kaggle", "taobao"):
        raise ConfigError(
            f"Shape {recipe.shape} has no raw format; use shape criteo-kaggle or taobao."
        )
    criteo = recipe.shape == "criteo-kaggle"
    with _whole_file(Path(out).resolve(), force) as file:
        generator = recipe.generator()
        teacher = Teacher(generator, recipe.share)

        def lines(numbers: Array) -> tuple[int, str]:
            raw = generator.draw(numbers)
            fields = _criteo(generator, raw, teacher) if criteo else _taobao(generator, raw)
            table = pl.DataFrame(fields)
            text = table.write_csv(include_header=False, separator="\t" if criteo else ",")
            return len(numbers), text

        for rows, text in generator.map_chunks(lines, 0, recipe.rows):
            file.write(text.encode())
            progress(rows)
    return Path(out)


def _criteo(generator: ExampleGenerator, raw: RawExamples, teacher: Teacher) -> Fields:
    fields: Fields = {"label": teacher.label(raw).labels.astype(np.int64)}
    for number, counts in enumerate(raw.dense, 1):
        fields[f"I{number}"] = _with_missing(counts, counts < 0)
    for table in generator.shape.tables:
        numbers = raw.columns[table.name].values
        values = raw_values(table, numbers, generator.seed).astype(">u4").tobytes().hex()
        digits = np.frombuffer(values.encode(), "S8").astype("U8")
        fields[table.name] = _with_missing(digits, (numbers == MISSING_VALUE) & table.missing)
    return fields


def _taobao(generator: ExampleGenerator, raw: RawExamples) -> Fields:
    words = random_words(key(generator.seed, "behaviour"), raw.example_numbers)
    behaviour = np.searchsorted(_BEHAVIOUR_ENDS, words % np.uint64(100), side="right")
    assert raw.times is not None, "a log of events has times"
    fields: Fields = {name: raw.columns[name].values for name in ("user", "item", "category")}
    return {**fields, "behaviour": _BEHAVIOURS[behaviour], "time": raw.times}


def _with_missing(values: Array, missing: Array) -> pl.Series:
    """A series whose missing values are written as empty fields."""
    series = pl.Series(values)
    return series.set(pl.Series(missing), None) if missing.any() else series


@contextmanager
def _whole_file(out: Path, force: bool) -> Iterator[IO[bytes]]:
    """A file that has its name only once it is whole, and is removed if it never is."""
    if out.is_dir():
        raise DataError(f"{out} is a folder. Choose the name of a file.")
    if out.exists() and not force:
        raise DataError(f"{out} exists already. Choose another name, or add --force.")
    with partial_path(out) as partial:
        try:
            with partial.open("wb") as file:
                yield file
            partial.replace(out)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
