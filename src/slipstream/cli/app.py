"""The command line: `slipstream COMMAND ...`."""

from __future__ import annotations

from importlib import import_module

import typer

from slipstream.cli import data
from slipstream.cli.terminal import reports_errors
from slipstream.version import __version__

# In the order of `--help`; each is a function in the module of its name.
COMMANDS = (
    *("synth", "prepare", "profile", "train", "compare", "report", "evaluate", "predict"),
    *("export", "estimate", "verify", "env"),
)

app = typer.Typer(
    name="slipstream",
    help="Train click-prediction models whose embedding tables are larger than GPU memory.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
for name in COMMANDS:
    command = getattr(import_module(f"slipstream.cli.{name}"), name)
    app.command(name)(reports_errors(command))
app.add_typer(data.app, name="data")


@app.callback(invoke_without_command=True)
def _options(
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    if version:
        print(__version__)
        raise typer.Exit
