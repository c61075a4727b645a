"""The runs of a comparison and their order."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from slipstream.analyze.compare.presets import Keys, preset_settings
from slipstream.analyze.report.settings import key_label
from slipstream.config import Config, files
from slipstream.config.section import check_choices
from slipstream.errors import ConfigError
from slipstream.pipeline.strategies import strategy

_LONGEST = 100  # characters of a label in the name of a folder


@dataclass(frozen=True)
class PlannedRun:
    """A run of a comparison.

    Args:
        name: The name of its folder.
        setting: The label of its setting: what it shares with the runs of other seeds.
        config: Its configuration, with the seed.
    """

    name: str
    setting: str
    config: Config


@dataclass(frozen=True)
class Choices:
    """What is compared.

    Args:
        strategies: Names; `plain+random` is the strategy plain with the skip rule random.
        skip: Skip rules; each strategy is trained without a rule and with each of these.
        models: Names; without any, the configuration's model is trained.
        seeds: How many seeds, counted from the configuration's seed.
        grid: Further keys with the values to try.
        preset: The name of a list of settings that replaces `strategies` and `skip`.
        all: Whether the strategies are all that exist, and not a choice of the user.
    """

    strategies: Sequence[str] = ()
    skip: Sequence[str] = ()
    models: Sequence[str] = ()
    seeds: int = 5
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    preset: str | None = None
    all: bool = False

    def settings(self) -> Iterator[Keys]:
        """The keys of each setting: every combination."""
        models = [{"model.name": name} for name in self.models] or [{}]
        values = [dict(zip(self.grid, each, strict=True)) for each in product(*self.grid.values())]
        chosen = preset_settings(self.preset) if self.preset else list(self._strategies())
        for model, more, keys in product(models, values, chosen):
            yield {**model, **more, **keys}

    def _strategies(self) -> Iterator[Keys]:
        rules: list[Keys] = [{}, *({"skip.rule": rule} for rule in self.skip)]
        for rule, text in product(rules, self.strategies):
            name, plus, own_rule = text.partition("+")
            strategy(name)  # reports a typo
            if not (plus and rule):
                yield {"strategy": name, **({"skip.rule": own_rule} if plus else rule)}


def planned_runs(base: Config, choices: Choices) -> list[PlannedRun]:
    """The runs in their order: all settings with the first seed, then all with the next.

    So a machine that slows down slows all settings alike. Each round begins with another setting,
    so that none always comes first.

    Args:
        base: The configuration that all runs share.
        choices: What is compared.
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
        check_values(key, values)
        grid[key] = values
    return grid


def check_values(key: str, values: object) -> None:
    """Raise an error if a key of a grid has no list of values, or has a flag of its own."""
    if not isinstance(values, list) or not values:
        raise ConfigError(f"{key} has no list of values in the grid; write them as [a, b].")
    if key == "data":
        raise ConfigError("data cannot be in a grid: a comparison has one data set.")
    flags = {"seed": "seeds", "strategy": "strategies", "skip.rule": "skip", "model.name": "models"}
    if key in flags:
        raise ConfigError(f"{key} cannot be in a grid: use --{flags[key]}.")


def _with_keys(config: Config, keys: Keys) -> Config:
    return config.with_settings(f"{key}={json.dumps(value)}" for key, value in keys.items())


def _label(keys: Keys) -> str:
    """The model, the strategy, and the other keys that tell a setting from the others."""
    first = ("model.name", "strategy")
    words = [str(keys[key]) for key in first if key in keys]
    words += [key_label(key, value) for key, value in keys.items() if key not in first]
    return ", ".join(words)


def _file_name(label: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_.%+-]+", "-", label).strip("-")
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}-{hashlib.sha256(label.encode()).hexdigest()[:8]}"
