"""Sums, bounds and counts over the rows of many examples, beside the plain way."""

from itertools import chain

import numpy as np
import pytest
from small_runs import skewed

from slipstream.skip.accesses import AccessReader


@pytest.fixture(scope="module")
def read():
    part = skewed(400).train
    reader = AccessReader(part)
    numbers = np.random.default_rng(0).permutation(len(part))[:90]
    return reader, reader.read(numbers), numbers, part


def rows_of(reader, part, number):
    """The rows of one example by table, in the plainest way."""
    (run,) = part.runs(number, number + 1)
    tables = [[] for _ in reader.names]
    for place, column in enumerate(part.schema.singles):
        table = reader.names.index(column.table)
        tables[table].append(int(reader.starts[table] + run.ids[0, place]))
    for column in part.schema.lists:
        table = reader.names.index(column.table)
        tables[table] += [int(reader.starts[table] + v) for v in run.lists[column.name].values]
    return tables


def test_sums_and_largest_are_those_of_the_rows(read):
    reader, accesses, numbers, part = read
    of_rows = np.random.default_rng(1).random(reader.rows).astype(np.float32)
    sums, largest = accesses.sums(of_rows), accesses.largest(of_rows)
    for place, number in enumerate(numbers.tolist()):
        rows = list(chain(*rows_of(reader, part, number)))
        assert sums[place] == pytest.approx(of_rows[rows].astype(float).sum())
        assert largest[place] == of_rows[rows].max()


@pytest.mark.parametrize(("in_table", "in_all"), [(1, 1), (1, 9), (9, 9), (2, 2)])
def test_a_bound_has_so_many_rows_of_so_many_tables_below_it(read, in_table, in_all):
    reader, accesses, numbers, part = read
    of_rows = np.random.default_rng(2).random(reader.rows).astype(np.float32)
    bound_of = accesses.bounds(of_rows, in_table, in_all)
    for place, number in enumerate(numbers.tolist()):
        bounds = [
            sorted(of_rows[rows])[min(in_table, len(rows)) - 1]
            for rows in rows_of(reader, part, number)
            if rows
        ]
        assert bound_of[place] == sorted(bounds)[min(in_all, len(bounds)) - 1]


def test_counts_are_those_of_the_rows_and_labels(read):
    reader, accesses, numbers, part = read
    counts, labels = np.zeros(reader.rows, np.uint32), np.zeros((reader.rows, 2), np.uint32)
    accesses.count(counts)
    accesses.count_labels(labels)
    wanted = np.zeros((reader.rows, 2), np.int64)
    for number in numbers.tolist():
        (run,) = part.runs(number, number + 1)
        for row in chain(*rows_of(reader, part, number)):
            wanted[row] += (1, int(run.labels[0]))
    assert counts.tolist() == wanted[:, 0].tolist()
    assert labels.tolist() == wanted.tolist()
