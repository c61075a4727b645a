"""The command line: `slipstream COMMAND ...`."""

from __future__ import annotations

import typer

from slipstream.commands import (
    ablate,
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
from slipstream.version import __version__

app = typer.Typer(
    name="slipstream",
    help="Train click-prediction models whose embedding tables are larger than fast memory.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)
app.command("synth")(synth.synth)
app.command("prepare")(prepare.prepare)
app.command("profile")(profile.profile)
app.command("train")(train.train)
app.command("compare")(compare.compare)
app.command("ablate")(ablate.ablate)
app.command("report")(report.report)
app.command("evaluate")(evaluate.evaluate)
app.command("predict")(predict.predict)
app.command("export")(export.export)
app.command("estimate")(estimate.estimate)
app.command("verify")(verify.verify)
app.command("env")(env.env)
app.add_typer(data.app, name="data")


@app.callback(invoke_without_command=True)
def _options(
    version: bool = typer.Option(False, "--version", help="Print the version and stop."),
) -> None:
    if version:
        print(__version__)
        raise typer.Exit


def main() -> None:
    """Run the command line."""
    app()
