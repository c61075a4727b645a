"""The command line: `slipstream COMMAND ...`."""

from __future__ import annotations

import typer

from slipstream.cli import (
    compare,
    data,
    env,
    estimate,
    evaluate,
    export,
    predict,
    prepare,
    profile,
    report,
    synth,
    train,
    verify,
)
from slipstream.cli.terminal import reports_errors
from slipstream.version import __version__

app = typer.Typer(
    name="slipstream",
    help="Train click-prediction models whose embedding tables are larger than fast memory.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
for command in (
    synth.synth,
    prepare.prepare,
    profile.profile,
    train.train,
    compare.compare,
    report.report,
    evaluate.evaluate,
    predict.predict,
    export.export,
    estimate.estimate,
    verify.verify,
    env.env,
):
    app.command(command.__name__)(reports_errors(command))
app.add_typer(data.app, name="data")


@app.callback(invoke_without_command=True)
def _options(
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
) -> None:
    if version:
        print(__version__)
        raise typer.Exit


def main() -> None:
    """Run the command line."""
    app()
