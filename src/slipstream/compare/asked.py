"""What is to be compared, as a file and the command line say it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slipstream.compare.grid import CONTROL, Choices, check_values, parse_grid
from slipstream.config import Config, files
from slipstream.errors import ConfigError, did_you_mean
from slipstream.pipeline.strategies import STRATEGIES

SECTION = "compare"
_KEYS = ("strategies", "skip", "models", "seeds", "grid")
# Of a comparison, where nothing else is asked for: budgets that work on any data, a curve to read
# times from, and nothing on the disk that a comparison does not need.
DEFAULTS: dict[str, Any] = {
    "placement.fast_memory": "auto",
    "evaluate.at": [round(0.1 * n, 1) for n in range(1, 10)],
    "checkpoint.every_minutes": 5,
    "log.tensorboard": False,
}


def asked(
    file: Path | None, flags: Mapping[str, Any], settings: Sequence[str], lists: Mapping[str, Any]
) -> tuple[Config, Choices, bool]:
    """The configuration of all runs, and what they differ in.

    Args:
        file: A YAML file as for training, with a section `compare` if there is to be one.
        flags: Keys of the configuration that have a flag of their own; None is not given.
        settings: Further keys, each `key=value`.
        lists: strategies, skip and models as texts with commas, seeds as a number, grid as a list
            of settings with several values; None is not given.

    Returns:
        Configuration, choices, and whether the strategies were named rather than being all.
    """
    given, lines = files.read(file) if file else ({}, {})
    section = given.pop(SECTION, None) or {}
    _check(section, file)
    config = Config.from_file(given, lines, file) if file else Config()
    held = {".".join(path) for path in lines}
    keys = {key: value for key, value in DEFAULTS.items() if key not in held}
    keys |= {key: value for key, value in flags.items() if value is not None}
    texts = [f"{key}={json.dumps(value)}" for key, value in keys.items()]
    config = config.with_settings([*texts, *settings])

    def chosen(name: str, default: Sequence[str]) -> list[str]:
        text = lists.get(name)
        if text is None:
            return list(section.get(name, default))
        return [one.strip() for one in text.split(",") if one.strip()]

    grid = parse_grid(lists.get("grid") or []) or dict(section.get("grid", {}))
    named = lists.get("strategies") is not None or "strategies" in section
    choices = Choices(
        chosen("strategies", all_strategies()),
        chosen("skip", ()),
        chosen("models", ()),
        lists.get("seeds") or section.get("seeds", Choices.seeds),
        grid,
    )
    if not choices.strategies:
        raise ConfigError(f"No strategy is named. Choose from {', '.join(STRATEGIES)}.")
    return config, choices, named


def all_strategies() -> list[str]:
    """Every strategy, and where one of them skips also the control that skips by chance."""
    skips = any(one.skipping != "none" for one in STRATEGIES.values())
    return [*STRATEGIES, *([CONTROL] if skips else [])]


def _check(section: Any, file: Path | None) -> None:
    where = f"{file}: the section {SECTION}"
    if not isinstance(section, dict):
        raise ConfigError(f"{where} is {section!r}; it must be a mapping of keys.")
    for key, value in section.items():
        if key not in _KEYS:
            raise ConfigError(f"{where} has no key {key!r}.{did_you_mean(str(key), _KEYS)}")
        if key == "seeds":
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ConfigError(
                    f"{where}: seeds is {value!r}; it must be a number of at least 1."
                )
        elif key == "grid":
            if not isinstance(value, dict):
                raise ConfigError(f"{where}: grid is {value!r}; it must be a mapping of keys.")
            for name, values in value.items():
                check_values(str(name), values)
        elif not isinstance(value, list):
            raise ConfigError(f"{where}: {key} is {value!r}; it must be a list of names.")
