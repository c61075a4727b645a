"""How to repeat runs: one configuration, and a command for each run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from typing import Any

from slipstream.analyze.report.runs import RunRecord
from slipstream.config import files

_ABSENT = object()


def shared_config(runs: Sequence[RunRecord]) -> str:
    """The complete configuration of the first run, as YAML."""
    return files.dump(runs[0].config)


def command(run: RunRecord, runs: Sequence[RunRecord]) -> str:
    """The command that repeats a run, with the shared configuration in `config.yaml`."""
    words = ["slipstream", "train", "--config", "config.yaml"]
    for key, value in run.keys.items():
        if runs[0].keys.get(key, _ABSENT) != value:
            words += ["--set", f"{key}={_written(value)}"]
    return shlex.join([*words, "--out", f"again/{run.folder.name}"])


def versions(runs: Sequence[RunRecord]) -> dict[str, list[str]]:
    """The versions of the packages that runs were trained with; several where they differ."""
    packages: dict[str, dict[str, None]] = {}
    for run in runs:
        for name, version in ((run.summary or {}).get("versions") or {}).items():
            packages.setdefault(str(name), {})[str(version)] = None
    return {name: list(each) for name, each in packages.items()}


def _written(value: Any) -> str:
    """A value as YAML for `--set`, without quotes where they are not needed."""
    return value if isinstance(value, str) and value.isidentifier() else json.dumps(value)
