"""`slipstream synth`: built-in data."""

from __future__ import annotations

import time
from pathlib import Path

import typer

from slipstream.commands.terminal import human, out, progress, says_what_is_wrong
from slipstream.data.synthetic.shapes import SHAPES
from slipstream.errors import ConfigError


@says_what_is_wrong
def synth(
    to: Path = typer.Option(..., "--out", help="The folder to make; with --raw, the file."),
    shape: str | None = typer.Option(
        None, help=f"One of {', '.join(SHAPES)}. Default: small, or --raw."
    ),
    rows: int = typer.Option(100_000, help="Inputs in all three parts together."),
    seed: int = typer.Option(0, help="Same seed, same bytes."),
    positives: float | None = typer.Option(
        None, help="Share of positive labels. Default: the shape's."
    ),
    exponent: float | None = typer.Option(
        None, help="Of the power law of every table. Default: the shape's."
    ),
    drift: str = typer.Option(
        "none",
        help="none, gradual or sudden@SHARE; for one of the two only: "
        "popularity=gradual, teacher=sudden@0.5, or both with a comma.",
    ),
    min_count: int = typer.Option(
        2, help="Values seen less often share one id; 0 keeps every row of the shape."
    ),
    raw: str | None = typer.Option(None, help="Write a raw log instead: criteo, avazu or taobao."),
    device: str = typer.Option("cpu", help="Where to compute: cpu or cuda. The bytes are equal."),
    force: bool = typer.Option(False, "--force", help="Replace what is there."),
) -> None:
    """Make built-in data: skewed accesses, and labels drawn from a known truth.

    Because the truth is known, the data set records the AUC and logloss of a model that knows it:
    nothing can beat that.

    Example: slipstream synth --shape criteo-kaggle --rows 1000000 --out clicks
    """
    from slipstream.data.synthetic.raw import write_raw
    from slipstream.data.synthetic.synth import Recipe, synthesize

    if shape is None:
        shape = next((name for name, one in SHAPES.items() if one.raw == raw and raw), "small")
    recipe = Recipe(shape, rows, seed, positives, exponent, drift, min_count)
    begun = time.perf_counter()
    if raw is not None:
        if min_count != 2:
            raise ConfigError("A raw log has no ids, so --min-count means nothing with --raw.")
        with progress("writing", rows, "rows") as done:
            write_raw(recipe, raw, to, force=force, device=device, progress=done)
    else:
        with progress("making", rows, "rows") as done:  # each row is done twice
            synthesize(recipe, to, force=force, device=device, progress=lambda n: done(n / 2))
    seconds = time.perf_counter() - begun
    rate = human(rows / seconds)
    out.print(f"{to}: {rows:,} rows of {shape} in {seconds:.1f} s ({rate} rows/s)", soft_wrap=True)
