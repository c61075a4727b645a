"""The shapes of built-in data: which columns there are, how large their tables, how skewed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from slipstream.data.schema import Kind, ValueKind
from slipstream.errors import ConfigError, did_you_mean


@dataclass(frozen=True)
class TableShape:
    """A table before anything is drawn: values are drawn from `rows` by a power law."""

    name: str
    rows: int
    exponent: float = 1.1
    values: ValueKind = "hex"
    missing: bool = False  # whether the second most popular value stands for a missing one


@dataclass(frozen=True)
class ColumnShape:
    """A column before anything is drawn."""

    name: str
    table: str
    kind: Kind = "single"
    lengths: tuple[int, int] = (1, 1)  # the shortest and the longest list
    favourites_of: str | None = None  # each value of that column has favourites to return to
    decided_by: str | None = None  # that column's value decides this one's: an item its category
    clock: bool = False  # the value is the hour of the example's time
    mixes: bool = False  # whether the column has pairwise effects


@dataclass(frozen=True)
class DataShape:
    """A kind of built-in data; a column that depends on another comes after it."""

    name: str
    tables: tuple[TableShape, ...]
    columns: tuple[ColumnShape, ...]
    positives: float  # the share of positive labels unless the user chooses another
    dense: int = 0  # how many dense values
    seconds: int = 0  # the time that the log covers; 0 if it has no times

    def with_exponent(self, exponent: float) -> DataShape:
        """The same shape with one exponent for every table."""
        tables = tuple(replace(table, exponent=exponent) for table in self.tables)
        return replace(self, tables=tables)


def _own_tables(
    names: str, rows: list[int], *, missing: str = "", mixes: str = ""
) -> tuple[tuple[TableShape, ...], tuple[ColumnShape, ...]]:
    """Single columns with a table each; some have a missing value, or pairwise effects."""
    sizes = dict(zip(names.split(), rows, strict=True))
    tables = tuple(
        TableShape(name, size, _exponent(size), missing=name in missing.split())
        for name, size in sizes.items()
    )
    return tables, tuple(ColumnShape(name, name, mixes=name in mixes.split()) for name in sizes)


def _exponent(rows: int) -> float:
    """Small tables are flatter: a handful of values shares the accesses more evenly."""
    return 0.8 if rows < 100 else 1.0 if rows < 100_000 else 1.1


def _small() -> DataShape:
    rows = [3_000, 800, 60_000, 40, 6_000]
    mixes = "site app place ad"
    tables, columns = _own_tables("site app device place ad", rows, missing="app", mixes=mixes)
    tables += (TableShape("hour", 24, values="int"), TableShape("tag", 500, 1.0, "int"))
    columns += (ColumnShape("hour", "hour", clock=True),)
    columns += (ColumnShape("tags", "tag", "mean", (0, 6)),)
    return DataShape("small", tables, columns, positives=0.25, dense=4, seconds=604_800)


def _effects() -> DataShape:
    # Effects of single rows and no pairs: learned soon, so that each further example adds less.
    names = "user ad site app device region place slot"
    tables, columns = _own_tables(names, [5_000, 2_000, 1_000, 500, 200, 100, 40, 10])
    return DataShape("effects", tables, columns, positives=0.25).with_exponent(1.1)


def _criteo_kaggle() -> DataShape:
    # Distinct values of the columns C1 to C26 in the Criteo Kaggle training file.
    rows = [1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194]
    rows += [27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572]
    tables, columns = _own_tables(
        " ".join(f"C{number}" for number in range(1, 27)),
        rows,
        missing="C3 C4 C12 C16 C19 C20 C21 C22 C24 C25 C26",
        mixes="C1 C2 C7 C14 C15 C17 C18 C23",
    )
    return DataShape("criteo-kaggle", tables, columns, positives=0.256, dense=13)


def _taobao() -> DataShape:
    tables = (
        TableShape("user", 987_994, 0.6, "int"),
        TableShape("item", 4_162_024, 1.05, "int"),
        TableShape("category", 9_439, 1.0, "int"),
    )
    history = (1, 20)
    columns = (
        ColumnShape("user", "user"),
        ColumnShape("item", "item", favourites_of="user", mixes=True),
        ColumnShape("category", "category", decided_by="item", mixes=True),
        ColumnShape("items", "item", "sequence", history, favourites_of="user", mixes=True),
        ColumnShape("categories", "category", "sequence", history, decided_by="items", mixes=True),
    )
    return DataShape("taobao", tables, columns, positives=0.5, seconds=777_600)


SHAPES = {shape.name: shape for shape in (_small(), _effects(), _criteo_kaggle(), _taobao())}


def shape_named(name: str) -> DataShape:
    """The shape of that name."""
    if name not in SHAPES:
        raise ConfigError(f"There is no shape {name!r}.{did_you_mean(name, SHAPES)}")
    return SHAPES[name]
