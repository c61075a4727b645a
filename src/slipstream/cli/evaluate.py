"""`slipstream evaluate`: how good a run's predictions for a data set are."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from slipstream.cli.terminal import print_line, table, warn

_AFTER_METRICS = ("auc_error", "inputs", "positives", "oracle_auc")
_HEADINGS = {"inputs": "examples"}
_OPTIONAL = ("auc_error", "oracle_auc")


def evaluate(
    run: Path = typer.Argument(..., metavar="RUN", help="The folder of a run."),
    data: Path = typer.Argument(..., metavar="DATA", help="The folder of a data set."),
    part: str = typer.Option("evaluation", help="evaluation, validation or train."),
    batch_size: int | None = typer.Option(None, help="Examples to predict at once."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON, for programs."),
) -> None:
    """Score a trained model on a data set: AUC, logloss and others.

    The newest checkpoint of the run is used; the run may still be training. The data set is the one
    that the run was trained on, or one with the same ids (prepare --dictionary).

    Example: slipstream evaluate run clicks --part validation
    """
    from slipstream.data.dataset import Dataset
    from slipstream.training.evaluate_run import evaluate_run
    from slipstream.training.metrics.registry import METRICS

    result = evaluate_run(run, Dataset.open(data), part, batch_size)
    for warning in result["warnings"]:
        warn(warning)
    if as_json:
        print(json.dumps(result, indent=2))
        return
    shown = (name for name in (*METRICS, *_AFTER_METRICS) if name in result)
    names = [name for name in shown if result[name] or name not in _OPTIONAL]
    rows = [(_HEADINGS.get(name, name.replace("_", " ")), _text(result[name])) for name in names]
    table(f"{run} on the {part} part of {data}", ("metric", "value"), rows)
    if not result["ended"]:
        print_line(result["status"])


def _text(value: float | None) -> str:
    if value is None:
        return "undefined"
    return f"{value:,}" if isinstance(value, int) else f"{value:.6f}"
