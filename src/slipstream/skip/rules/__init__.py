"""The rules by which inputs are skipped: one file each, one line here."""

from __future__ import annotations

from slipstream.errors import ConfigError, did_you_mean
from slipstream.skip.rule import Rule
from slipstream.skip.rules.case_control import CaseControl
from slipstream.skip.rules.freeze import Freeze
from slipstream.skip.rules.movement import Movement
from slipstream.skip.rules.published import Published
from slipstream.skip.rules.random import Random
from slipstream.skip.rules.thin import Thin
from slipstream.skip.rules.value import Value

RULES: dict[str, type[Rule]] = {
    "published": Published,
    "random": Random,
    "movement": Movement,
    "value": Value,
    "thin": Thin,
    "case-control": CaseControl,
    "freeze": Freeze,
}
NAMES = ("none", *RULES)


def rule(name: str) -> type[Rule]:
    """The rule of that name."""
    if name not in RULES:
        raise ConfigError(f"There is no rule {name!r} for skipping.{did_you_mean(name, RULES)}")
    return RULES[name]
