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
    format: str = typer.Argument(
        ..., help="criteo, avazu, taobao, or table for any CSV, TSV or Parquet file."
    ),
    inputs: list[Path] = typer.Argument(
        None, metavar="INPUT...", help="The files of the log, in the order of time."
    ),
    to: Path = typer.Option(..., "--out", metavar="DIR", help="The folder to create."),
    schema: Path | None = typer.Option(None, help="For table: describes it; see docs/prepare.md."),
    history: int | None = typer.Option(
        None, min=0, help="For taobao: earlier items of the user in an example. Default: 20."
    ),
    negatives: int | None = typer.Option(
        None, min=0, help="For taobao: examples without a click for each click. Default: 1."
    ),
    sort: bool = typer.Option(False, "--sort", help="Sort the lines by time."),
    split: str = typer.Option("time", help="How to choose the parts: by time, or random."),
    validation: str = typer.Option(
        "0.05",
        help="Size of the validation part: a share, or day for the last day before evaluation.",
    ),
    evaluation: str = typer.Option(
        "0.10", help="Size of the evaluation part: a share, or day for the last day."
    ),
    seed: int | None = typer.Option(
        None, help="Seed for --split random and for --negatives. Default: 0."
    ),
    min_count: int = typer.Option(
        2, help="Values that occur fewer times than this in training share one id."
    ),
    max_rows: int | None = typer.Option(
        None, help="Limit of the rows of a table; the rarest values share rows by their hash."
    ),
    hash: int | None = typer.Option(
        None, help="Give each table this number of rows; values share them by their hash."
    ),
    dictionary: Path | None = typer.Option(None, help="Use the ids of this data set."),
    extend: bool = typer.Option(
        False, "--extend", help="With --dictionary: give frequent new values new ids."
    ),
    memory: str = typer.Option("2G", help="Limit of the memory, such as 512M."),
    bad_rows: str = typer.Option("error", help="For a line that cannot be read: error, or skip."),
    max_bad: int | None = typer.Option(
        None, help="With --bad-rows skip: the limit of such lines. Default: 1000."
    ),
    force: bool = typer.Option(False, "--force", help="Replace an existing data set."),
) -> None:
    """Make a packed data set from raw click logs: the form that all other commands read.

    If it is interrupted, run the same command again, and it continues.

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
    with progress("lines") as update:
        run(spec, inputs, to, options, force=force, progress=update)
    seconds, manifest = time.perf_counter() - begun, read_manifest(to)
    read, bad = manifest.source["rows_read"], manifest.source["rows_set_aside"]
    parts = ", ".join(f"{part.rows:,} {name}" for name, part in manifest.parts.items())
    print_line(
        f"{to}: {read:,} lines read, {bad:,} skipped; examples: {parts}; in {seconds:.1f} s "
        f"({compact(read / seconds)} lines/s)"
    )


def _share(name: str, text: str) -> float | str:
    if text == "day":
        return text
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"{name} is {text!r}; give a share from 0 to 1, or day.") from None
