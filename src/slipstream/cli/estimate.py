"""`slipstream estimate`: how much memory a training will take."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from slipstream.cli.config_options import ConfigOptions, config_options
from slipstream.cli.terminal import print_line, table
from slipstream.number_format import size

_HOST = {
    "process": "Python, PyTorch and compiled code",
    "rows": "embedding rows with their optimizer state",
    "dense": "weights of the dense part, gradients, optimizer state",
    "activations": "tensors of a training step",
    "loader": "batches that are read ahead",
    "evaluation": "scores for the AUC",
    "checkpoint": "a checkpoint while it is written",
    "fast": "the fast tier, and the batches that are planned",
    "skipping": "counts and decisions of the skip rule",
    "start": "statistics or a warm start, if that takes more than the steps",
    "pinned": "page-locked memory for copies to and from the GPU",
}
_DEVICE = {
    "fast": "the fast tier: rows with their optimizer state",
    "plans": "plans of the next batches",
    "dense": "weights of the dense part, gradients, optimizer state, libraries",
    "activations": "tensors of a training step",
    "evaluation": "batches that are only scored",
}


@config_options()
def estimate(
    *,
    data: Path = typer.Argument(..., metavar="DATA", help="The folder of the data set."),
    options: ConfigOptions,
    as_json: bool = typer.Option(False, "--json", help="Print JSON, for programs."),
) -> None:
    """Estimate how much memory a training will take, without training.

    The options are those of train. The estimate differs from the peak of the run by at most a
    tenth, or by at most 200 MB if that is more.

    Example: slipstream estimate clicks --model dcn --set embedding.optimizer=adam
    """
    from slipstream.data.dataset import Dataset
    from slipstream.training.estimate import estimate as estimate_memory

    result = estimate_memory(Dataset.open(data), options.config()).to_json()
    if as_json:
        print(json.dumps(result, indent=2))
        return
    for place, meanings in (("host", _HOST), ("device", _DEVICE)):
        if not result[place]:
            print_line(f"Memory of the {place}: 0 B")
            continue
        rows = [(part, size(amount), meanings[part]) for part, amount in result[place].items()]
        rows.append(("sum", size(result[f"{place}_bytes"]), ""))
        table(f"Memory of the {place}", ("part", "size", "what it is"), rows)
