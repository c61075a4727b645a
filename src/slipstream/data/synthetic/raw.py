"""Writes built-in data as the raw log that a public data set comes in.

A chunk of lines is a matrix of bytes, a field as wide as its longest value, with NUL where a value
is shorter or missing; dropping the NULs leaves the text.
"""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from torch import Tensor

from slipstream.data.aside import claimed
from slipstream.data.inputs import Array
from slipstream.data.synthetic.bits import key, low32, words
from slipstream.data.synthetic.shapes import SHAPES
from slipstream.data.synthetic.synth import Progress, Recipe, raw_values
from slipstream.data.synthetic.world import DENSE_VALUES, MISSING_VALUE, RawInputs, World
from slipstream.errors import ConfigError, DataError, did_you_mean

_HEX = np.array([f"{byte:02x}" for byte in range(256)], dtype="S2").view(np.uint16)
_BEHAVIOURS = np.array(["pv", "cart", "fav", "buy"], dtype="S4").view(np.uint8).reshape(-1, 4)
_BEHAVIOUR_ENDS = (90, 96, 99)  # in per cent of the events
_ZERO = ord("0")
_BLOCK = 2048


def write_raw(
    recipe: Recipe,
    format: str,
    out: str | Path,
    *,
    force: bool = False,
    device: str = "cpu",
    progress: Progress = lambda _: None,
) -> Path:
    """Write the inputs of a recipe as a raw log, one line an input, in the order of their numbers.

    The lines of criteo and avazu are the inputs that `synthesize` packs, with the same labels.
    A taobao log is one of events, which have no labels and no histories: each line is an input's
    user, item and category with a behaviour and a time.

    Args:
        recipe: What to make; its shape must be the one that the format belongs to.
        format: criteo, avazu or taobao.
        out: The file to write; compressed if its name ends in `.gz`.
        force: Replace a file that is already there.
        device: Where to compute; the bytes do not depend on it.
        progress: Called with a number of rows done; each row is done once.

    Example:
        >>> write_raw(Recipe("avazu", rows=100), "avazu", "train.gz").name
        'train.gz'
    """
    log = _format_named(format)
    shapes = [name for name, shape in SHAPES.items() if shape.raw == format]
    if recipe.shape not in shapes:
        raise ConfigError(
            f"Shape {recipe.shape} cannot be written as raw {format}; "
            f"use shape {' or '.join(shapes)}."
        )
    with _aside(Path(out).resolve(), force) as file:
        world = recipe.world(device)
        teacher = None if log.label is None else recipe.teacher(world)
        file.write(log.header(world).encode())

        def text(rows: Tensor) -> tuple[int, list[bytes]]:
            raw = world.draw(rows)
            fields = log.fields(world, raw)
            if teacher and log.label is not None:
                fields.insert(log.label, _digits(_array(teacher.teach(raw)[0].long()), 1))
            return len(rows), list(_lines(fields, log.separator))

        for rows, blocks in world.map(text, 0, recipe.rows):
            file.writelines(blocks)
            progress(rows)
    return Path(out)


@dataclass(frozen=True)
class _Format:
    """How a raw log looks.

    Args:
        separator: Between two fields.
        label: The place of the label among the fields; None if the log has no labels.
        fields: The other fields of some inputs.
        header: The text before the first line.
    """

    separator: str
    label: int | None
    fields: Callable[[World, RawInputs], list[Array]]
    header: Callable[[World], str] = lambda _: ""


def _criteo(world: World, raw: RawInputs) -> list[Array]:
    counts = [_array(column) for column in raw.dense]
    width = len(str(DENSE_VALUES - 1))
    dense = [_digits(np.maximum(c, 0), width) * (c >= 0)[:, None] for c in counts]
    return [*dense, *_columns(world, raw)]


def _avazu(world: World, raw: RawInputs) -> list[Array]:
    # Distinct, because a key's words are a permutation of all 64-bit numbers.
    ids = _array(words(key(world.seed, "id"), raw.rows)).view(np.uint64)
    return [_digits(ids, 20), _hours(_times(raw)), *_columns(world, raw)]


def _avazu_header(world: World) -> str:
    return ",".join(["id", "click", *(column.name for column in world.shape.columns)]) + "\n"


def _taobao(world: World, raw: RawInputs) -> list[Array]:
    drawn = low32(words(key(world.seed, "behaviour"), raw.rows)) * 100 >> 32
    behaviour = np.searchsorted(_BEHAVIOUR_ENDS, _array(drawn), side="right")
    return [*_columns(world, raw), _BEHAVIOURS[behaviour], _digits(_times(raw), 10)]


_FORMATS = {
    "criteo": _Format("\t", 0, _criteo),
    "avazu": _Format(",", 1, _avazu, _avazu_header),
    "taobao": _Format(",", None, _taobao),
}


def _format_named(name: str) -> _Format:
    if name not in _FORMATS:
        raise ConfigError(f"There is no raw format {name!r}.{did_you_mean(name, _FORMATS)}")
    return _FORMATS[name]


def _columns(world: World, raw: RawInputs) -> list[Array]:
    """A field for each single column; a log has the time itself where a column is its hour."""
    tables = {table.name: table for table in world.shape.tables}
    fields = []
    for column in world.shape.columns:
        if column.kind != "single" or column.clock:
            continue
        table, drawn = tables[column.table], raw.columns[column.name]
        values = _array(raw_values(table, drawn, world.seed))
        hexadecimal = table.values == "hex"
        field = _hex(values) if hexadecimal else _digits(values, len(str(table.rows - 1)))
        if table.missing:
            field[_array(drawn) == MISSING_VALUE] = 0
        fields.append(field)
    return fields


def _array(numbers: Tensor) -> Array:
    array: Array = numbers.cpu().numpy()
    return array


def _times(raw: RawInputs) -> Array:
    assert raw.times is not None, "the shape of a log with times has them"
    return _array(raw.times)


def _digits(numbers: Array, width: int) -> Array:
    """Numbers from 0 on as decimal digits, to the right of their fields."""
    field = np.empty((len(numbers), width), dtype=np.uint8)
    for place in reversed(range(width)):
        rest = numbers // 10
        digit = (numbers - rest * 10).astype(np.uint8)
        field[:, place] = (digit + _ZERO) * (numbers > 0)
        numbers = rest
    field[:, -1] |= _ZERO  # the number 0 has a digit too
    return field


def _hex(numbers: Array) -> Array:
    """Numbers below 2^32 as 8 hex digits."""
    in_order = numbers.astype(">u4").view(np.uint8)
    return _HEX[in_order].view(np.uint8).reshape(-1, 8)


def _hours(times: Array) -> Array:
    """Unix times as YYMMDDHH."""
    hours, which = np.unique(times // 3600, return_inverse=True)
    text = np.datetime_as_string(hours.astype("datetime64[h]")).astype("S13")  # 2017-07-14T02
    return text.view(np.uint8).reshape(-1, 13)[:, [2, 3, 5, 6, 8, 9, 11, 12]][which]


def _lines(fields: list[Array], separator: str) -> Iterator[bytes]:
    """The text of some lines, in blocks small enough for the processor's cache."""
    ends = np.cumsum([field.shape[1] + 1 for field in fields])
    for first in range(0, len(fields[0]), _BLOCK):
        block = [field[first : first + _BLOCK] for field in fields]
        matrix = np.full((len(block[0]), ends[-1]), ord(separator), dtype=np.uint8)
        for field, end in zip(block, ends, strict=True):
            matrix[:, end - 1 - field.shape[1] : end - 1] = field
        matrix[:, -1] = ord("\n")
        yield matrix.tobytes().translate(None, delete=b"\0")


@contextmanager
def _aside(out: Path, force: bool) -> Iterator[io.BufferedIOBase]:
    """A file that has its name only once it is whole, and is gone if it never is."""
    _check_free(out, force)
    with claimed(out) as partial:
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
