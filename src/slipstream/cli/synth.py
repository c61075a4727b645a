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
    rows: int = typer.Option(100_000, help="Examples in all three parts together."),
    seed: int = typer.Option(0, help="The same seed gives the same bytes."),
    positives: float | None = typer.Option(None, help="Share of positive labels."),
    exponent: float | None = typer.Option(None, help="Exponent of every table's power law."),
    drift: str = typer.Option(
        "none",
        help="How popularity and labels change over time: none, gradual or sudden@SHARE.",
    ),
    min_count: int = typer.Option(
        2, help="Values that occur less often share one id; 0 keeps every row of the shape."
    ),
    raw: bool = typer.Option(
        False, "--raw", help="Write the raw log of the shape instead: criteo-kaggle or taobao."
    ),
    force: bool = typer.Option(False, "--force", help="Replace an existing data set or log."),
) -> None:
    """Generate synthetic data with popular and rare values, and labels from a known model.

    The data set records the AUC and logloss of that model, which no trained model can exceed.

    Example: slipstream synth --shape criteo-kaggle --rows 1000000 --out clicks
    """
    from slipstream.data.synthetic.raw import write_raw
    from slipstream.data.synthetic.synth import Recipe, synthesize

    recipe = Recipe(shape, rows, seed, positives, exponent, drift, min_count)
    begun = time.perf_counter()
    if raw and min_count != 2:
        raise ConfigError("A raw log has no ids, so --min-count has no effect with --raw. Omit it.")
    if raw:
        with progress_bar("writing", rows, "rows") as advance:
            write_raw(recipe, to, force=force, progress=advance)
    else:
        with progress_bar("generating", rows, "rows") as advance:  # each row counts twice
            synthesize(recipe, to, force=force, progress=lambda n: advance(n / 2))
    seconds = time.perf_counter() - begun
    rate = compact(rows / seconds)
    print_line(f"{to}: {rows:,} rows of {shape} in {seconds:.1f} s ({rate} rows/s)")
