"""How many bytes the rows of a model take, and how many a budget allows."""

from __future__ import annotations

import re
from collections.abc import Callable

from slipstream.errors import ConfigError
from slipstream.number_format import parse_size
from slipstream.tables.spec import Layout
from slipstream.tables.store import Record


def row_bytes(layout: Layout) -> list[int]:
    """Bytes of a row of each group, with its optimizer state."""
    return [4 * Record.of(group).words for group in layout.groups]


def all_bytes(layout: Layout) -> int:
    """Bytes of all rows with their optimizer state."""
    sizes = row_bytes(layout)
    return sum(size * group.rows for size, group in zip(sizes, layout.groups, strict=True))


def budget_bytes(
    text: str,
    layout: Layout,
    auto: Callable[[], int] | None = None,
    whole: Callable[[Layout], int] = all_bytes,
) -> int:
    """The bytes of a budget: a size such as `256MiB`, a share of `whole` such as 5%, or auto."""
    plain = text.strip().lower()
    if plain == "auto" and auto is not None:
        return auto()
    share = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*%", plain)
    if share:
        return round(whole(layout) * float(share[1]) / 100)
    size = parse_size(plain)
    if size is None:
        raise ConfigError(
            f"placement.fast_memory is {text!r}. Write a size such as 256MiB, a share such as 5%, "
            "or auto."
        )
    return size
