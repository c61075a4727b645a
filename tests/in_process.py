"""Runs the command line within the test: a process of its own takes seconds to import torch."""

from typer.testing import CliRunner

from slipstream.cli import app


def run(*words: object, **env: str):
    environment = {"COLUMNS": "200", "NO_COLOR": "1", **env}
    return CliRunner().invoke(app, [*map(str, words)], env=environment)
