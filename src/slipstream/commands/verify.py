"""`slipstream verify`: a proof, on the user's own data, that a strategy trains what it should."""

from __future__ import annotations

from pathlib import Path

import typer

from slipstream.commands.terminal import out, progress, says_what_is_wrong
from slipstream.commands.train import chosen_config


@says_what_is_wrong
def verify(
    data: Path = typer.Argument(metavar="DATA", help="The folder of the data set."),
    strategy: str | None = typer.Option(None, help="The strategy to look at. Default: plain."),
    steps: int = typer.Option(100, min=1, help="Steps to train."),
    config: Path | None = typer.Option(
        None, metavar="FILE", help="A YAML file; see docs/config.md."
    ),
    model: str | None = typer.Option(
        None, help="dlrm, tbsm, dcn, deepfm or wide_deep. Default: dlrm."
    ),
    device: str | None = typer.Option(None, help="cpu, cuda or cuda:NUMBER. Default: cpu."),
    fast_memory: str | None = typer.Option(
        None, metavar="SIZE", help="Of the fast tier: 2GiB, 5% of all rows, or auto. Default: 5%."
    ),
    batch_size: int | None = typer.Option(None, help="Inputs of a step. Default: 2048."),
    settings: list[str] = typer.Option(
        [], "--set", metavar="KEY=VALUE", help="Any key of the config."
    ),
) -> None:
    """Train some steps with a strategy and without it, and compare every row and every state.

    The exit status is 1 if the strategy does not keep its promise.

    Example: slipstream verify clicks --strategy fast --steps 50
    """
    from slipstream.data.dataset import Dataset
    from slipstream.training.verify import verify as compared

    flags = {
        "data": str(data),
        "strategy": strategy,
        "model.name": model,
        "device": device,
        "placement.fast_memory": fast_memory,
        "batch_size": batch_size,
    }
    wanted = chosen_config(config, flags, settings)
    with progress("comparing", 2 * steps, "steps") as done:
        made = compared(Dataset.open(data), wanted, steps, done)
    for one in made:
        found = "the same bits" if one.same_bits else f"{one.largest:.1e} apart ({one.where})"
        limit = "" if one.allowed == 0 else f", {one.allowed:.0e} allowed"
        out.print(
            f"{wanted.strategy} in {one.what}: {one.steps:,} steps, {one.rows:,} rows, "
            f"{one.values:,} values: {found}{limit}: {'holds' if one.holds else 'DOES NOT HOLD'}",
            soft_wrap=True,
        )
    if not all(one.holds for one in made):
        raise typer.Exit(1)
