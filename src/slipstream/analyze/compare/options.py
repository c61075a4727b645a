"""The options of a comparison, from its configuration file and from the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slipstream.analyze.compare.grid import Choices, check_values, parse_grid
from slipstream.config import Config, files
from slipstream.errors import ConfigError, did_you_mean
from slipstream.pipeline.strategies import STRATEGIES

SECTION = "compare"
CONTROL = "plain+random"
"""The control of strategies that skip: the same share of examples is skipped at random."""
_KEYS = ("preset", "strategies", "skip", "models", "seeds", "grid")
# These differ from the defaults of `train`: a fast tier that fits any data, a curve with several
# points, and no files that a comparison does not need.
DEFAULTS: dict[str, Any] = {
    "placement.fast_memory": "auto",
    "evaluate.at": [round(0.1 * n, 1) for n in range(1, 10)],
    "checkpoint.every_minutes": 5,
    "log.trackers": [],
}


def read_options(
    file: Path | None, flags: Mapping[str, Any], settings: Sequence[str], lists: Mapping[str, Any]
) -> tuple[Config, Choices]:
    """The configuration that all runs share, and what they differ in.

    Args:
        file: A YAML file as for training, with an optional section `compare`.
        flags: Keys of the configuration that have their own flag; None if it is not set.
        settings: Further keys, each as `key=value`.
        lists: The flags that say what to compare, by name; names are separated by commas, `grid`
            is a list of `key=value,value`. None if it is not set.
    """
    mapping, lines = files.read(file) if file else ({}, {})
    section = mapping.pop(SECTION, None) or {}
    _check(section, f"{file}: the section {SECTION}")
    config = Config.from_file(mapping, lines, file) if file else Config()
    in_file = {".".join(path) for path in lines}
    keys = {key: value for key, value in DEFAULTS.items() if key not in in_file}
    keys |= {key: value for key, value in flags.items() if value is not None}
    texts = [f"{key}={json.dumps(value)}" for key, value in keys.items()]
    config = config.with_settings([*texts, *settings])

    chosen = dict(section)
    for name, value in lists.items():
        if name == "grid" and value:
            chosen[name] = parse_grid(value)
        elif name in ("strategies", "skip", "models") and value is not None:
            chosen[name] = [word.strip() for word in value.split(",") if word.strip()]
        elif name != "grid" and value is not None:
            chosen[name] = value
    if chosen.get("preset") and (chosen.get("strategies") or chosen.get("skip")):
        raise ConfigError(
            f"The preset {chosen['preset']} names its own strategies and rules: leave "
            "--strategies and --skip out."
        )
    default: dict[str, Any] = {"strategies": all_strategies(), "all": "strategies" not in chosen}
    choices = Choices(**default | chosen)
    if not choices.strategies:
        raise ConfigError(f"No strategy is named. Choose from {', '.join(STRATEGIES)}.")
    return config, choices


def all_strategies() -> list[str]:
    """Every strategy, and the control if one of them skips examples."""
    skips = any(strategy.skipping != "none" for strategy in STRATEGIES.values())
    return [*STRATEGIES, *([CONTROL] if skips else [])]


def _check(section: Any, where: str) -> None:
    if not isinstance(section, dict):
        raise ConfigError(f"{where} is {section!r}; it must be a mapping of keys.")
    kinds = {"preset": "a name", "seeds": "a number of at least 1", "grid": "a mapping of keys"}
    types: dict[str, type] = {"preset": str, "seeds": int, "grid": dict}
    for key, value in section.items():
        if key not in _KEYS:
            raise ConfigError(f"{where} has no key {key!r}.{did_you_mean(str(key), _KEYS)}")
        right = isinstance(value, types.get(key, list)) and not isinstance(value, bool)
        if not right or (key == "seeds" and value < 1):
            kind = kinds.get(key, "a list of names")
            raise ConfigError(f"{where}: {key} is {value!r}; it must be {kind}.")
        if key == "grid":
            for name, values in value.items():
                check_values(str(name), values)
