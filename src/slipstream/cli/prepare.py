"""`slipstream prepare`: raw click logs become a packed data set."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import typer

from slipstream.cli.terminal import print_line, progress
from slipstream.errors import ConfigError
from slipstream.number_format import compact, parse_size_option


def prepare(
    format: str = typer.Argument(..., help="criteo, avazu, taobao or table."),
    inputs: list[Path] = typer.Argument(None, metavar="INPUT...", help="Files, in time order."),
    to: Path = typer.Option(..., "--out", metavar="DIR", help="The folder to make."),
    schema: Path | None = typer.Option(None, help="For table: the schema file."),
    history: int | None = typer.Option(None, min=0, help="For taobao: earlier items. Default: 20."),
    negatives: int | None = typer.Option(
        None, min=0, help="For taobao: for each event. Default: 1."
    ),
    sort: bool = typer.Option(False, "--sort", help="Sort by time."),
    split: str = typer.Option("time", help="time, or random with --seed."),
    validation: str = typer.Option("0.05", help="A share, or day: the last before evaluation."),
    evaluation: str = typer.Option("0.10", help="A share, or day: the last one."),
    seed: int | None = typer.Option(
        None, help="Of random splits; of taobao's negatives. Default: 0."
    ),
    min_count: int = typer.Option(2, help="Values seen less often in training share one id."),
    max_rows: int | None = typer.Option(None, help="Of a table; the tail shares hashed buckets."),
    hash: int | None = typer.Option(None, help="Hash to so many buckets, without a dictionary."),
    dictionary: Path | None = typer.Option(None, help="A data set whose ids to use."),
    extend: bool = typer.Option(False, "--extend", help="New values get ids behind those."),
    memory: str = typer.Option("2G", help="The most anonymous memory, such as 512M."),
    bad_rows: str = typer.Option("error", help="error, or skip: set bad rows aside."),
    max_bad: int | None = typer.Option(None, help="With skip: the most bad rows. Default: 1000."),
    force: bool = typer.Option(False, "--force", help="Replace a data set that is there."),
) -> None:
    """Make a packed data set of raw click logs, in bounded memory; if killed, run it again.

    Example: slipstream prepare criteo train.txt --out clicks
    """
    from slipstream.data.formats import log_spec
    from slipstream.data.manifest import read_manifest
    from slipstream.data.prepare import Options
    from slipstream.data.prepare import prepare as run

    if Path(format).is_file():
        raise ConfigError(
            f"{format} is a file; say first what kind of log it is: slipstream prepare table "
            f"{format} --schema FILE --out {to}, or criteo, avazu or taobao instead of table."
        )
    if not inputs:
        raise ConfigError(f"Name the files of the log: slipstream prepare {format} FILE --out {to}")
    draws = format == "taobao" and negatives != 0
    chosen = {"schema": schema, "history": history, "negatives": negatives}
    chosen["seed"] = seed if draws else None
    spec = log_spec(format, chosen)
    if sort:
        if spec.time is None:
            raise ConfigError(f"{format} logs have no time to sort by: leave out --sort.")
        spec = replace(spec, sort=True)
    options = Options(
        min_count=min_count,
        max_rows=max_rows,
        hash=hash,
        split=split,  # type: ignore[arg-type]
        validation=_share("validation", validation),  # type: ignore[arg-type]
        evaluation=_share("evaluation", evaluation),  # type: ignore[arg-type]
        seed=None if draws and split != "random" else seed,
        memory=parse_size_option("--memory", memory),
        bad_rows=bad_rows,  # type: ignore[arg-type]
        max_bad=max_bad,
        dictionary=dictionary,
        extend=extend,
    )
    begun = time.perf_counter()
    with progress("rows") as update:
        run(spec, inputs, to, options, force=force, progress=update)
    seconds = time.perf_counter() - begun
    made = read_manifest(to)
    read, aside = made.source["rows_read"], made.source["rows_set_aside"]
    parts = ", ".join(f"{part.rows:,} {name}" for name, part in made.parts.items())
    print_line(
        f"{to}: {read:,} rows read, {aside:,} set aside; examples: {parts}; in {seconds:.1f} s "
        f"({compact(read / seconds)} rows/s)"
    )


def _share(name: str, text: str) -> float | str:
    if text == "day":
        return text
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{name} is {text!r}; give a share from 0 to 1, or day.") from None
