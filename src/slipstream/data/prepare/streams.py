"""Reads raw files, compressed or not, as blocks of whole lines."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from slipstream.data.prepare.records import LONGEST, has_quoted, layout, whole_records
from slipstream.errors import DataError

_READ = 1 << 20
_LONGEST = 8  # blocks that a single line may take
_PACKED = 1 << 14  # bytes to decompress at once: at most a thousand times as many come out
_GZIP = 31  # of zlib: with a gzip header and checksum
_DAMAGE = (EOFError, zlib.error)
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Block:
    """Some whole lines of a file."""

    file: int  # the number of the file
    data: bytes  # only the last line of a file may lack its end
    line: int  # the number of the first line, from 1
    start: int  # where the block begins in the file's text
    consumed: int  # bytes of the file read so far, still compressed

    @property
    def stop(self) -> int:
        """Where the next block begins in the file's text."""
        return self.start + len(self.data)


def blocks(
    path: Path,
    file: int,
    size: int,
    *,
    start: int = 0,
    line: int = 1,
    rows: tuple[bytes, int] | None = None,
) -> Iterator[Block]:
    """Blocks of about `size` bytes, cut where a line ends: the same ones from any block on.

    `rows` is for files in which quoted fields may hold line ends: the separator and the number of
    fields of a row.
    """
    longest = _LONGEST * size if rows is None else max(_LONGEST * size, 2 * LONGEST)
    with path.open("rb") as raw:
        text = _Text(path, raw)
        text.skip(start)
        data_read, ended = b"", False
        target = size
        while True:
            if len(data_read) < target and not ended:
                more = text.read(target - len(data_read), line)
                ended = len(more) < target - len(data_read)
                data_read += more
            if not data_read:
                return
            # The end of a block depends on where it begins, never on earlier reads.
            last = ended and len(data_read) <= target
            cut = len(data_read) if last else _cut(data_read[:target], start == 0, size, rows)
            if cut == 0:
                if target >= longest:
                    raise DataError(
                        f"{path}, line {line}: a line of more than {target >> 20} MiB. Is this "
                        "the file that you meant?"
                    )
                target *= 2
                continue
            data, data_read, target = data_read[:cut], data_read[cut:], size
            yield Block(file, data, line, start, raw.tell())
            start += len(data)
            line += data.count(b"\n")


def _cut(data: bytes, first: bool, size: int, rows: tuple[bytes, int] | None) -> int:
    """Behind the last line end that ends a row; 0 where there is none."""
    begin = len(_BOM) if first and data.startswith(_BOM) else 0
    if rows is None or not has_quoted(data, rows[0], begin):
        return data.rfind(b"\n") + 1
    rows_found = layout(data[begin:], *rows)
    if rows_found is not None:
        within = int(np.searchsorted(rows_found.ends, size - begin))
        return begin + int(rows_found.ends[max(0, within - 1)]) + 1
    end = whole_records(data, *rows, begin, size)
    return end if end > begin else 0


class _Text:
    """The text of a file, decompressed if needed; an error names the line where damage begins."""

    def __init__(self, path: Path, raw: BinaryIO) -> None:
        self.path, self.raw = path, raw
        self.decoder = _decoder(path)
        self.begun = False
        self.left = b""
        self.pending = b""

    def skip(self, count: int) -> None:
        if self.decoder is None:
            self.raw.seek(count)
            return
        while count:
            piece = self.read(min(count, _READ), None)
            if not piece:
                raise DataError(f"{self.path} has become shorter while it was being prepared.")
            count -= len(piece)

    def read(self, count: int, line: int | None) -> bytes:
        """The next `count` bytes; fewer only at the end."""
        if self.decoder is None:
            return self.raw.read(count)
        pieces, have = [self.left], len(self.left)
        while have < count:
            try:
                piece = self._decoded()
            except Exception as error:
                if not isinstance(error, _DAMAGE) and type(error).__name__ != "ZstdError":
                    raise
                lines = b"".join(pieces).count(b"\n")
                where = "" if line is None else f" after line {line - 1 + lines}"
                raise DataError(
                    f"{self.path} is damaged or cut off{where}: {error}. Download or copy it again."
                ) from None
            if piece is None:
                break
            pieces.append(piece)
            have += len(piece)
        data = b"".join(pieces)
        self.left = data[count:]
        return data[:count]

    def _decoded(self) -> bytes | None:
        """The next piece of text; None at the end."""
        fresh = self.pending or self.raw.read(_PACKED)
        self.pending = b""
        if self.decoder.eof:  # another member may follow, and some programs pad the last one
            fresh = fresh.lstrip(b"\0")
            while not fresh:
                fresh = self.raw.read(_PACKED)
                if not fresh:
                    return None
                fresh = fresh.lstrip(b"\0")
            self.decoder = _decoder(self.path)
        elif not fresh:
            reason = "the compressed data ends before its end mark" if self.begun else "it is empty"
            raise EOFError(reason)
        self.begun = True
        piece: bytes = self.decoder.decompress(fresh)
        if self.decoder.eof:
            self.pending = self.decoder.unused_data
        return piece


def _decoder(path: Path) -> Any:
    suffix = path.suffix.lower()
    if suffix == ".gz":
        return zlib.decompressobj(_GZIP)
    if suffix == ".zst":
        import zstandard

        return zstandard.ZstdDecompressor(max_window_size=1 << 31).decompressobj()
    return None


def first_line(path: Path, size: int) -> tuple[bytes, int]:
    """The first line of a file, and where the second begins; an error where the file is empty."""
    for block in blocks(path, 0, max(1 << 16, size)):
        line, _, _ = block.data.partition(b"\n")
        return line.removeprefix(_BOM).removesuffix(b"\r"), min(len(line) + 1, len(block.data))
    raise DataError(f"{path} is empty. Is it the file that you meant?")


def without_mark(block: Block) -> bytes:
    """The data of a block, without the byte order mark that some programs begin a file with."""
    return block.data.removeprefix(_BOM) if block.start == 0 else block.data
