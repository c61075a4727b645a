"""The table of rules."""

from typing import get_args

import pytest

from slipstream import ConfigError
from slipstream.config.skip import RuleName
from slipstream.skipping.rules import RULES, rule


def test_the_config_names_the_rules_that_there_are():
    assert set(get_args(RuleName)) == {"none", *RULES}


def test_a_rule_that_there_is_not_is_an_error_that_names_the_nearest():
    with pytest.raises(ConfigError, match="Did you mean value"):
        rule("valeu")
