"""Which runs a comparison consists of, and in what order."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from slipstream.config import Config, files
from slipstream.errors import ConfigError
from slipstream.pipeline.strategies import strategy

Keys = dict[str, Any]
CONTROL = "plain+random"
"""What stands beside strategies that skip: skipping by chance."""
_LONGEST = 100  # characters of a label in the name of a folder


@dataclass(frozen=True)
class PlannedRun:
    """A run of a comparison.

    Args:
        name: Of its folder.
        variant: What to call it without its seed.
        config: How it is trained, seed included.
    """

    name: str
    variant: str
    config: Config


@dataclass(frozen=True)
class Choices:
    """What is compared.

    Args:
        strategies: By name; `plain+random` is one with a rule of skipping.
        skip: Rules of skipping; each strategy is trained by itself and with each of these.
        models: By name; none is the configuration's.
        seeds: How many, from the configuration's on.
        grid: Further keys with the values that each is to have.
    """

    strategies: Sequence[str]
    skip: Sequence[str] = ()
    models: Sequence[str] = ()
    seeds: int = 5
    grid: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def variants(self) -> Iterator[Keys]:
        """The keys of each variant: everything combined with everything."""
        models = [{"model.name": name} for name in self.models] or [{}]
        skips: list[Keys] = [{}, *({"skip.rule": rule} for rule in self.skip)]
        grid = [
            dict(zip(self.grid, values, strict=True)) for values in product(*self.grid.values())
        ]
        for model, more, skip, text in product(models, grid, skips, self.strategies):
            name, plus, rule = text.partition("+")
            strategy(name)  # a typo is named now
            if plus and skip:
                continue  # it has a rule already
            own = {"skip.rule": rule} if plus else skip
            yield {**model, **more, "strategy": name, **own}


def planned(base: Config, choices: Choices) -> list[PlannedRun]:
    """The runs in their order: all variants with one seed, then all with the next.

    A machine that gets slower then hurts all alike. Each round begins with another variant, so
    that none is always the first.

    Args:
        base: The configuration of all.
        choices: What is compared.
    """
    variants = list(choices.variants())
    configs = [_with(base, keys) for keys in variants]
    labels = [_label(keys) for keys in variants]
    twice = next((one for one in labels if labels.count(one) > 1), None)
    if twice is not None:
        raise ConfigError(f"{twice} is asked for twice; name each strategy, model and value once.")
    runs = []
    for number in range(choices.seeds):
        seed = base.seed + number
        shift = number % len(variants)
        for place in (*range(shift, len(variants)), *range(shift)):
            runs.append(_named(labels[place], configs[place], seed))
    return runs


def planned_run(base: Config, keys: Keys, seed: int) -> PlannedRun:
    """A single run, by what it changes of a configuration.

    Example:
        >>> planned_run(Config(), {"strategy": "plain", "skip.rule": "value"}, 3).name
        'plain-skip-value-seed3'
    """
    return _named(_label(keys), _with(base, keys), seed)


def _named(label: str, config: Config, seed: int) -> PlannedRun:
    return PlannedRun(f"{_file_name(label)}-seed{seed}", label, _with(config, {"seed": seed}))


def parse_grid(settings: Sequence[str]) -> dict[str, list[Any]]:
    """Keys with several values, as the command line has them.

    Example:
        >>> parse_grid(["placement.fast_memory=5%,10%", "model.top=[[64, 32], [128]]"])
        {'placement.fast_memory': ['5%', '10%'], 'model.top': [[64, 32], [128]]}
    """
    made: dict[str, list[Any]] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        key = key.strip()
        if not equals or not key:
            raise ConfigError(f"{setting!r} is no part of a grid; write KEY=VALUE,VALUE.")
        if key in made:
            raise ConfigError(f"{key} is given twice in the grid; put all its values in one list.")
        given, _ = files.parse(text, key)
        values = given if isinstance(given, list) else _split(text, key)
        check_values(key, values)
        made[key] = values
    return made


def check_values(key: str, values: object) -> None:
    """Raise an error where a key of a grid has not a list of values."""
    if not isinstance(values, list) or not values:
        raise ConfigError(f"{key} has no list of values in the grid; write them as [a, b].")
    if key in ("seed", "strategy", "skip.rule", "model.name", "data"):
        flag = {"seed": "seeds", "skip.rule": "skip", "model.name": "models"}.get(key, "strategies")
        what = "one data set" if key == "data" else f"them by --{flag}"
        raise ConfigError(f"{key} is no key for a grid: a comparison has {what}.")


def _split(text: str, key: str) -> list[Any]:
    return [files.parse(part, key)[0] for part in text.split(",")]


def _with(config: Config, keys: Keys) -> Config:
    return config.with_settings(f"{key}={json.dumps(value)}" for key, value in keys.items())


def _label(keys: Keys) -> str:
    """The strategy, and what else tells the variant from the others."""
    words = [str(keys["strategy"])]
    for key, value in keys.items():
        if key == "skip.rule":
            words.append(f"skip {value}")
        elif key == "model.name":
            words.insert(0, str(value))
        elif key != "strategy":
            words.append(f"{key.rpartition('.')[2]} {value}")
    return ", ".join(words)


def _file_name(label: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_.%+-]+", "-", label).strip("-")
    if len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}-{hashlib.sha256(label.encode()).hexdigest()[:8]}"
