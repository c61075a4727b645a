"""The runs of a comparison and their order."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any

from slipstream.analyze.compare.presets import Keys, preset_settings
from slipstream.analyze.report.settings import key_label
from slipstream.config import Config, files
from slipstream.config.kinds import Count, about
from slipstream.config.section import Settings, check_choices
from slipstream.errors import ConfigError
from slipstream.pipeline.strategies import STRATEGIES, strategy

CONTROL = "plain+random"
"""The control of strategies that skip: the same share of examples is skipped at random."""
_NAMES = about("", "a list of names")
_FLAGS = {"seed": "seeds", "strategy": "strategies", "skip.rule": "skip", "model.name": "models"}
_LONGEST = 100  # characters of a label in the name of a folder


@dataclass(frozen=True)
class PlannedRun:
    """A run of a comparison."""

    name: str  # of its folder
    setting: str  # a label, which the runs of other seeds share
    config: Config  # with the seed


class Choices(Settings, frozen=True, kw_only=True):
    """The settings and seeds to compare: the section `compare` of a configuration file.

    `plain+random` is the strategy plain with the skip rule random. With rules in `skip`, each
    strategy is trained without a rule and with each of these.
    """

    preset: str | None = None
    strategies: Annotated[tuple[str, ...] | None, _NAMES] = None
    skip: Annotated[tuple[str, ...], _NAMES] = ()
    models: Annotated[tuple[str, ...], _NAMES] = ()
    seeds: Count = 5
    grid: dict[str, Any] = {}  # noqa: RUF012 - msgspec copies it

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.preset and (self.strategies or self.skip):
            raise ConfigError(
                f"The preset {self.preset} names its own strategies and rules: leave --strategies "
                "and --skip out."
            )
        if self.strategies == ():
            raise ConfigError(f"No strategy is named. Choose from {', '.join(STRATEGIES)}.")
        for key, values in self.grid.items():
            if not isinstance(values, list) or not values:
                raise ConfigError(f"{key} has no list of values in the grid; write them as [a, b].")
            if key == "data":
                raise ConfigError("data cannot be in a grid: a comparison has one data set.")
            if key in _FLAGS:
                raise ConfigError(f"{key} cannot be in a grid: use --{_FLAGS[key]}.")

    @property
    def all(self) -> bool:
        """Whether all strategies are compared, because the user has chosen none."""
        return self.strategies is None

    def settings(self) -> Iterator[Keys]:
        """The keys of each setting: every combination."""
        models = [{"model.name": name} for name in self.models] or [{}]
        values = [dict(zip(self.grid, each, strict=True)) for each in product(*self.grid.values())]
        chosen = preset_settings(self.preset) if self.preset else list(self._strategies())
        for model, more, keys in product(models, values, chosen):
            yield {**model, **more, **keys}

    def _strategies(self) -> Iterator[Keys]:
        rules: list[Keys] = [{}, *({"skip.rule": rule} for rule in self.skip)]
        strategies = (*STRATEGIES, CONTROL) if self.strategies is None else self.strategies
        for rule, text in product(rules, strategies):
            name, plus, own_rule = text.partition("+")
            strategy(name)  # reports a typo
            if not (plus and rule):
                yield {"strategy": name, **({"skip.rule": own_rule} if plus else rule)}


def planned_runs(base: Config, choices: Choices) -> list[PlannedRun]:
    """The runs in their order: all settings with the first seed, then all with the next.

    So a machine that slows down slows all settings alike. Each round begins with another setting,
    so that none always comes first.
    """
    settings = list(choices.settings())
    configs = [_with_keys(base, keys) for keys in settings]
    for config in configs:
        check_choices(config)
    labels = [_label(keys) for keys in settings]
    for label in labels:
        if labels.count(label) > 1:
            raise ConfigError(f"{label} stands twice; name each strategy, model and value once.")
    runs = []
    for number in range(choices.seeds):
        seed = base.seed + number
        first = number % len(settings)
        for place in (*range(first, len(settings)), *range(first)):
            name = f"{_file_name(labels[place])}-seed{seed}"
            config = _with_keys(configs[place], {"seed": seed})
            runs.append(PlannedRun(name, labels[place], config))
    return runs


def parse_grid(settings: Sequence[str]) -> dict[str, list[Any]]:
    """Keys with several values, from the command line.

    Example:
        >>> parse_grid(["placement.fast_memory=5%,10%", "model.top=[[64, 32], [128]]"])
        {'placement.fast_memory': ['5%', '10%'], 'model.top': [[64, 32], [128]]}
    """
    grid: dict[str, list[Any]] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        key = key.strip()
        if not equals or not key:
            raise ConfigError(f"{setting!r} is no part of a grid; write KEY=VALUE,VALUE.")
        if key in grid:
            raise ConfigError(f"{key} stands twice in the grid; put all its values in one list.")
        values, _ = files.parse(text, key)
        if not isinstance(values, list):
            values = [files.parse(part, key)[0] for part in text.split(",")]
        grid[key] = values
    return grid


def _with_keys(config: Config, keys: Keys) -> Config:
    return config.with_settings(f"{key}={json.dumps(value)}" for key, value in keys.items())


def _label(keys: Keys) -> str:
    """The model, the strategy, and the other keys of a setting."""
    first = ("model.name", "strategy")
    words = [str(keys[key]) for key in first if key in keys]
    words += [key_label(key, value) for key, value in keys.items() if key not in first]
    return ", ".join(words)


def _file_name(label: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_.%+-]+", "-", label).strip("-")
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}-{hashlib.sha256(label.encode()).hexdigest()[:8]}"
