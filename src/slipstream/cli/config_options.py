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
    """A flag that sets one key of the configuration; `help` is one sentence."""

    key: str
    kind: type
    help: str
    metavar: str | None = None


_STRATEGIES = (
    "plain, fae, hotline, bagpipe, fast or slipstream; see docs/placement.md. Default: fast on a "
    "GPU, plain on a CPU."
)
_ORDERS = "as-is, apart, cold-first or split; see docs/ordering.md. Default: the strategy's."
_PLACEMENTS = (
    "slow, popular, learned, lookahead or popular+lookahead; see docs/profile.md. Default: the "
    "strategy's."
)
_FAST_MEMORY = "Memory for rows on the GPU: 2GiB, 5% of all rows, or auto. Default: 5%."
_SKIP = (
    "The rule that leaves out examples: none, published, random, movement, value, thin, "
    "case-control, freeze or your own; see docs/skipping.md. Default: the strategy's."
)
_START = "Leave out this many of the oldest examples: a number, or a share such as 25%."
_PRECISION = "fp32, tf32 or bf16, for the layers of the model. Default: fp32."
_TRACKER = "Also send metrics to a tracker, such as tensorboard; may be repeated."

FLAGS = {
    "model": Flag("model.name", str, "dlrm, tbsm, dcn, deepfm or wide_deep. Default: dlrm."),
    "strategy": Flag("strategy", str, _STRATEGIES),
    "ordering": Flag("order.kind", str, _ORDERS),
    "placement": Flag("placement.kind", str, _PLACEMENTS),
    "skip": Flag("skip.rule", str, _SKIP, "RULE"),
    "device": Flag("device", str, "cpu, cuda or cuda:NUMBER. Default: cpu."),
    "fast_memory": Flag("placement.fast_memory", str, _FAST_MEMORY, "SIZE"),
    "batch_size": Flag("batch_size", int, "Examples in a batch. Default: 2048."),
    "epochs": Flag("epochs", int, "How often to go through the training part. Default: 1."),
    "start": Flag("start", str, _START, "POSITION"),
    "stop": Flag("stop", str, "Train no example after this one: a number, or a share.", "POSITION"),
    "seed": Flag("seed", int, "Seed for weight initialization and shuffling. Default: 0."),
    "shuffle": Flag("shuffle", bool, "Shuffle the examples."),
    "precision": Flag("precision", str, _PRECISION),
    "tracker": Flag("log.trackers", list[str], _TRACKER),
    "init_from": Flag("init_from", str, "Start with the weights of this run.", "RUN"),
}
"""Each command-line flag by its parameter name: `fast_memory` is the flag `--fast-memory`."""


@dataclass(frozen=True)
class ConfigOptions:
    """A YAML file, values of flags by key (None where absent), and texts `KEY=VALUE`."""

    file: Path | None
    flags: dict[str, Any]
    settings: list[str]

    def config(self, base: Config | None = None) -> Config:
        """The file (or another base), with flags put over it and settings over these."""
        from slipstream.config import Config

        if base is None:
            base = Config.read(self.file) if self.file else Config()
        present = {key: value for key, value in self.flags.items() if value not in (None, [])}
        texts = [f"{key}={json.dumps(value)}" for key, value in present.items()]
        return base.with_settings([*texts, *self.settings])


def config_options(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Put `--config`, `--set` and these `FLAGS` (default: all) in place of the parameter `options`.

    The command receives a `ConfigOptions`.
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

    file = typer.Option(None, metavar="FILE", help="A YAML file with keys of docs/config.md.")
    help_of_set = "Set any key of docs/config.md; may be repeated."
    settings = typer.Option([], "--set", metavar="KEY=VALUE", help=help_of_set)
    parameters = [parameter("config", Path | None, file)]
    for name, flag in flags.items():
        spelling = f"--{name.replace('_', '-')}"  # without it, a bool also gets a flag --no-NAME
        option = typer.Option(None, spelling, metavar=flag.metavar, help=flag.help)
        parameters.append(parameter(name, flag.kind | None, option))
    return [*parameters, parameter("settings", list[str], settings)]
