"""The options of a command that set keys of the configuration, declared once for all commands."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

if TYPE_CHECKING:  # torch takes seconds to import: commands import it when they run
    from slipstream.config import Config


class Flag(NamedTuple):
    """A flag that sets one key of the configuration.

    Args:
        key: The key, with dots between sections.
        kind: The type of its value.
        help: One sentence for `--help`.
        metavar: What stands for the value in `--help`.
    """

    key: str
    kind: type
    help: str
    metavar: str | None = None


FLAGS = {
    "model": Flag("model.name", str, "dlrm, tbsm, dcn, deepfm or wide_deep. Default: dlrm."),
    "strategy": Flag(
        "strategy",
        str,
        "plain, fae, hotline, bagpipe, fast or slipstream. Default: plain; fast on a GPU.",
    ),
    "ordering": Flag("order.kind", str, "The order of examples, instead of the strategy's."),
    "placement": Flag("placement.kind", str, "Where rows live, instead of the strategy's."),
    "skip": Flag(
        "skip.rule", str, "Which examples to skip; see docs/skipping.md. Default: none.", "RULE"
    ),
    "device": Flag("device", str, "cpu, cuda or cuda:NUMBER. Default: cpu."),
    "fast_memory": Flag(
        "placement.fast_memory",
        str,
        "Size of the fast tier: 2GiB, 5% of all rows, or auto. Default: 5%.",
        "SIZE",
    ),
    "batch_size": Flag("batch_size", int, "Examples in a batch. Default: 2048."),
    "epochs": Flag("epochs", int, "How often to go through the training part. Default: 1."),
    "start": Flag(
        "start", str, "Train from this example on: a number, or a share such as 25%.", "POSITION"
    ),
    "stop": Flag("stop", str, "Train up to this example: a number, or a share.", "POSITION"),
    "seed": Flag("seed", int, "Seed for weight initialization and shuffling. Default: 0."),
    "shuffle": Flag("shuffle", bool, "Shuffle the examples by blocks."),
    "precision": Flag(
        "precision", str, "Precision of the dense part: fp32, tf32 or bf16. Default: fp32."
    ),
    "tracker": Flag(
        "log.trackers", list[str], "Show metrics in tensorboard, mlflow or wandb; repeatable."
    ),
    "init_from": Flag(
        "init_from", str, "Start with the weights and embedding rows of this run.", "RUN"
    ),
}
"""Each command-line flag by its parameter name: `fast_memory` is the flag `--fast-memory`."""


@dataclass(frozen=True)
class ConfigOptions:
    """The configuration as the command line describes it.

    Args:
        file: A YAML file, or None.
        flags: Values of flags by key of the configuration; None where a flag is absent.
        settings: Texts `KEY=VALUE`.
    """

    file: Path | None
    flags: dict[str, Any]
    settings: list[str]

    def config(self, base: Config | None = None) -> Config:
        """The file, with flags put over it and settings over these.

        Args:
            base: What to begin with instead of the file.
        """
        from slipstream.config import Config

        if base is None:
            base = Config.read(self.file) if self.file else Config()
        present = {key: value for key, value in self.flags.items() if value not in (None, [])}
        texts = [f"{key}={json.dumps(value)}" for key, value in present.items()]
        return base.with_settings([*texts, *self.settings])


def config_options(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command `--config`, `--set` and flags that set one key each.

    The command has a parameter `options`, a `ConfigOptions`. The flags appear in its place.

    Args:
        names: Names in `FLAGS`. Default: all of them.
    """
    flags = {name: FLAGS[name] for name in names or FLAGS}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def wrapped(**values: Any) -> None:
            keys = {flag.key: values.pop(name) for name, flag in flags.items()}
            options = ConfigOptions(values.pop("config"), keys, values.pop("settings"))
            command(options=options, **values)

        before = inspect.signature(command, eval_str=True)
        parameters: list[inspect.Parameter] = []
        for parameter in before.parameters.values():
            parameters += _parameters(flags) if parameter.name == "options" else [parameter]
        keyword = [option.replace(kind=inspect.Parameter.KEYWORD_ONLY) for option in parameters]
        wrapped.__signature__ = before.replace(parameters=keyword)  # type: ignore[attr-defined]
        wrapped.__annotations__ = {option.name: option.annotation for option in parameters}
        return wrapped

    return decorate


def _parameters(flags: dict[str, Flag]) -> list[inspect.Parameter]:
    def parameter(name: str, kind: Any, default: Any) -> inspect.Parameter:
        where = inspect.Parameter.KEYWORD_ONLY
        return inspect.Parameter(name, where, default=default, annotation=kind)

    file = typer.Option(None, metavar="FILE", help="A YAML file; see docs/config.md.")
    settings = typer.Option(
        [], "--set", metavar="KEY=VALUE", help="Set any key of the configuration."
    )
    parameters = [parameter("config", Path | None, file)]
    for name, flag in flags.items():
        spelling = f"--{name.replace('_', '-')}"  # without it, a bool also gets a flag --no-NAME
        option = typer.Option(None, spelling, metavar=flag.metavar, help=flag.help)
        parameters.append(parameter(name, flag.kind | None, option))
    return [*parameters, parameter("settings", list[str], settings)]
