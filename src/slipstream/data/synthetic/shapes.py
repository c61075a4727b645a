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
        exponent: Of the power law by which they are drawn.
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
        clock: The value is the hour of the input's time.
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
class Shape:
    """A kind of built-in data.

    Args:
        name: What the user calls it.
        tables: The tables.
        columns: The columns; one that depends on another comes after it.
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

    def with_exponent(self, exponent: float) -> Shape:
        """The same shape with one exponent for every table."""
        tables = tuple(replace(table, exponent=exponent) for table in self.tables)
        return replace(self, tables=tables)


def _own_tables(
    sizes: dict[str, int],
    *,
    exponents: dict[str, float] | None = None,
    values: ValueKind = "hex",
    missing: tuple[str, ...] = (),
    mixes: tuple[str, ...] = (),
    numbers: tuple[str, ...] = (),
) -> tuple[tuple[TableShape, ...], tuple[ColumnShape, ...]]:
    """Single columns with a table each."""
    tables = tuple(
        TableShape(
            name,
            rows,
            (exponents or {}).get(name, _exponent(rows)),
            "int" if name in numbers else values,
            name in missing,
        )
        for name, rows in sizes.items()
    )
    columns = tuple(ColumnShape(name, name, mixes=name in mixes) for name in sizes)
    return tables, columns


def _exponent(rows: int) -> float:
    """Small tables are flatter: a handful of values shares the accesses more evenly."""
    return 0.8 if rows < 100 else 1.0 if rows < 100_000 else 1.1


def _small() -> Shape:
    sizes = {"site": 3_000, "app": 800, "device": 60_000, "place": 40, "ad": 6_000}
    tables, columns = _own_tables(sizes, missing=("app",), mixes=("site", "app", "place", "ad"))
    others = (TableShape("hour", 24, values="int"), TableShape("tag", 500, 1.0, "int"))
    columns += (
        ColumnShape("hour", "hour", clock=True),
        ColumnShape("tags", "tag", "mean", (0, 6)),
    )
    return Shape("small", tables + others, columns, positives=0.25, dense=4, seconds=604_800)


def _effects() -> Shape:
    # Effects of single rows and no pairs: learned soon, so that what an input adds falls off.
    sizes = {"user": 5_000, "ad": 2_000, "site": 1_000, "app": 500}
    sizes |= {"device": 200, "region": 100, "place": 40, "slot": 10}
    tables, columns = _own_tables(sizes, exponents=dict.fromkeys(sizes, 1.1))
    return Shape("effects", tables, columns, positives=0.25)


def _criteo_kaggle() -> Shape:
    # Distinct values of the columns C1 to C26 in the Criteo Kaggle training file.
    sizes = [1460, 583, 10131227, 2202608, 305, 24, 12517, 633, 3, 93145, 5683, 8351593, 3194]
    sizes += [27, 14992, 5461306, 10, 5652, 2173, 4, 7046547, 18, 15, 286181, 105, 142572]
    named = {f"C{number}": rows for number, rows in enumerate(sizes, 1)}
    missing = ("C3", "C4", "C12", "C16", "C19", "C20", "C21", "C22", "C24", "C25", "C26")
    mixes = ("C1", "C2", "C7", "C14", "C15", "C17", "C18", "C23")
    tables, columns = _own_tables(named, missing=missing, mixes=mixes)
    return Shape("criteo-kaggle", tables, columns, positives=0.256, dense=13, raw="criteo")


def _avazu() -> Shape:
    sizes = {
        "hour": 24,
        "C1": 7,
        "banner_pos": 7,
        "site_id": 4737,
        "site_domain": 7745,
        "site_category": 26,
        "app_id": 8552,
        "app_domain": 559,
        "app_category": 36,
        "device_id": 2686408,
        "device_ip": 6729486,
        "device_model": 8251,
        "device_type": 5,
        "device_conn_type": 4,
        "C14": 2626,
        "C15": 8,
        "C16": 9,
        "C17": 435,
        "C18": 4,
        "C19": 68,
        "C20": 172,
        "C21": 60,
    }
    coded = tuple(f"C{n}" for n in range(14, 22))
    numbers = ("hour", "C1", "banner_pos", "device_type", "device_conn_type", *coded)
    mixes = ("site_id", "app_id", "device_model", "C14", "C17", "C21")
    # Most devices share one id ("unknown"), while addresses are spread widely.
    exponents = {"device_id": 1.3, "device_ip": 0.9}
    tables, columns = _own_tables(sizes, exponents=exponents, numbers=numbers, mixes=mixes)
    columns = tuple(replace(c, clock=True) if c.name == "hour" else c for c in columns)
    return Shape("avazu", tables, columns, positives=0.17, seconds=864_000, raw="avazu")


def _taobao() -> Shape:
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
    return Shape("taobao", tables, columns, positives=0.5, seconds=777_600, raw="taobao")


SHAPES = {
    shape.name: shape for shape in (_small(), _effects(), _criteo_kaggle(), _avazu(), _taobao())
}


def shape_named(name: str) -> Shape:
    """The shape of that name."""
    if name not in SHAPES:
        raise ConfigError(f"There is no shape {name!r}.{did_you_mean(name, SHAPES)}")
    return SHAPES[name]
