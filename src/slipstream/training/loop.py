"""Trains a model on a data set, into a folder: from the configuration to the summary."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from slipstream import gpu
from slipstream.config import Config
from slipstream.data.dataset import Dataset
from slipstream.training.build import check, model_of
from slipstream.training.complete_config import config_of_run, config_to_resume
from slipstream.training.diverged import DivergedError
from slipstream.training.estimate import does_not_fit
from slipstream.training.example_order import order_of
from slipstream.training.init_from import warm_start, with_full_path
from slipstream.training.process_memory import retain_freed_memory
from slipstream.training.resume import checkpoint_to_resume
from slipstream.training.run import Run
from slipstream.training.state import Hooks, RunState, StoppedError
from slipstream.training.trackers import check_trackers
from slipstream.training.trainer import Trainer

__all__ = ["DivergedError", "Hooks", "RunState", "StoppedError", "Trainer", "train"]


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
        dataset: The data set.
        config: The configuration.
        out: The folder of the run.
        resume: Continue the run in the folder, from its newest checkpoint.
        force: Replace a run in the folder.
        hooks: Functions that the run calls: for progress, messages, metrics, and to stop it.

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
        if run.config == config and run.summary is not None:  # also where its rule is not imported
            with run.claimed():  # which removes the lock of a process that was killed at the end
                return _result(run, hooks)
        config = config_to_resume(run.config, config, folder)
    else:
        run.check_replaceable(force)
    # All errors of the configuration are raised before the folder is changed.
    gpu.check_device(config)
    gpu.use_device(config)
    check(config, dataset)
    check_trackers(config.log.trackers)
    order = order_of(config, dataset)
    config = config_of_run(config, order)
    if dataset.folder is not None:
        config = config.replace(data=str(dataset.folder.absolute()))
    model = model_of(config, dataset)
    warm = None if resume else warm_start(config, model, dataset, hooks.on_message)
    retain_freed_memory()
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    with ExitStack() as stack:
        stack.enter_context(run.claimed())
        checkpoint = None
        if resume:
            if run.config.epochs == config.epochs and run.summary is not None:
                return _result(run, hooks)
            checkpoint = checkpoint_to_resume(run, config, dataset, len(order), hooks.on_message)
            warm = None if checkpoint else warm_start(config, model, dataset, hooks.on_message)
        else:
            run.check_replaceable(force)
            run.begin(config)
        trainer = Trainer(dataset, config, run, hooks, stack, model)
        try:
            trainer.start(checkpoint, warm)
            if run.config != config:
                run.write_config(config)
            trainer.train()
            return trainer.finish()
        except torch.OutOfMemoryError as error:
            raise does_not_fit(dataset, config) from error


def _result(run: Run, hooks: Hooks) -> dict[str, Any]:
    hooks.on_message(f"The run in {run.folder} has already ended.")
    assert run.summary is not None
    return run.summary
