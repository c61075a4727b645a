"""`slipstream synth`: built-in data."""

from __future__ import annotations

import time
from pathlib import Path

import typer

from slipstream.cli.terminal import print_line, progress_bar
from slipstream.errors import ConfigError
from slipstream.number_format import compact


def synth(
    to: Path = typer.Option(..., "--out", help="The folder to create; with --raw, the file."),
    shape: str = typer.Option("small", help="small, effects, criteo-kaggle or taobao."),
    rows: int = typer.Option(100_000, help="Number of examples."),
    seed: int = typer.Option(0, help="Seed for drawing the data."),
    positives: float | None = typer.Option(None, help="Share of clicks, from 0 to 1."),
    exponent: float | None = typer.Option(
        None, help="How unequal the popularity of values is: the exponent of a power law."
    ),
    drift: str = typer.Option(
        "none",
        help="How the data changes over time: none, gradual, or sudden@0.5 (after half of it).",
    ),
    min_count: int = typer.Option(
        2, help="Values that occur fewer times than this share one id; 0 gives each its own."
    ),
    raw: bool = typer.Option(
        False, "--raw", help="Write a raw log instead; for the shapes criteo-kaggle and taobao."
    ),
    force: bool = typer.Option(False, "--force", help="Replace an existing data set or log."),
) -> None:
    """Make a data set of made-up clicks, to try slipstream without data.

    The labels are drawn from a known model, and the data set records its AUC: the best possible.

    Example: slipstream synth --shape criteo-kaggle --rows 1000000 --out clicks
    """
    from slipstream.data.synthetic.raw import write_raw
    from slipstream.data.synthetic.synth import Recipe, synthesize

    recipe = Recipe(shape, rows, seed, positives, exponent, drift, min_count)
    begun = time.perf_counter()
    if raw and min_count != 2:
        raise ConfigError("A raw log has no ids, so --min-count has no effect with --raw. Omit it.")
    if raw:
        with progress_bar("writing", rows, "examples") as advance:
            write_raw(recipe, to, force=force, progress=advance)
    else:
        with progress_bar("generating", rows, "examples") as advance:  # each counts twice
            synthesize(recipe, to, force=force, progress=lambda n: advance(n / 2))
    seconds = time.perf_counter() - begun
    rate = compact(rows / seconds)
    print_line(f"{to}: {rows:,} examples of {shape} in {seconds:.1f} s ({rate} examples/s)")
