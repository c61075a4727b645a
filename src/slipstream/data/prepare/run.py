"""Prepares raw logs: reads, orders, counts, ranks and packs; can be stopped at any moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.data.atomic_write import check_replaceable, partial_path, publish
from slipstream.data.dataset import Dataset
from slipstream.data.formats.spec import LogSpec
from slipstream.data.layout import MANIFEST
from slipstream.data.manifest import read_manifest
from slipstream.data.prepare.log import Log
from slipstream.data.prepare.options import Options
from slipstream.data.prepare.order import part_ends, random_parts, stable_order
from slipstream.data.prepare.pack import add_bad_rows, pack
from slipstream.data.prepare.parse import Parser
from slipstream.data.prepare.read import Progress, Reader, lost_rows, table_folder
from slipstream.data.prepare.resource_limits import Memory, check_disk, disk_needed
from slipstream.data.prepare.reuse_dictionary import check_fits, reuse_dictionary
from slipstream.data.prepare.source import Source
from slipstream.data.prepare.spill import mapped
from slipstream.data.prepare.state import State, fingerprint
from slipstream.data.prepare.tables import MadeTable, make_table
from slipstream.data.schema import Schema, Table, ValueKind
from slipstream.data.writer import DatasetWriter
from slipstream.errors import DataError, SlipstreamError


def prepare(
    spec: LogSpec,
    inputs: Sequence[str | Path],
    out: str | Path,
    options: Options | None = None,
    *,
    force: bool = False,
    progress: Progress = lambda *_: None,
) -> Path:
    """Make a packed data set of raw logs.

    A run that was killed goes on where it stopped when it is started again with the same
    arguments; the result is the same to the byte.

    Args:
        spec: What the logs look like: see `slipstream.data.formats.log_spec`.
        inputs: The files, in the order of time.
        out: The folder to make.
        options: How to split, rank and so on.
        force: Replace a data set that is already there.
        progress: Called with the step, rows done, and how many there will be.

    Example:
        >>> prepare(log_spec("criteo", {}), ["train.txt"], "clicks")  # doctest: +SKIP
    """
    options = options or Options()
    out, files = Path(out).resolve(), [Path(path) for path in inputs]
    memory = Memory(options.memory)
    source = Source(spec, files, memory.block)
    kinds = source.kinds()
    Parser(spec, files, kinds).check_types(source)
    with partial_path(out) as work:
        _prepare(source, kinds, options, memory, work, out, force, progress)
    return out


def _prepare(
    source: Source,
    kinds: dict[str, ValueKind],
    options: Options,
    memory: Memory,
    work: Path,
    out: Path,
    force: bool,
    progress: Progress,
) -> None:
    """Go through the steps that are not done yet."""
    spec, base = source.spec, options.dictionary
    if base is not None:
        read_manifest(base)
    mark = fingerprint(spec, source.inputs, options)
    named = State.peek(work, mark).get("naming", False)
    if not named:
        check_replaceable(out, force)
        if base is not None:
            check_fits(Dataset.open(base), Log(spec, kinds, work, 0), options.extend)
    state = State(work, mark)
    try:
        if not named:
            if not state.resumed:
                check_disk(out, disk_needed(source))
            _Run(source, kinds, options, memory, state, out, progress).run()
            if base is not None and base.resolve() == out:
                # Once published, it is the dictionary of the same command.
                after = fingerprint(spec, source.inputs, options, work / "dataset")
                state.notes["once_named"] = after
            state.notes["naming"] = True
            state.save()
        if (work / "dataset" / MANIFEST).is_file():
            publish(work / "dataset", out, force)
        state.remove()
    except SlipstreamError:
        state.remove()
        raise
    except OSError as error:  # a full disk, say: what is done is worth keeping
        raise DataError(
            f"{error.filename or work}: {error.strerror}. What is done is kept in {work}: the same "
            "command goes on from there."
        ) from None
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"Stopped. The same command goes on from here; to give up, remove {work}."
        ) from None
    except Exception as error:
        raise RuntimeError(
            f"This is a defect of slipstream: please report it. What is done is kept in {work}: "
            "the same command goes on from there; to start anew or to give up, remove it."
        ) from error


@dataclass
class _Run:
    """The steps of one preparation; each is done once, even if the process is killed."""

    source: Source
    kinds: dict[str, ValueKind]
    options: Options
    memory: Memory
    state: State
    out: Path
    progress: Progress

    @property
    def spec(self) -> LogSpec:
        return self.source.spec

    def run(self) -> None:
        parser = Parser(self.spec, self.source.inputs, self.kinds)
        reader = Reader(self.source, parser, self.options, self.state, self.progress)
        read = reader.run()
        log = Log(self.spec, self.kinds, self.state.work, read["rows"])
        ends = self._arrange(log, read)
        lost = self.state.notes["done"].get("negatives", 0)
        tables = self._tables(log, ends[0])
        schema = Schema(
            tables=tuple(table.table for table in tables.values()),
            columns=tuple(log.columns),
            dense=tuple(column.name for column in self.spec.dense),
            label=self.spec.label_name,
            weights=self.spec.weight is not None,
            times=self.spec.time is not None,
        )
        notes = self.state.notes.setdefault("pack", {"event": 0, "inputs": 0, "writer": None})
        writer = DatasetWriter(
            self.out,
            schema,
            source=self._origin(read, lost),
            rows_per_shard=self.options.rows_per_shard,
            force=True,
            work=self.state.work / "dataset",
            resume=notes["writer"],
        )
        packed = pack(writer, log, ends, tables, self.memory, self.state, self.progress)
        set_aside = sum(read["bad"].values())
        if packed != read["rows"] * log.inputs_per_event - lost:
            raise lost_rows()
        if read["count"] != read["rows"] + set_aside:
            raise lost_rows()
        add_bad_rows(writer, self.state.work)
        writer.finish(
            {name: table.counts for name, table in tables.items()},
            {name: d for name, table in tables.items() if (d := table.dictionary) is not None},
            bad_rows=dict(sorted(read["bad"].items())),
            buckets={name: b for name, table in tables.items() if (b := table.buckets) is not None},
        )

    def _arrange(self, log: Log, read: dict[str, Any]) -> tuple[int, int, int]:
        """Order the rows, derive values from other rows, and cut the parts."""
        state, work, limit = self.state, self.state.work, self.memory.keys * 2
        in_time = None
        if self.spec.sort:
            times = log.spilled("time", np.int64)
            state.once("sort", lambda: len(stable_order(times, work / "in_time", limit)))
            in_time = mapped(work / "in_time", np.int64)
        state.once("lists", log.add_up_lengths)
        if self.spec.negatives is not None:
            state.once("negatives", lambda: log.draw_negatives(in_time))
        if self.spec.history is not None:
            state.once("histories", lambda: log.find_histories(in_time, limit))
        log.order = in_time
        if self.options.split == "random":
            out = work / "dealt"
            ends = state.once(
                "split", lambda: list(random_parts(log.rows, self.options, out, in_time))
            )
            log.order = mapped(out, np.int64)
        else:
            ends = state.once("split", lambda: list(self._time_ends(log, in_time, read)))
        return ends[0], ends[1], ends[2]

    def _time_ends(self, log: Log, order: Any, read: dict[str, Any]) -> tuple[int, int, int]:
        time_at = None
        if self.spec.time is not None:
            times = log.spilled("time", np.int64)

            def time_at(place: int) -> int:
                return int(times[place if order is None else order[place]])

        return part_ends(log.rows, self.options, time_at, read["file_rows"])

    def _tables(self, log: Log, train: int) -> dict[str, MadeTable]:
        tables: dict[str, MadeTable] = {}
        base = None if self.options.dictionary is None else Dataset.open(self.options.dictionary)
        names = list(dict.fromkeys(column.table for column in log.columns))
        for number, name in enumerate(names):
            number_name = table_folder(self.spec, name)
            folder, texts = (self.state.work / kind / number_name for kind in ("tables", "texts"))
            rest = (log, name, train, self.options, self.memory, folder, texts)
            make = partial(make_table, *rest)
            if base is not None:
                make = partial(reuse_dictionary, base, *rest)
            tables[name] = MadeTable(Table(**self.state.once(f"table {name}", make)), folder)
            self.progress("counting", (number + 1) * train // len(names), train)
        return tables

    def _origin(self, read: dict[str, Any], lost: int) -> dict[str, Any]:
        """The source of the examples, for the manifest."""
        options = asdict(self.options)
        for name in ("memory", "rows_per_shard", "dictionary"):  # do not change the examples
            options.pop(name)
        origin: dict[str, Any] = {
            "kind": "log",
            "format": self.spec.format,
            "files": [
                {"name": path.name, "bytes": path.stat().st_size, "rows": rows}
                for path, rows in zip(self.source.inputs, read["file_rows"], strict=True)
            ],
            "rows_read": read["count"],
            "rows_set_aside": sum(read["bad"].values()),
            "replaced": dict(sorted(read["notes"].items())),
            "options": options,
        }
        if self.spec.dense:
            origin["dense"] = {
                column.name: {"transform": column.transform, "missing": column.missing}
                for column in self.spec.dense
            }
        if self.options.dictionary is not None:
            origin["dictionary"] = read_manifest(self.options.dictionary).checksum
        if self.spec.negatives is not None:
            origin["negatives"] = {**asdict(self.spec.negatives), "not_found": lost}
        return origin
