"""`slipstream verify`: check, on the user's own data, that a strategy trains correctly."""

from __future__ import annotations

from pathlib import Path

import typer

from slipstream.cli.config_options import ConfigOptions, config_options
from slipstream.cli.terminal import print_line, progress_bar


@config_options("strategy", "model", "device", "fast_memory", "batch_size")
def verify(
    *,
    data: Path = typer.Argument(metavar="DATA", help="The folder of the data set."),
    options: ConfigOptions,
    steps: int = typer.Option(100, min=1, help="How many steps to train."),
) -> None:
    """Check that a strategy trains correctly on your data: compare it with plain training.

    Trains some steps with the strategy and without it, and compares every weight, embedding row and
    optimizer state. The exit status is 1 if they differ.

    Example: slipstream verify clicks --strategy fast --steps 50
    """
    from slipstream.analyze.verify import verify as compare_trainings
    from slipstream.data.dataset import Dataset
    from slipstream.pipeline.strategies import default_strategy

    options.flags["data"] = str(data)
    config = options.config()
    strategy = config.strategy or default_strategy(config.device)
    with progress_bar("comparing", 2 * steps, "steps") as advance:
        comparisons = compare_trainings(Dataset.open(data), config, steps, advance)
    for result in comparisons:
        gap = f"largest difference {result.largest:.1e} ({result.where})"
        gap = "the same bits" if result.same_bits else gap
        limit = "" if result.allowed == 0 else f", allowed {result.allowed:.0e}"
        print_line(
            f"{strategy} {result.name}: {result.steps:,} steps, {result.rows:,} rows, "
            f"{result.values:,} values: {gap}{limit}: {'correct' if result.correct else 'WRONG'}"
        )
    if not all(result.correct for result in comparisons):
        raise typer.Exit(1)
