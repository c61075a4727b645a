"""The rows of all tables as they were at one step, read while training goes on changing them.

Copying the tables to save them would take their memory a second time. Instead a reader goes through
the rows from first to last. Before the training thread changes rows, it calls `keep`, which copies
the old records of those that the reader has not read yet. So the reader sees the rows as they were
at the step when `FrozenRows` was created:

- A row may only be changed after a `keep` that names it has returned. `keep` copies the record
  unless it has been kept before or is already read. The first `keep` of a row comes before its
  first change, so a kept record is as it was at that step.
- The reader copies a range of rows without a lock, and what it copies may be half changed. Then it
  moves the mark of what is read past the range, under the lock that `keep` also holds.
- A row of the range that was kept before the mark moved: its copy may be anything, and is replaced
  by the kept record.
- A row of the range that was not kept before the mark moved: `keep` for it has not returned yet, so
  it had not been changed when it was copied. The copy is right, and later `keep`s leave it out.

After the mark has moved, nothing is kept for the range any more, so the replacing needs no lock:
training waits for the reader no longer than it takes to move the mark.
"""

from __future__ import annotations

import threading

import numpy as np

from slipstream.arrays import Array
from slipstream.tables.store import RowStore, in_memory

_FIRST_BLOCK = 1 << 12
_WIDE = 2**31  # from so many rows on a place takes 8 bytes


class FrozenRows:
    """The rows of a store as they are at the moment when this is created.

    It takes at most 4 bytes for each row (8 for 2^31 rows or more), and one record for each
    distinct row that is changed before it is read. Both are used as rows change, and freed once
    the last row is read.
    """

    def __init__(self, store: RowStore) -> None:
        self._store = store
        self._rows = store.group.rows
        self._lock = threading.Lock()
        self._read = 0  # rows below it are read
        self._copied = 0
        self._blocks: list[Array] = []  # of kept records, each twice as long as the one before
        # The place of a row's kept record, counted from 1; what is not above 0 is none.
        words = 1 if self._rows < _WIDE else 2
        self._place = in_memory((self._rows, words)).view(f"i{4 * words}")[:, 0]

    def keep(self, rows: Array) -> None:
        """To be called before rows change; if it raises, they must stay as they are.

        Rows come in any order, also more than once. Negative numbers are ignored.
        """
        if self._read >= self._rows:
            return
        with self._lock:
            if self._read >= self._rows:
                return
            rows = rows[rows >= self._read]
            fresh = rows[self._place[rows] <= 0]
            if len(fresh):
                fresh = self._once(fresh)
                self._append(fresh)
                first = self._copied + 1
                # In this order: an interrupt between the two leaves no place to be given twice.
                self._copied += len(fresh)
                self._place[fresh] = np.arange(first, first + len(fresh))

    def read(self, start: int, stop: int, out: dict[str, Array]) -> None:
        """Put the fields of rows `start` to `stop` into `out`; one reader takes all in order."""
        assert start == self._read, "rows are read in order"
        for name, values in self._store.record.split(self._store.records[start:stop]).items():
            np.copyto(out[name], values)
        with self._lock:
            self._read = stop
            blocks = list(self._blocks)
        place = self._place[start:stop]
        changed = np.flatnonzero(place > 0)
        place = place[changed] - 1
        for number, block in enumerate(blocks):
            first = _first_place(number)
            here = (place >= first) & (place < first + len(block))
            records = self._store.record.split(block[place[here] - first])
            for name, values in records.items():
                out[name][changed[here]] = values
        if stop == self._rows:
            with self._lock:
                self._blocks, self._place = [], self._place[:0]

    def _once(self, rows: Array) -> Array:
        """Each row once: the last to write its mark. Several times faster than sorting."""
        marks = np.arange(-len(rows), 0)
        self._place[rows] = marks
        return rows[self._place[rows] == marks]

    def _append(self, rows: Array) -> None:
        """Copy records into the places after those that are taken."""
        done = 0
        while done < len(rows):
            place = self._copied + done
            number = (place // _FIRST_BLOCK + 1).bit_length() - 1
            if number == len(self._blocks):
                # Pages of it that are not written yet take no memory.
                shape = (_FIRST_BLOCK << number, self._store.record.words)
                self._blocks.append(in_memory(shape))
            block, first = self._blocks[number], place - _first_place(number)
            part = rows[done : done + len(block) - first]
            target = block[first : first + len(part)]
            # "clip" writes straight into the target; the rows are known to be in range.
            np.take(self._store.records, part, axis=0, out=target, mode="clip")
            done += len(part)


def _first_place(block: int) -> int:
    return _FIRST_BLOCK * ((1 << block) - 1)
