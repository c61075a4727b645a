"""The built-in rules: one file each, one line of registration each."""

from slipstream.skip.registry import register
from slipstream.skip.rules.case_control import CaseControl
from slipstream.skip.rules.freeze import Freeze
from slipstream.skip.rules.movement import Movement
from slipstream.skip.rules.published import Published
from slipstream.skip.rules.random import Random
from slipstream.skip.rules.thin import Thin
from slipstream.skip.rules.value import Value

register("published", Published)
register("random", Random)
register("movement", Movement)
register("value", Value)
register("thin", Thin)
register("case-control", CaseControl)
register("freeze", Freeze)
