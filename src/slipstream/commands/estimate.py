"""`slipstream estimate`: how much memory a training will take."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from slipstream.commands.sizes import size
from slipstream.commands.terminal import out, says_what_is_wrong, table
from slipstream.commands.train import chosen_config

_MEANINGS = {
    "process": "Python, PyTorch and compiled kernels",
    "rows": "embedding rows with their optimizer state",
    "fast": "the fast tier, where each row is, and the window of batches",
    "dense": "dense weights, gradients, optimizer state",
    "activations": "what a step works on, and its plan",
    "loader": "batches read ahead",
    "evaluation": "scores kept for the AUC",
    "checkpoint": "a checkpoint while it is written",
    "skipping": "what a rule keeps for rows, and its decisions",
    "pinned": "plans and results on their way, where a GPU copies them from and to",
    "beginning": "statistics or a warm start, beyond what steps take",
}
_ON_DEVICE = {
    "fast": "the fast tier: rows with their optimizer state",
    "plans": "plans on their way, and what the device works out of them",
    "dense": "dense weights, gradients, optimizer state, and what products need",
    "activations": "what a step works on",
    "evaluation": "batches on their way that are only scored",
}


@says_what_is_wrong
def estimate(
    data: Path = typer.Argument(..., metavar="DATA", help="The folder of the data set."),
    config: Path | None = typer.Option(
        None, metavar="FILE", help="A YAML file; see docs/config.md."
    ),
    model: str | None = typer.Option(None, help="dlrm, tbsm, dcn, deepfm or wide_deep."),
    strategy: str | None = typer.Option(None, help="How inputs and rows are handled."),
    ordering: str | None = typer.Option(None, help="Instead of the strategy's ordering."),
    placement: str | None = typer.Option(None, help="Instead of the strategy's placement."),
    skip: str | None = typer.Option(None, metavar="RULE", help="Leave inputs out by this rule."),
    device: str | None = typer.Option(None, help="cpu, cuda or cuda:NUMBER."),
    fast_memory: str | None = typer.Option(
        None, metavar="SIZE", help="Of the fast tier: 2GiB, 5% of all rows, or auto."
    ),
    max_auc_loss: float | None = typer.Option(
        None, metavar="X", help="Skip only as much as pilots show to cost no more AUC than that."
    ),
    batch_size: int | None = typer.Option(None, help="Inputs of a step."),
    epochs: int | None = typer.Option(None, help="How often every input comes."),
    limit: int | None = typer.Option(None, help="Train on the first inputs only."),
    seed: int | None = typer.Option(None, help="Of first weights and of shuffling."),
    shuffle: bool | None = typer.Option(None, "--shuffle", help="Shuffle by blocks."),
    precision: str | None = typer.Option(None, help="Of the dense part: fp32, tf32, bf16."),
    init_from: str | None = typer.Option(
        None, metavar="RUN", help="Begin with its weights and rows."
    ),
    settings: list[str] = typer.Option(
        [], "--set", metavar="KEY=VALUE", help="Any key of the config."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON, for programs."),
) -> None:
    """Tell how much memory a training will take, part by part, without allocating it.

    Give the options that you would give to train. The peak of a run's own memory, as its summary
    has it, stays within a tenth of the sum, or within 200 MB if that is more.

    Example: slipstream estimate clicks --model dcn --set embedding.optimizer=adam
    """
    from slipstream.data.dataset import Dataset
    from slipstream.training.estimate import estimate as work_out

    flags = {
        "model.name": model,
        "strategy": strategy,
        "ordering.kind": ordering,
        "placement.kind": placement,
        "skip.rule": skip,
        "device": device,
        "placement.fast_memory": fast_memory,
        "skip.max_auc_loss": max_auc_loss,
        "batch_size": batch_size,
        "epochs": epochs,
        "limit": limit,
        "seed": seed,
        "shuffle": shuffle,
        "precision": precision,
        "init_from": init_from,
    }
    made = work_out(Dataset.open(data), chosen_config(config, flags, settings)).to_json()
    if as_json:
        print(json.dumps(made, indent=2))
        return
    rows = [(name, size(amount), _MEANINGS[name]) for name, amount in made["host"].items()]
    rows.append(("sum", size(made["host_bytes"]), ""))
    table("Memory of the host", ("part", "size", "what it is"), rows)
    if not made["device"]:
        out.print("Memory of the device: 0 B", soft_wrap=True)
        return
    rows = [(name, size(amount), _ON_DEVICE[name]) for name, amount in made["device"].items()]
    rows.append(("sum", size(made["device_bytes"]), ""))
    table("Memory of the device", ("part", "size", "what it is"), rows)
