"""The table of an ablation: each line beside training on everything, and beside its controls."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from slipstream.ablate.lines import CONTROLS, Line
from slipstream.number_format import signed
from slipstream.report.statistics import Interval, difference, interval

HEADS = (
    *("line", "skipped", "AUC", "change of AUC", *(f"beside {one}" for one in CONTROLS)),
    *("calibration", "time saved", "seeds"),
)


class Ended(NamedTuple):
    """What came out of a line with a seed.

    Args:
        seed: The seed.
        line: Its summary, with the `inputs_per_second` that it went through, skipped ones counted.
        base: That of training on everything.
        controls: Those of its controls that have ended, by rule.
    """

    seed: int
    line: dict[str, Any]
    base: dict[str, Any]
    controls: dict[str, dict[str, Any]]


class Row(NamedTuple):
    """A line of the table.

    Args:
        group: What it is about.
        name: Within its group.
        skipped: The mean share of inputs that was skipped.
        auc: The mean AUC.
        change: Its difference from training on everything, over the same seeds.
        beside: For each control, the difference of AUC from it, over the same seeds.
        controls: For each control, the mean share that it skipped.
        calibration: Mean prediction over the share of positives.
        time_saved: The share of the time of training on everything that was not needed.
        seeds: With how many seeds.
        frozen: The mean share of row updates that was left out, by a rule that freezes rows.
        why_nothing: Where no seed skipped anything though it was to: why, as the first run says.
    """

    group: str
    name: str
    skipped: float
    auc: float | None
    change: Interval | None
    beside: dict[str, Interval]
    controls: dict[str, float]
    calibration: float | None
    time_saved: float
    seeds: int
    frozen: float = 0.0
    why_nothing: str = ""


def rows_of(lines: Sequence[tuple[Line, Sequence[Ended]]]) -> list[Row]:
    """A row for each line with a seed that has ended."""
    return [_row(line, ended) for line, ended in lines if ended]


def _row(line: Line, ended: Sequence[Ended]) -> Row:
    mine, base = ({one.seed: of(one) for one in ended} for of in (_line, _base))
    beside, shares = {}, {}
    for rule in line.controls:
        theirs = {one.seed: one.controls[rule] for one in ended if rule in one.controls}
        found = difference(_auc(mine), _auc(theirs))
        if found is not None:
            beside[rule] = found
            shares[rule] = _mean([one["skip_share"] for one in theirs.values()])
    scores = list(_auc(mine).values())
    calibrated = [c for one in mine.values() if (c := one.get("calibration")) is not None]
    ratios = [
        base[seed]["inputs_per_second"] / one["inputs_per_second"] for seed, one in mine.items()
    ]
    return Row(
        line.group,
        line.name,
        _mean([one["skip_share"] for one in mine.values()]),
        _mean(scores) if scores else None,
        difference(_auc(mine), _auc(base)),
        beside,
        shares,
        _mean(calibrated) if calibrated else None,
        1 - _mean(ratios),
        len(ended),
        _mean([_skipping(one).get("row_updates_frozen") or 0.0 for one in mine.values()]),
        _why_nothing(list(mine.values())),
    )


def _skipping(summary: dict[str, Any]) -> dict[str, Any]:
    return summary.get("skipping") or {}


def _why_nothing(summaries: Sequence[dict[str, Any]]) -> str:
    """Why the first of some runs was to skip and did not; nothing, where one of them did."""
    about = _skipping(summaries[0])
    if not about or any(one["skip_share"] for one in summaries) or about.get("row_updates_frozen"):
        return ""
    return about.get("why_nothing") or "decisions skipped no input"


def _line(one: Ended) -> dict[str, Any]:
    return one.line


def _base(one: Ended) -> dict[str, Any]:
    return one.base


def _auc(summaries: dict[int, dict[str, Any]]) -> dict[int, float]:
    return {seed: one["auc"] for seed, one in summaries.items() if one["auc"] is not None}


def _mean(values: Sequence[float]) -> float:
    return interval(values).mean


def cells(row: Row) -> list[str]:
    """What a row shows under each heading, and after a line end how sure that is."""
    return [
        row.name,
        f"{row.frozen:.1%}\nof row updates" if row.frozen else f"{row.skipped:.1%}",
        "undefined" if row.auc is None else f"{row.auc:.5f}",
        _told(row.change),
        *(_told(row.beside.get(rule)) for rule in CONTROLS),
        "" if row.calibration is None else f"{row.calibration:.3f}",
        f"{row.time_saved:.0%}",
        str(row.seeds),
    ]


def notes(rows: Sequence[Row]) -> list[str]:
    """What the cells of some rows do not say: why nothing was skipped, the same reason once."""
    said: dict[str, list[str]] = {}
    for row in rows:
        if row.why_nothing:
            said.setdefault(row.why_nothing, []).append(row.name)
    return [f"Nothing was skipped by {'; '.join(names)}: {why}." for why, names in said.items()]


def _told(one: Interval | None) -> str:
    """A difference, how sure it is, and in a word what follows."""
    if one is None:
        return ""
    if one.high is None:
        return f"{signed(one.mean, 5)}\none seed"
    if one.verdict() == "same":
        return "0"
    word = ", noise" if one.verdict() == "noise" else ""
    return f"{signed(one.mean, 5)}\n± {signed(one.high - one.mean, 5, plus=False)}{word}"


def as_markdown(rows: Sequence[Row]) -> str:
    """All rows, a table for each group."""
    parts = []
    for group in dict.fromkeys(row.group for row in rows):
        lines = [HEADS, ["---", *["---:"] * (len(HEADS) - 1)]]
        mine = [cells(row) for row in rows if row.group == group]
        lines += [[cell.replace("\n", " ") for cell in row] for row in mine]
        table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        said = [f"- {note}\n" for note in notes([row for row in rows if row.group == group])]
        parts.append("".join([f"### {group}\n\n{table}\n", *(["\n", *said] if said else [])]))
    return "\n".join(parts)


def as_json(rows: Sequence[Row]) -> str:
    """All rows with their numbers in full."""

    def told(one: Interval | None) -> dict[str, Any] | None:
        return None if one is None else one._asdict()

    made = [
        row._asdict()
        | {"change": told(row.change)}
        | {"beside": {rule: told(one) for rule, one in row.beside.items()}}
        for row in rows
    ]
    return json.dumps(made, indent=2) + "\n"


def as_csv(rows: Sequence[Row]) -> str:
    """A line for each row, numbers in full; empty where there is none."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    compared = ["change", *CONTROLS]
    ends = [f"{name}{end}" for name in compared for end in ("", "_low", "_high")]
    first = ["group", "line", "seeds", "skip_share", "auc", "calibration", "time_saved"]
    writer.writerow([*first, *ends, "row_updates_frozen", "why_nothing"])
    for row in rows:
        found = [row.change, *(row.beside.get(rule) for rule in CONTROLS)]
        numbers = [n for one in found for n in (one[:3] if one else (None, None, None))]
        plain = [row.group, row.name, row.seeds, row.skipped, row.auc, row.calibration]
        cells = [*plain, row.time_saved, *numbers, row.frozen, row.why_nothing]
        writer.writerow(["" if cell is None else cell for cell in cells])
    return file.getvalue()
