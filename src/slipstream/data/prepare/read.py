"""The first step: reads the raw files once, sets bad rows aside, and spills typed columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from slipstream.background import map_in_threads
from slipstream.data.formats.spec import LogSpec
from slipstream.data.prepare.lines import BadRow
from slipstream.data.prepare.options import Options
from slipstream.data.prepare.parse import ParsedRows, Parser
from slipstream.data.prepare.source import LogPiece, Source
from slipstream.data.prepare.spill import Spill
from slipstream.data.prepare.state import State
from slipstream.errors import DataError

BAD_ROWS = "bad_rows.tsv"
Progress = Callable[[str, int, int], None]


class Reader:
    """Reads a log from where the last run stopped."""

    def __init__(
        self, source: Source, parser: Parser, options: Options, state: State, progress: Progress
    ) -> None:
        self.source, self.parser, self.options, self.state = source, parser, options, state
        self.progress = progress
        empty = {
            **dict.fromkeys(("file", "start", "rows", "count", "chunks", "bad_bytes"), 0),
            **{"line": 1, "done": False, "sizes": {}, "bad": {}, "notes": {}},
            **{"last_time": None, "file_rows": [0] * len(source.inputs)},
        }
        self.notes: dict[str, Any] = state.notes.setdefault("read", empty)

    def run(self) -> dict[str, Any]:
        """Read the rest of the log; return the notes about all of it."""
        notes = self.notes
        if notes["done"]:
            return notes
        spill = Spill(self.state.work / "columns", notes["sizes"])
        bad = Spill(self.state.work, {BAD_ROWS: notes["bad_bytes"]})
        try:
            pieces = self.source.pieces(notes["file"], notes["start"], notes["line"])
            for piece, chunk in map_in_threads(self._parse, pieces):
                self._append(piece, chunk, spill, bad)
        finally:
            spill.close()
            bad.close()
        if notes["rows"] == 0:
            raise DataError(f"No row is left: all {notes['count']} rows were set aside as bad.")
        notes["done"] = True
        self.state.save()
        return notes

    def _parse(self, piece: LogPiece) -> ParsedRows:
        rows = self.source.rows(piece)
        if rows.count + rows.joined != piece.next_line - piece.line:
            raise lost_rows()
        return self.parser.parse(piece.file, rows)

    def _append(self, piece: LogPiece, chunk: ParsedRows, spill: Spill, bad: Spill) -> None:
        notes = self.notes
        if chunk.count != chunk.rows + len(chunk.bad):
            raise lost_rows()
        self._check_times(piece, chunk)
        if chunk.bad:
            self._set_aside(chunk.bad, bad)
        spill.append(chunk.arrays)
        for table, frame in chunk.texts.items():
            folder = self.state.work / "texts" / table_folder(self.source.spec, table)
            folder.mkdir(parents=True, exist_ok=True)
            frame.write_ipc(folder / f"{notes['chunks']:08d}")
        for name, count in chunk.notes.items():
            notes["notes"][name] = notes["notes"].get(name, 0) + count
        notes["rows"] += chunk.rows
        notes["count"] += chunk.count
        notes["chunks"] += 1
        notes["file_rows"][piece.file] += chunk.rows
        notes["sizes"], notes["bad_bytes"] = spill.sizes, bad.sizes[BAD_ROWS]
        notes["file"], notes["start"], notes["line"] = piece.file, piece.stop, piece.next_line
        self.state.save()
        share = (piece.file + piece.share) / len(self.source.inputs)
        self.progress("reading", notes["count"], round(notes["count"] / max(share, 1e-9)))

    def _set_aside(self, rows: list[BadRow], spill: Spill) -> None:
        if self.options.bad_rows == "error":
            raise DataError(
                f"{self.source.place(rows[0])}: {rows[0].what}. Mend the file, or set such rows "
                "aside with --bad-rows skip."
            )
        most = self.options.max_bad
        assert most is not None, "options were filled in"
        counts = self.notes["bad"]
        before = sum(counts.values())
        for row in rows:
            counts[row.reason] = counts.get(row.reason, 0) + 1
        if before + len(rows) > most:
            row = rows[max(0, most - before)]
            raise DataError(
                f"{self.source.place(row)}: {row.what}. This is bad row number {most + 1}; "
                f"--max-bad allows {most}."
            )
        files = self.source.inputs
        lines = [f"{files[r.file]}\t{r.line}\t{r.reason}\t{r.what}\n" for r in rows]
        text = "".join(lines).encode("utf-8", "backslashreplace")
        spill.append({BAD_ROWS: np.frombuffer(text, dtype=np.uint8)})

    def _check_times(self, piece: LogPiece, chunk: ParsedRows) -> None:
        if self.source.spec.time is None or not chunk.rows:
            return
        times, before = chunk.arrays["time"], self.notes["last_time"]
        falls = np.flatnonzero(np.diff(times, prepend=times[0] if before is None else before) < 0)
        if len(falls) and not self.source.spec.sort:
            at = int(falls[0])
            earlier = before if at == 0 else int(times[at - 1])
            row = BadRow(piece.file, int(chunk.lines[at]), "", "")
            raise DataError(
                f"{self.source.place(row)}: column {self.source.spec.time.field!r}: time falls "
                f"from {_moment(earlier)} to {_moment(int(times[at]))}. Sort the rows with --sort, "
                "or `sort: time` in a schema."
            )
        self.notes["last_time"] = int(times[-1])


def lost_rows() -> DataError:
    """The error of a log of which some rows are neither packed nor set aside."""
    return DataError(
        "Rows in are not rows out and rows set aside. This is a defect of slipstream: please "
        "report it, with the log if you can. Nothing was written."
    )


def table_folder(spec: LogSpec, table: str) -> str:
    """The folder of a table in the work folder: a number, because any name is allowed."""
    return f"{list(dict.fromkeys(c.table for c in spec.columns)).index(table):03d}"


def _moment(milliseconds: int) -> str:
    try:
        return str(np.datetime64(milliseconds, "ms"))
    except ValueError:
        return str(milliseconds)
