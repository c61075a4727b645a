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
    to: Path = typer.Option(..., "--out", metavar="DIR", help="The folder to create."),
    schema: Path | None = typer.Option(None, help="The schema file, for the format table."),
    history: int | None = typer.Option(None, min=0, help="Taobao: history length. Default: 20."),
    negatives: int | None = typer.Option(
        None, min=0, help="Taobao: negative examples for each event. Default: 1."
    ),
    sort: bool = typer.Option(False, "--sort", help="Sort the rows by time."),
    split: str = typer.Option("time", help="How to split into parts: time, or random with --seed."),
    validation: str = typer.Option("0.05", help="Size of validation: a share, or day."),
    evaluation: str = typer.Option("0.10", help="Size of evaluation: a share, or day."),
    seed: int | None = typer.Option(None, help="Seed of random splits and negatives. Default: 0."),
    min_count: int = typer.Option(2, help="Values that occur less often in training share one id."),
    max_rows: int | None = typer.Option(
        None, help="The most rows of a table; rarer values share hash buckets."
    ),
    hash: int | None = typer.Option(None, help="Hash values to so many rows; no dictionary."),
    dictionary: Path | None = typer.Option(None, help="Use the ids of this data set."),
    extend: bool = typer.Option(False, "--extend", help="Add new values to the --dictionary."),
    memory: str = typer.Option("2G", help="The most memory to use, such as 512M."),
    bad_rows: str = typer.Option("error", help="For rows that cannot be read: error, or skip."),
    max_bad: int | None = typer.Option(None, help="With skip: the most bad rows. Default: 1000."),
    force: bool = typer.Option(False, "--force", help="Replace an existing data set."),
) -> None:
    """Convert raw click logs to a packed data set, with limited memory.

    If it is interrupted, run the same command again: it continues where it stopped.

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
    spec = log_spec(format, chosen | {"seed": seed if draws else None})
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
    seconds, manifest = time.perf_counter() - begun, read_manifest(to)
    read, bad = manifest.source["rows_read"], manifest.source["rows_set_aside"]
    parts = ", ".join(f"{part.rows:,} {name}" for name, part in manifest.parts.items())
    print_line(
        f"{to}: {read:,} rows read, {bad:,} set aside; examples: {parts}; in {seconds:.1f} s "
        f"({compact(read / seconds)} rows/s)"
    )


def _share(name: str, text: str) -> float | str:
    if text == "day":
        return text
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{name} is {text!r}; give a share from 0 to 1, or day.") from None
