"""`slipstream ablate`: which block of skipping does what, on this data."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from slipstream.commands.compare import again, terminated_is_interrupted
from slipstream.commands.terminal import print_line, warn
from slipstream.errors import ConfigError, did_you_mean

if TYPE_CHECKING:  # torch takes seconds to import
    from slipstream.ablate.ablation import Ablation
    from slipstream.compare.runner import Event

GROUPS = ("blocks", "rules", "thresholds", "models")
MODELS = "dlrm,deepfm,dcn"
# What a narrow terminal gives up last comes first.
_FIRST = (
    *("line", "change of AUC", "beside random", "skipped", "time saved", "beside random-hot"),
    *("seeds", "AUC", "calibration"),
)
_UNITS = {"s": 1, "min": 60, "h": 3600}


def ablate(
    data: Path = typer.Argument(..., metavar="DATA", help="The folder of the data set."),
    to: Path = typer.Option(..., "--out", metavar="DIR", help="The folder of the ablation."),
    budget: str | None = typer.Option(
        None, metavar="TIME", help="Begin nothing that would not be through within 30min, 2h, 90s."
    ),
    seeds: int = typer.Option(3, min=1, help="How many."),
    models: str = typer.Option(
        MODELS, metavar="NAMES", help="The first stands in all lines but those about models."
    ),
    only: str | None = typer.Option(
        None, metavar="GROUPS", help=f"With commas between. Default: {','.join(GROUPS)}."
    ),
    config: Path | None = typer.Option(None, metavar="FILE", help="A YAML file as for train."),
    batch_size: int | None = typer.Option(None, help="Inputs of a step. Default: 2048."),
    limit: int | None = typer.Option(None, help="Train on the first inputs only."),
    settings: list[str] = typer.Option(
        [], "--set", metavar="KEY=VALUE", help="Any key of the config, for all runs."
    ),
    force: bool = typer.Option(False, "--force", help="Begin anew where there is an ablation."),
) -> None:
    """Train with each block of skipping on and off, and say what each costs and saves.

    Lines are the published method with one block changed, every rule, thresholds swept, and other
    models. Each is trained beside training on everything and beside controls that skip as much at
    the same times by chance, with the same seeds. The runs that say most come first: stop it at any
    time, and the same command goes on. What comes out is in DIR: ablation.md, .csv and .json,
    report.html, and a folder for each run.

    Example: slipstream ablate clicks --budget 30min --out ablated
    """
    from slipstream.ablate.ablation import Ablation
    from slipstream.compare.asked import asked

    seconds = None if budget is None else parse_time(budget)
    flags = {"data": str(data), "batch_size": batch_size, "limit": limit}
    base, _, _ = asked(config, flags, settings, {})
    names = [name.strip() for name in models.split(",") if name.strip()]
    if not names:
        raise ConfigError("No model is named. Leave --models out, or name one.")
    ablation = Ablation(base, names, seeds, to, _groups(only))
    ablation.check(warn)
    failed = _train(ablation, force=force, seconds=seconds)
    _tell(ablation)
    if failed:
        raise typer.Exit(1)


def _train(ablation: Ablation, *, force: bool, seconds: float | None) -> bool:
    """Train, and write what there is also where it is stopped; whether anything failed."""
    from slipstream.commands.compare_progress import ComparisonState, compare_progress, show_end

    standing = ComparisonState(ablation.folder, [] if force else ablation.runs)

    def look() -> None:
        standing.runs, standing.more = ablation.runs, ablation.unknown_controls
        standing.titles = ablation.titles

    look()
    try:
        with terminated_is_interrupted(), compare_progress(standing) as shown:

            def tell(event: Event) -> None:
                if event.state == "ended":  # its controls have come to be known
                    look()
                shown(event)

            failed = ablation.train(tell, force=force, seconds=seconds)
    except KeyboardInterrupt:
        _tell(ablation)
        raise KeyboardInterrupt(f"Stopped; {standing.summary()}. To go on: {again()}") from None
    return show_end(standing, failed, again())


def _tell(ablation: Ablation) -> None:
    from slipstream.ablate.table import HEADS, cells, notes
    from slipstream.commands.terminal import table

    rows = ablation.write(page=True)
    for group in dict.fromkeys(row.group for row in rows):
        print_line(f"\n{group}", style="bold")
        mine = [row for row in rows if row.group == group]
        table("", HEADS, [cells(row) for row in mine], _FIRST)
        for note in notes(mine):
            print_line(note)
    if rows:
        print_line()
        print_line(f"The table is in {ablation.folder.path / 'ablation.md'}.")


def parse_time(text: str) -> float:
    """Seconds of a time as people write it.

    Example:
        >>> parse_time("30min"), parse_time("1.5 h"), parse_time("90s")
        (1800.0, 5400.0, 90.0)
    """
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(s|min|h)\s*", text)
    if found is None:
        raise ConfigError(f"{text!r} is no time; write 30min, 2h or 90s.")
    return float(found[1]) * _UNITS[found[2]]


def _groups(only: str | None) -> list[str] | None:
    if only is None:
        return None
    names = [name.strip() for name in only.split(",") if name.strip()]
    wrong = next((name for name in names if name not in GROUPS), None)
    if wrong is not None or not names:
        raise ConfigError(
            f"There are no lines about {wrong or only!r}.{did_you_mean(wrong or '', GROUPS)}"
        )
    return names
