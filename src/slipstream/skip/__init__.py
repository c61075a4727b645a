"""Which examples are trained: skip rules, their decisions, and the order without the skipped.

To read in this order: `rule` and `rules/value` (a rule), `context` and `candidates` (its view of
the run), `decision` and `judge` (which examples it skips), `order` (batches of the others), and
`skipper` (called after steps by the training loop). The other files serve these.
"""

from slipstream.skip import rules
from slipstream.skip.candidates import Candidates
from slipstream.skip.registry import NAMES, RULES, register, rule_choice
from slipstream.skip.rule import RowScores, SkipRule
from slipstream.skip.threshold import Threshold, quantile

__all__ = [
    "NAMES",
    "RULES",
    "Candidates",
    "RowScores",
    "SkipRule",
    "Threshold",
    "quantile",
    "register",
    "rule_choice",
    "rules",
]
