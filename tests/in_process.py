"""Runs the command line within the test: a process of its own takes seconds to import torch."""

from typer.testing import CliRunner

from slipstream.cli import terminal
from slipstream.cli.app import app


def run(*words: object, **env: str):
    environment = {"COLUMNS": "200", "NO_COLOR": "1", **env}
    for console in (terminal.out, terminal.err):
        console.width = int(environment["COLUMNS"])  # set once, when the first test began
    return CliRunner().invoke(app, [*map(str, words)], env=environment)
