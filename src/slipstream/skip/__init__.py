"""Which examples are trained: skip rules, their decisions, and the order without the skipped."""

from slipstream.skip import rules
from slipstream.skip.candidates import Candidates
from slipstream.skip.registry import NAMES, RULES, register, rule_choice
from slipstream.skip.rule import RowTables, SkipRule
from slipstream.skip.threshold import Threshold, quantile

__all__ = [
    "NAMES",
    "RULES",
    "Candidates",
    "RowTables",
    "SkipRule",
    "Threshold",
    "quantile",
    "register",
    "rule_choice",
    "rules",
]
