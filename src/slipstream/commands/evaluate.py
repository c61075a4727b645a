"""`slipstream evaluate`: how good a run's predictions for a data set are."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from slipstream.commands.terminal import err, out, says_what_is_wrong, table

_SHOWN = (
    *("auc", "auc_error", "logloss", "normalized_entropy", "accuracy", "calibration"),
    *("inputs", "positives", "oracle_auc"),
)


@says_what_is_wrong
def evaluate(
    run: Path = typer.Argument(..., metavar="RUN", help="The folder of a run."),
    data: Path = typer.Argument(..., metavar="DATA", help="The folder of a data set."),
    part: str = typer.Option("evaluation", help="evaluation, validation or train."),
    batch_size: int | None = typer.Option(
        None, help="Inputs to predict at once; left out, as in training."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON, for programs."),
) -> None:
    """Score a part of a data set with a run's newest checkpoint, also while the run goes on.

    The data set is the one of the run, or one made with its ids: prepare --dictionary.

    Example: slipstream evaluate run clicks --part validation
    """
    from slipstream.data.dataset import Dataset
    from slipstream.training.evaluate_run import evaluate_run

    result = evaluate_run(run, Dataset.open(data), part, batch_size)
    for warning in result["warnings"]:
        err.print(warning, soft_wrap=True)
    if as_json:
        print(json.dumps(result, indent=2))
        return
    rows = [
        (name.replace("_", " "), _text(result[name]))
        for name in _SHOWN
        if not (name in ("auc_error", "oracle_auc") and not result[name])
    ]
    table(f"{run} on the {part} part of {data}", ("metric", "value"), rows)
    if not result["ended"]:
        out.print(result["stands"], soft_wrap=True)


def _text(value: float | None) -> str:
    if value is None:
        return "undefined"
    return f"{value:,}" if isinstance(value, int) else f"{value:.6f}"
