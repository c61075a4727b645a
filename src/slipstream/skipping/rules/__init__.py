"""The rules by which inputs are skipped: one file each, one line here."""

from __future__ import annotations

from slipstream.errors import ConfigError, did_you_mean
from slipstream.skipping.rule import Rule
from slipstream.skipping.rules.random import Random
from slipstream.skipping.rules.thin import Thin
from slipstream.skipping.rules.value import Value

RULES: dict[str, type[Rule]] = {
    "random": Random,
    "value": Value,
    "thin": Thin,
}


def rule(name: str) -> type[Rule]:
    """The rule of that name."""
    if name not in RULES:
        raise ConfigError(f"There is no rule {name!r} for skipping.{did_you_mean(name, RULES)}")
    return RULES[name]
