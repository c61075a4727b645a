"""Trains a model on a data set, into a folder: from what was asked for to the summary."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from slipstream import gpu
from slipstream.config import Config
from slipstream.data.dataset import Dataset
from slipstream.training import build
from slipstream.training.diverged import DivergedError
from slipstream.training.estimate import does_not_fit
from slipstream.training.init_from import warm_start, with_full_path
from slipstream.training.process_memory import retain_freed_memory
from slipstream.training.resolved import resolved
from slipstream.training.resume import to_go_on_from, to_go_on_with
from slipstream.training.run import Run
from slipstream.training.state import Hooks, State, StoppedError
from slipstream.training.trainer import Trainer

__all__ = ["DivergedError", "Hooks", "State", "StoppedError", "Trainer", "train"]


def train(
    dataset: Dataset,
    config: Config,
    out: str | Path,
    *,
    resume: bool = False,
    force: bool = False,
    hooks: Hooks | None = None,
) -> dict[str, Any]:
    """Train a model on a data set, into a folder.

    Args:
        dataset: What to train on.
        config: How.
        out: The folder of the run.
        resume: Go on with the run that is there, from its newest checkpoint.
        force: Replace a run that is there.
        hooks: What to tell, and whether to stop.

    Returns:
        The summary, as it is in the folder.

    Example:
        >>> summary = train(dataset, Config(batch_size=256), "run")
        >>> summary["inputs_trained"], summary["strategy"]
        (1700, 'plain')
    """
    hooks = hooks or Hooks()
    folder = Path(out)
    config = with_full_path(config, None if resume else folder)
    run = Run.open(folder) if resume else Run(folder)
    if resume:
        config = to_go_on_with(run, config)
    else:
        run.check_replaceable(force)
    # Everything that can be wrong with what was asked for is found before the folder is touched.
    gpu.check_device(config)
    gpu.use_device(config)
    build.check(config, dataset)
    order = build.order_of(config, dataset)
    config = resolved(config, order)
    if dataset.folder is not None:
        config = config.replace(data=str(dataset.folder.absolute()))
    model = build.model_of(config, dataset)
    warm = None if resume else warm_start(config, model, dataset, hooks.say)
    retain_freed_memory()
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    with ExitStack() as stack:
        stack.enter_context(run.claimed())
        found = None
        if resume:
            summary = run.summary if run.config.epochs == config.epochs else None
            if summary is not None:
                hooks.say(f"The run in {out} has already ended.")
                return summary
            found = to_go_on_from(run, config, dataset, len(order), hooks.say)
            warm = None if found else warm_start(config, model, dataset, hooks.say)
        else:
            run.check_replaceable(force)
            run.begin(config)
        trainer = Trainer(dataset, config, run, hooks, stack, model)
        try:
            trainer.start(found, warm)
            if run.config != config:
                run.write_config(config)
            trainer.run_through()
            return trainer.finish()
        except torch.OutOfMemoryError as error:
            raise does_not_fit(dataset, config) from error
