"""Tables in a terminal: as many columns as fit, two lines a row."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from slipstream.commands.terminal import out
from slipstream.report.results import Result
from slipstream.report.table import cells

# What a narrow terminal gives up last comes first.
_FIRST = (
    *("strategy", "speed-up", "change of AUC", "AUC", "inputs/s", "skipped", "to the same AUC"),
    *("bytes moved an input", "found in fast tier", "seeds", "host memory", "device memory"),
)
_GAP = 2
_FEWEST = 3


def show_results(results: Sequence[Result]) -> None:
    """Print the results."""
    names, rows = cells(results, _FIRST)
    show_table(names, rows, _FIRST)


def show_table(names: Sequence[str], rows: Sequence[Sequence[str]], order: Sequence[str]) -> None:
    """Print a table; where not even the first columns fit, a line for each value instead.

    Args:
        names: The headings; the first column says what a row is about.
        rows: A cell under each; what stands after a line end goes into a second line.
        order: What a narrow terminal gives up last comes first.
    """
    columns = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    wide = {name: max(map(_width, (name, *texts))) for name, texts in columns.items()}
    kept: list[str] = []
    for name in (one for one in order if one in columns):
        if sum(wide[one] + _GAP for one in (*kept, name)) <= out.width:
            kept.append(name)
    if len(kept) < min(_FEWEST, len(columns)):
        _one_by_one(columns)
        return
    kept.sort(key=names.index)
    out.print("".join(name.ljust(wide[name] + _GAP) for name in kept).rstrip(), style="bold")
    for number in range(len(rows)):
        for part in (0, 1):
            text = Text()
            for name in kept:
                lines = columns[name][number].split("\n")
                cell = lines[part] if part < len(lines) else ""
                text.append(cell.ljust(wide[name] + _GAP), style="dim" if part else None)
            if text.plain.strip():
                text.rstrip()
                out.print(text, soft_wrap=True)
    missing = [name for name in columns if name not in kept and name != "seeds"]
    if missing:
        out.print(f"A wider terminal also shows: {', '.join(missing)}.", soft_wrap=True)


def _one_by_one(columns: dict[str, list[str]]) -> None:
    first = next(iter(columns))
    for number, label in enumerate(columns[first]):
        out.print(label, style="bold", soft_wrap=True)
        for name, texts in columns.items():
            if name != first and texts[number]:
                out.print(f"  {name}: {texts[number].replace(chr(10), ', ')}", soft_wrap=True)


def _width(text: str) -> int:
    return max(map(len, text.split("\n")))
