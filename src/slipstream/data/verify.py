"""Checks a packed data set: every byte against its checksum, every example against the manifest."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from slipstream.arrays import Array
from slipstream.data.dataset import Dataset, Part
from slipstream.data.inputs import Examples, Ragged, first_outside
from slipstream.data.layout import MANIFEST, list_file, shard_file, table_file
from slipstream.data.manifest import ListStats

_AT_ONCE = 1 << 16
_BYTES_AT_ONCE = 1 << 20
Progress = Callable[[int], None]


def verify(folder: str | Path, progress: Progress = lambda _: None) -> list[str]:
    """List what is wrong with a data set, as sentences that name the files.

    Raises an error where the folder cannot be opened as a data set at all.

    Args:
        folder: The data set.
        progress: Called with a number of bytes done, of those in all files.

    Example:
        >>> verify("clicks")
        []
    """
    dataset = Dataset.open(folder)
    damaged = [*_damaged_files(dataset, progress), *_other_files(dataset)]
    if damaged:  # what damaged files hold is not worth reporting
        return damaged
    problems = [*_check_tables(dataset)]
    counts = {table.name: np.zeros(table.rows, dtype=np.int64) for table in dataset.schema.tables}
    for part in dataset.parts.values():
        problems += _check_part(dataset, part, counts if part.name == "train" else None)
    problems += _check_counts(dataset, counts)
    return problems


def _damaged_files(dataset: Dataset, progress: Progress) -> Iterator[str]:
    for name, info in dataset.manifest.files.items():
        digest = hashlib.sha256()
        with _path(dataset, name).open("rb") as file:
            while block := file.read(_BYTES_AT_ONCE):
                digest.update(block)
                progress(len(block))
        if digest.hexdigest() != info.sha256:
            yield (
                f"{_path(dataset, name)} is damaged: its checksum is not the one in {MANIFEST}. "
                "Restore it or make the data set again."
            )


def _other_files(dataset: Dataset) -> Iterator[str]:
    """Files that the manifest knows nothing of."""
    known = {MANIFEST, *dataset.manifest.files}
    folder = _path(dataset, "")
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.relative_to(folder).as_posix() not in known:
            yield f"{path} is not part of the data set. Move it elsewhere."


def _check_tables(dataset: Dataset) -> Iterator[str]:
    """Every id of a table that has values has one."""
    for table in dataset.schema.tables:
        dictionary = dataset.dictionary(table.name)
        if dictionary is None:
            continue
        file = _path(dataset, table_file(dataset.schema, table.name, "values"))
        offsets = dictionary.offsets
        if len(dictionary) < table.rows:
            entries, name = len(dictionary), table.name
            yield f"{file} has {entries} values for {table.rows} ids of table {name!r}."
        elif offsets is not None and not Ragged(dictionary.values, offsets).whole:
            file = _path(dataset, table_file(dataset.schema, table.name, "offsets"))
            yield f"{file} does not rise from 0 to the number of bytes in the values."


def _check_part(dataset: Dataset, part: Part, counts: dict[str, Array] | None) -> list[str]:
    """Problems of one part; adds the accesses of its ids to `counts` if there are any."""
    schema, info = dataset.schema, dataset.manifest.parts[part.name]
    manifest = _path(dataset, MANIFEST)
    problems: list[str] = []
    positives = 0.0
    lengths: dict[str, Counter[int]] = {column.name: Counter() for column in schema.lists}
    last_time: int | None = None
    if info.rows != sum(info.shards):
        problems.append(
            f"{manifest} gives {info.rows} examples in {part.name}, its shards have "
            f"{sum(info.shards)}."
        )
    for shard, inputs in enumerate(part.shards):
        for name, ragged in inputs.lists.items():
            if not ragged.whole:
                file = _path(dataset, list_file(schema, part.name, shard, name, "offsets"))
                # The examples of such lists cannot be read.
                return [*problems, f"{file} does not rise from 0 to the number of values."]
        for start in range(0, len(inputs), _AT_ONCE):
            run = inputs.slice(start, min(start + _AT_ONCE, len(inputs)))
            problems += _check_run(dataset, part.name, shard, run, counts)
            positives += float(run.labels.sum(dtype=np.float64))
            for name, ragged in run.lists.items():
                lengths[name].update(np.diff(ragged.offsets).tolist())
            if run.times is not None and len(run):
                before = run.times[0] if last_time is None else last_time
                if np.any(np.diff(run.times, prepend=before) < 0):
                    file = _path(dataset, shard_file(part.name, shard, "times"))
                    problems.append(f"{file} has times that fall.")
                last_time = int(run.times[-1])
    if not np.isclose(positives, info.positives):
        problems.append(
            f"{manifest} gives {info.positives:g} positives in {part.name}, but there are "
            f"{positives:g}."
        )
    for name, column in lengths.items():
        if ListStats.of(column) != info.lists[name]:
            problems.append(
                f"{manifest} gives other lengths for the lists of {name!r} in {part.name} than "
                "there are."
            )
    return list(dict.fromkeys(problems))


def _check_run(
    dataset: Dataset, part: str, shard: int, run: Examples, counts: dict[str, Array] | None
) -> Iterator[str]:
    schema = dataset.schema
    labels = _path(dataset, shard_file(part, shard, "labels"))
    if not np.isin(run.labels, (0, 1)).all():
        yield f"{labels} has labels other than 0 and 1."
    if not np.isfinite(run.dense).all():
        yield f"{_path(dataset, shard_file(part, shard, 'dense'))} has values that are not finite."
    if run.weights is not None and not np.all(np.isfinite(run.weights) & (run.weights >= 0)):
        weights = _path(dataset, shard_file(part, shard, "weights"))
        yield f"{weights} has weights that are negative or not finite."
    for column, ids, _ in run.ids_by_column(schema):
        rows = schema.table(column.table).rows
        outside = first_outside(ids, rows)
        if outside is not None:
            file = shard_file(part, shard, "ids")
            if column.kind != "single":
                file = list_file(schema, part, shard, column.name, "values")
            yield (
                f"{_path(dataset, file)} has id {ids[outside]} in column {column.name!r}, whose "
                f"table has {rows} rows."
            )
        elif counts is not None:
            counts[column.table] += np.bincount(ids, minlength=rows)


def _check_counts(dataset: Dataset, counted: dict[str, Array]) -> Iterator[str]:
    for table, counts in counted.items():
        file = _path(dataset, table_file(dataset.schema, table, "counts"))
        stored = dataset.counts(table)
        if not np.array_equal(stored, counts):
            at = int(np.flatnonzero(stored != counts)[0])
            yield (
                f"{file} gives {stored[at]} accesses to id {at} of table {table!r}, the training "
                f"part has {counts[at]}."
            )
        elif dataset.schema.table(table).ranked and np.any(np.diff(stored) > 0):
            yield f"{file} has counts that rise: the ids of table {table!r} are not ranks."


def _path(dataset: Dataset, name: str) -> Path:
    assert dataset.folder is not None, "a data set that was opened has a folder"
    return dataset.folder / name
