"""The options of a comparison, from its configuration file and from the command line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from slipstream.analyze.compare.grid import Choices, parse_grid
from slipstream.config import Config, files

# These differ from the defaults of `train`: a fast tier that fits any data, a curve with several
# points, and no files that a comparison does not need.
DEFAULTS: dict[str, Any] = {
    "placement.fast_memory": "auto",
    "evaluate.at": [round(0.1 * n, 1) for n in range(1, 10)],
    "checkpoint.every_minutes": 5,
    "log.trackers": [],
}


class _FileConfig(Config, frozen=True, kw_only=True):
    """A configuration file with a section about the comparison."""

    compare: Choices = Choices()


def read_options(
    file: Path | None, flags: Mapping[str, Any], settings: Sequence[str], lists: Mapping[str, Any]
) -> tuple[Config, Choices]:
    """The configuration that all runs share, and their differences.

    Args:
        file: A YAML file as for training, with an optional section `compare`.
        flags: Keys of the configuration that have their own flag; None if it is not set.
        settings: Further keys, each as `key=value`.
        lists: The flags for `Choices`: names separated by commas, `grid` as `key=value,value`.
    """
    content, lines = (_FileConfig.read(file), files.read(file)[1]) if file else (_FileConfig(), {})
    config = Config(**{name: getattr(content, name) for name in Config.__struct_fields__})
    in_file = {".".join(path) for path in lines}
    keys = {key: value for key, value in DEFAULTS.items() if key not in in_file}
    keys |= {key: value for key, value in flags.items() if value is not None}
    config = config.with_settings(
        [*(f"{key}={json.dumps(value)}" for key, value in keys.items()), *settings]
    )
    chosen = {name: value for name, value in lists.items() if value is not None}
    for name in chosen.keys() & {"strategies", "skip", "models"}:
        chosen[name] = [word.strip() for word in chosen[name].split(",") if word.strip()]
    if grid := chosen.pop("grid", None):
        chosen["grid"] = parse_grid(grid)
    return config, content.compare.replace(**chosen)
