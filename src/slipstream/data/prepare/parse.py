"""Makes columns of numbers from the fields of a block, and names the cells that cannot be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from slipstream.arrays import Array
from slipstream.data.encoder import EXPECTED
from slipstream.data.formats.spec import Categorical, LogSpec
from slipstream.data.prepare import values
from slipstream.data.prepare.lines import BadRow, Rows
from slipstream.data.prepare.source import Source
from slipstream.data.prepare.values import Cells
from slipstream.data.schema import ValueKind
from slipstream.errors import DataError

_HOUR = 3_600_000
_SHOWN = 60
_EXPECTED = EXPECTED | {"int": f"{EXPECTED['int']} (in a schema, `values: text` takes anything)"}


@dataclass(frozen=True)
class ParsedRows:
    """The columns of some rows."""

    rows: int  # how many are good
    count: int  # how many were read, good or bad
    arrays: dict[str, Array]  # by the name of their file
    texts: dict[str, pl.DataFrame]  # the distinct `key` and `value` of each text table
    bad: list[BadRow]  # the rows that were left out
    notes: dict[str, int]  # how many dense values a rule replaced, by column and rule
    lines: Array  # the line number of each good row


@dataclass
class _Block:
    """A block while its fields are converted, one after the other."""

    file: int
    frame: pl.DataFrame
    plain: bool
    bad: dict[int, tuple[str, str]] = field(default_factory=dict)
    singles: dict[str, Array] = field(default_factory=dict)
    lists: dict[str, tuple[Array, Array, Array]] = field(default_factory=dict)
    strings: list[tuple[str, str, pl.Series]] = field(default_factory=list)
    replaced: dict[str, Array] = field(default_factory=dict)

    def note(self, bad: Array, name: str, expected: str) -> None:
        for row in np.flatnonzero(bad).tolist():
            self.bad.setdefault(row, (name, expected))


class Parser:
    """Turns the rows of a log into columns of numbers."""

    def __init__(self, spec: LogSpec, inputs: list[Path], kinds: dict[str, ValueKind]) -> None:
        self.spec, self.inputs, self.kinds = spec, inputs, kinds

    def check_types(self, source: Source) -> None:
        """Raise an error where a column of a Parquet file is of a type that does not fit."""
        for number in range(len(self.inputs)):
            rows = source.no_rows(number)
            if rows is not None:
                self.parse(number, rows)

    def parse(self, file: int, rows: Rows) -> ParsedRows:
        """The columns of the good rows, and the bad ones."""
        spec, block = self.spec, _Block(file, rows.frame, rows.plain)
        times = None
        if spec.label is not None:
            cells = self._convert(block, spec.label, "a label of 0 or 1", values.label)
            block.singles["label"] = cells.values
        if spec.weight is not None:
            cells = self._convert(block, spec.weight, "a weight from 0 to 3.4e38", values.weight)
            block.singles["weight"] = cells.values
        if spec.time is not None:
            expected = f"a time written as {spec.time.format}"
            convert = partial(values.times, spec=spec.time)
            times = self._convert(block, spec.time.field, expected, convert).values
            block.singles["time"] = times
        if spec.dense:
            self._dense(block)
        for number, column in enumerate(spec.columns):
            name = f"c{number:03d}"
            if column.values == "hour":
                assert times is not None, "a spec with an hour column has a time"
                block.singles[name] = times // _HOUR % 24
                block.singles[f"{name}.missing"] = np.zeros(len(times), dtype=np.bool_)
            elif column.kind == "single":
                self._single(block, name, column)
            else:
                self._list(block, name, column)
        return self._good_rows(rows, block)

    def _convert(
        self,
        block: _Block,
        name: str,
        expected: str,
        convert: Callable[[pl.Series], Cells],
        series: pl.Series | None = None,
    ) -> Cells:
        try:
            cells = convert(block.frame[name] if series is None else series)
        except DataError as error:
            raise DataError(f"{self.inputs[block.file]}: column {name!r} {error}.") from None
        except pl.exceptions.PolarsError as error:
            reason, file = " ".join(str(error).split()), self.inputs[block.file]
            raise DataError(
                f"{file}: column {name!r} cannot be read as {expected}: {reason}."
            ) from None
        if series is None:
            block.note(cells.bad, name, expected)
        return cells

    def _dense(self, block: _Block) -> None:
        matrix = np.empty((block.frame.height, len(self.spec.dense)), dtype=np.float32)
        for place, column in enumerate(self.spec.dense):
            convert = partial(values.dense, spec=column)
            cells = self._convert(block, column.name, "a number", convert)
            matrix[:, place] = cells.values
            block.replaced[f"{column.name} missing"] = cells.missing
            if column.transform in ("log", "sqrt"):
                block.replaced[f"{column.name} negative"] = cells.negative
        block.singles["dense"] = matrix

    def _single(self, block: _Block, name: str, column: Categorical) -> None:
        kind = self.kinds[column.table]
        convert = partial(values.keys, values=kind, plain=block.plain)
        cells = self._convert(block, column.field, _EXPECTED[kind], convert)
        block.singles[name], block.singles[f"{name}.missing"] = cells.values, cells.missing
        if kind == "text":
            block.strings.append((column.table, name, block.frame[column.field]))

    def _list(self, block: _Block, name: str, column: Categorical) -> None:
        kind, series = self.kinds[column.table], block.frame[column.field]
        if series.dtype == pl.String:
            series = series.fill_null("")
            empty = (series == "").to_numpy()
            series = series.str.split(column.split or " ")
            lengths = np.where(empty, 0, series.list.len().to_numpy()).astype(np.int64)
            flat = series.filter(pl.Series(~empty)).explode()
        elif isinstance(series.dtype, pl.List):
            block.note(series.is_null().to_numpy(), column.field, "a list")
            lengths = series.list.len().fill_null(0).to_numpy().astype(np.int64)
            flat = series.filter(pl.Series(lengths > 0)).explode()
        else:
            raise DataError(
                f"{self.inputs[block.file]}: column {column.field!r} is of type {series.dtype}, "
                "which is no list."
            )
        flat = values.as_in_text(flat)
        expected = f"a list of which each value is {_EXPECTED[kind]}"
        convert = partial(values.keys, values=kind, plain=block.plain)
        cells = self._convert(block, column.field, expected, convert, flat)
        owners = np.repeat(np.arange(len(lengths)), lengths)
        bad = np.zeros(len(lengths), dtype=np.bool_)
        bad[owners[cells.bad]] = True
        block.note(bad, column.field, expected)
        block.lists[name] = (cells.values, cells.missing, lengths)
        if kind == "text":
            block.strings.append((column.table, name, flat))

    def _good_rows(self, rows: Rows, block: _Block) -> ParsedRows:
        bad = [*rows.bad, *(self._bad_row(rows, row, block) for row in block.bad)]
        bad.sort(key=lambda row: row.line)
        keep = np.ones(block.frame.height, dtype=np.bool_)
        keep[list(block.bad)] = False
        whole = not block.bad
        arrays = {n: a if whole else a[keep] for n, a in block.singles.items()}
        used: dict[str, Array] = {}
        for name, (keys, missing, lengths) in block.lists.items():
            used[name] = np.repeat(keep, lengths)
            arrays[name], arrays[f"{name}.missing"] = keys[used[name]], missing[used[name]]
            arrays[f"{name}.lengths"] = lengths[keep]
        texts: dict[str, list[pl.DataFrame]] = {}
        for table, name, strings in block.strings:
            good = strings if whole else strings.filter(pl.Series(used.get(name, keep)))
            present = np.flatnonzero(~arrays[f"{name}.missing"])
            keys, first = np.unique(arrays[name][present], return_index=True)
            distinct = good.cast(pl.String).gather(present[first])
            texts.setdefault(table, []).append(pl.DataFrame({"key": keys, "value": distinct}))
        notes = {name: int(np.count_nonzero(m[keep])) for name, m in block.replaced.items()}
        return ParsedRows(
            rows=int(np.count_nonzero(keep)),
            count=rows.count,
            arrays=arrays,
            texts={t: pl.concat(frames).unique(maintain_order=True) for t, frames in texts.items()},
            bad=bad,
            notes={name: count for name, count in notes.items() if count},
            lines=rows.lines[keep],
        )

    def _is_header(self, frame: pl.DataFrame, row: int, name: str) -> bool:
        """Whether a bad value and the first one of its row are words, where a log has no header."""
        fields = self.spec.fields
        if fields is None or fields[0] not in frame.columns:
            return False
        both = (frame[fields[0]][row], frame[name][row])
        return all(isinstance(v, str) and v and not any(c.isdigit() for c in v) for v in both)

    def _bad_row(self, rows: Rows, row: int, block: _Block) -> BadRow:
        name, expected = block.bad[row]
        value, line = block.frame[name][row], int(rows.lines[row])
        plain = value.to_list() if isinstance(value, pl.Series) else value
        shown = "nothing" if plain is None or plain == "" else repr(plain)
        if len(shown) > _SHOWN:
            shown = shown[:_SHOWN] + "..."
        if line == 1 and self._is_header(block.frame, row, name):
            message = (
                f"column {name!r} has {shown}: this looks like a header, and this log has none"
            )
            return BadRow(block.file, line, "header where none belongs", message)
        role = "label" if name == self.spec.label else "value"
        reason = f"missing {role}" if shown == "nothing" else f"bad {role}"
        message = f"column {name!r} has {shown} instead of {expected}"
        return BadRow(block.file, line, f"{reason} in {name}", message)
