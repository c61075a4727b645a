"""The shapes of built-in data: which columns there are, how large their tables, how skewed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from slipstream.data.schema import Kind, ValueKind
from slipstream.errors import ConfigError, did_you_mean


@dataclass(frozen=True)
class TableShape:
    """A table before anything is drawn.

    Args:
        name: The table's name.
        rows: How many values there are to draw from.
        exponent: The exponent of the power law by which they are drawn.
        values: How raw values look.
        missing: Whether the second most popular value stands for a missing one.
    """

    name: str
    rows: int
    exponent: float = 1.1
    values: ValueKind = "hex"
    missing: bool = False


@dataclass(frozen=True)
class ColumnShape:
    """A column before anything is drawn.

    Args:
        name: The column's name.
        table: The table that it draws from.
        kind: single, sum, mean or sequence.
        lengths: The shortest and longest list, for a list column.
        favourites_of: A column whose values have favourites here that they return to.
        decided_by: A column whose value decides this one's (an item its category).
        clock: The value is the hour of the example's time.
        mixes: Whether the column has pairwise effects.
    """

    name: str
    table: str
    kind: Kind = "single"
    lengths: tuple[int, int] = (1, 1)
    favourites_of: str | None = None
    decided_by: str | None = None
    clock: bool = False
    mixes: bool = False


@dataclass(frozen=True)
class DataShape:
    """A kind of built-in data.

    A column that depends on another comes after it.

    Args:
        name: What the user calls it.
        tables: The tables.
        columns: The columns.
        positives: The share of positive labels unless the user chooses another.
        dense: How many dense values.
        seconds: The time that the log covers; 0 if it has no times.
        raw: The raw format that it can be written in.
    """

    name: str
    tables: tuple[TableShape, ...]
    columns: tuple[ColumnShape, ...]
    positives: float
    dense: int = 0
    seconds: int = 0
    raw: str | None = None

    def with_exponent(self, exponent: float) -> DataShape:
        """The same shape with one exponent for every table."""
        tables = tuple(replace(table, exponent=exponent) for table in self.tables)
        return replace(self, tables=tables)


def _own_tables(
    sizes: dict[str, int],
    *,
    exponents: dict[str, float] | None = None,
    numbers: str = "",
    missing: str = "",
    mixes: str = "",
) -> tuple[tuple[TableShape, ...], tuple[ColumnShape, ...]]:
    """Single columns with a table each.

    Args:
        sizes: The rows of each table.
        exponents: Exponents that differ from those for the table's size.
        numbers: The tables whose raw values are whole numbers.
        missing: The tables with a missing value.
        mixes: The columns with pairwise effects.
    """
    exponents = {name: _exponent(rows) for name, rows in sizes.items()} | (exponents or {})
    tables = tuple(
        TableShape(
            name,
            rows,
            exponents[name],
            "int" if name in numbers.split() else "hex",
            name in missing.split(),
        )
        for name, rows in sizes.items()
    )
    return tables, tuple(ColumnShape(name, name, mixes=name in mixes.split()) for name in sizes)


def _exponent(rows: int) -> float:
    """Small tables are flatter: a handful of values shares the accesses more evenly."""
    return 0.8 if rows < 100 else 1.0 if rows < 100_000 else 1.1


def _sizes(names: str, rows: list[int]) -> dict[str, int]:
    return dict(zip(names.split(), rows, strict=True))


def _small() -> DataShape:
    sizes = _sizes("site app device place ad", [3_000, 800, 60_000, 40, 6_000])
    tables, columns = _own_tables(sizes, missing="app", mixes="site app place ad")
    tables += (TableShape("hour", 24, values="int"), TableShape("tag", 500, 1.0, "int"))
    columns += (ColumnShape("hour", "hour", clock=True),)
    columns += (ColumnShape("tags", "tag", "mean", (0, 6)),)
    return DataShape("small", tables, columns, positives=0.25, dense=4, seconds=604_800)


def _effects() -> DataShape:
    # Effects of single rows and no pairs: learned soon, so that each further example adds less.
    names = "user ad site app device region place slot"
    sizes = _sizes(names, [5_000, 2_000, 1_000, 500, 200, 100, 40, 10])
    tables, columns = _own_tables(sizes, exponents=dict.fromkeys(sizes, 1.1))
    return DataShape("effects", tables, columns, positives=0.25)


def _criteo_kaggle() -> DataShape:
    # Distinct values of the columns C1 to C26 in the Criteo Kaggle training file.
    rows = [1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194]
    rows += [27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572]
    tables, columns = _own_tables(
        {f"C{number}": n for number, n in enumerate(rows, 1)},
        missing="C3 C4 C12 C16 C19 C20 C21 C22 C24 C25 C26",
        mixes="C1 C2 C7 C14 C15 C17 C18 C23",
    )
    return DataShape("criteo-kaggle", tables, columns, positives=0.256, dense=13, raw="criteo")


def _avazu() -> DataShape:
    names = "hour C1 banner_pos site_id site_domain site_category app_id app_domain app_category "
    names += "device_id device_ip device_model device_type device_conn_type "
    names += "C14 C15 C16 C17 C18 C19 C20 C21"
    rows = [24, 7, 7, 4737, 7745, 26, 8552, 559, 36, 2686408, 6729486, 8251, 5, 4]
    rows += [2626, 8, 9, 435, 4, 68, 172, 60]
    tables, columns = _own_tables(
        _sizes(names, rows),
        # Most devices share one id ("unknown"), while addresses are spread widely.
        exponents={"device_id": 1.3, "device_ip": 0.9},
        numbers="hour C1 banner_pos device_type device_conn_type C14 C15 C16 C17 C18 C19 C20 C21",
        mixes="site_id app_id device_model C14 C17 C21",
    )
    columns = tuple(replace(c, clock=True) if c.name == "hour" else c for c in columns)
    return DataShape("avazu", tables, columns, positives=0.17, seconds=864_000, raw="avazu")


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
    return DataShape("taobao", tables, columns, positives=0.5, seconds=777_600, raw="taobao")


SHAPES = {
    shape.name: shape for shape in (_small(), _effects(), _criteo_kaggle(), _avazu(), _taobao())
}


def shape_named(name: str) -> DataShape:
    """The shape of that name."""
    if name not in SHAPES:
        raise ConfigError(f"There is no shape {name!r}.{did_you_mean(name, SHAPES)}")
    return SHAPES[name]
