"""`slipstream export`: a trained model for use without this package."""

from __future__ import annotations

from pathlib import Path

import typer

from slipstream.cli.terminal import print_line
from slipstream.number_format import parse_size_option, size


def export(
    run: Path = typer.Argument(..., metavar="RUN", help="The folder of a run."),
    to: Path = typer.Option(..., "--out", metavar="DIR", help="The folder to create."),
    inside: str = typer.Option("2G", metavar="SIZE", help="Size of the tables in the program."),
    force: bool = typer.Option(False, "--force", help="Replace an existing export."),
) -> None:
    """Export a trained model for use without slipstream: weights, and a program for PyTorch.

    The weights are safetensors files. Load the program with
    torch.export.load("DIR/model.pt2").module(): it takes dense values and ids and returns logits.
    export.json lists its inputs in order.

    Example: slipstream export run --out model
    """
    from slipstream.training.export import export_run

    inside_bytes = parse_size_option("--inside", inside)
    description = export_run(run, to, inside_bytes=inside_bytes, force=force)
    program, tables = description["program"], description["tables"]
    files = sorted({weight["file"] for weight in description["weights"].values()})
    stored = sum(table["bytes"] for table in tables.values() if table["inside"])
    outside = {name: table["bytes"] for name, table in tables.items() if not table["inside"]}
    print_line(
        f"{to}: model.pt2, {size(program['bytes'])} with {size(stored)} of tables; "
        f"{', '.join(files)}; export.json"
    )
    if outside:
        print_line(
            f"{len(outside)} tables ({size(sum(outside.values()))}) are not in the program: all "
            f"tables together take more than {inside}. Pass them with every call, after the other "
            f"inputs: {', '.join(outside)}."
        )
    if not description["ended"]:
        position = f"{description['position']:,}"
        print_line(f"The run has not ended. This is its newest checkpoint, at example {position}.")
