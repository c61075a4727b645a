"""The command line: `slipstream COMMAND ...`."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from pathlib import Path

import typer

from slipstream.cli import data
from slipstream.cli.command import Command
from slipstream.cli.terminal import reports_errors
from slipstream.errors import ConfigError
from slipstream.version import __version__

# In the order of `--help`; each is a function in the module of its name.
COMMANDS = (
    *("synth", "prepare", "profile", "train", "compare", "report", "evaluate", "predict"),
    *("export", "estimate", "verify", "env"),
)

_MODULES = "SLIPSTREAM_IMPORT"

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
    app.command(name, cls=Command)(reports_errors(command))
app.add_typer(data.app, name="data")


@app.callback(invoke_without_command=True)
@reports_errors
def _options(
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
    modules: list[str] = typer.Option(
        [],
        "--import",
        metavar="MODULE",
        envvar=_MODULES,
        help="Import a module first, such as one with your own skip rule; repeatable.",
    ),
) -> None:
    if version:
        print(__version__)
        raise typer.Exit
    if modules:
        sys.path.insert(0, str(Path.cwd()))
    for module in modules:
        try:
            import_module(module)
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"--import {module}: {error}. Name a module in the current folder, or one that "
                "is installed, without .py."
            ) from error
        os.environ[_MODULES] = " ".join(modules)  # for the processes that a command starts
