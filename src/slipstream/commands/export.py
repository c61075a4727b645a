"""`slipstream export`: a trained model for use without this package."""

from __future__ import annotations

from pathlib import Path

import typer

from slipstream.commands.sizes import bytes_of, size
from slipstream.commands.terminal import out, says_what_is_wrong


@says_what_is_wrong
def export(
    run: Path = typer.Argument(..., metavar="RUN", help="The folder of a run."),
    to: Path = typer.Option(..., "--out", metavar="DIR", help="The folder to make."),
    inside: str = typer.Option(
        "2G", help="How many bytes of tables to put into the program; larger ones stay outside."
    ),
    force: bool = typer.Option(False, "--force", help="Replace an export that is there."),
) -> None:
    """Write a run's model as weights in safetensors, and as a program that needs only PyTorch.

    The program takes dense values and ids and gives logits; export.json says in what order. It is
    loaded with torch.export.load("DIR/model.pt2").module().

    Example: slipstream export run --out model
    """
    from slipstream.training.export import export_run

    made = export_run(run, to, inside_bytes=bytes_of("inside", inside), force=force)
    program, tables = made["program"], made["tables"]
    files = sorted({one["file"] for one in made["weights"].values()})
    within = sum(one["bytes"] for one in tables.values() if one["inside"])
    out.print(
        f"{to}: model.pt2, {size(program['bytes'])} with {size(within)} of tables; "
        f"{', '.join(files)}; export.json",
        soft_wrap=True,
    )
    outside = [name for name, one in tables.items() if not one["inside"]]
    if outside:
        left = size(sum(tables[name]["bytes"] for name in outside))
        out.print(
            f"{len(outside)} tables, {left}, are not in the program, because all together would "
            f"take more than {inside}: hand them to it with every call, after the other inputs "
            f"({', '.join(outside)}).",
            soft_wrap=True,
        )
    if not made["ended"]:
        out.print(
            f"The run has not ended: this is how it stood at input {made['position']:,}.",
            soft_wrap=True,
        )
