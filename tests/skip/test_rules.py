"""The registry of rules, and the options of each."""

import pytest
from small_runs import config, skewed

from slipstream import ConfigError
from slipstream.config.section import keys_of
from slipstream.skip import NAMES, RULES, SkipRule, register, rule_choice
from slipstream.training import build


def test_a_name_without_a_rule_is_an_error_that_names_the_nearest():
    with pytest.raises(ConfigError, match=r"skip.rule is 'valeu'.* Did you mean value"):
        build.check(config("skip.rule=valeu"), skewed(60))


def test_a_name_is_registered_once():
    with pytest.raises(ConfigError, match="already a skip rule 'value'"):
        register("value", SkipRule)
    assert ["none", *RULES] == NAMES


@pytest.mark.parametrize(
    ("rule", "options", "message"),
    [
        ("case-control", {"smothing": 5}, "has no option skip.options.smothing. Did you mean smoo"),
        ("random", {"smoothing": 5}, "The rule random has no option skip.options.smoothing"),
        ("none", {"h_f": 1}, "A run without a skip rule has no option skip.options.h_f"),
        ("thin", {"keep_negatives": 2}, "skip.options.keep_negatives is 2; it must be a number"),
        ("published", {"repeat": "x"}, "skip.options.repeat is 'x'; it must be true or false"),
    ],
)
def test_an_option_that_is_wrong_is_an_error_that_names_it(rule, options, message):
    with pytest.raises(ConfigError) as error:
        rule_choice(rule, options)
    assert message in str(error.value)


def test_the_order_cold_first_has_the_options_of_hot_rows_with_any_rule():
    for rule in ("none", "value", "published"):
        choice = rule_choice(rule, {"hot_memory": "5%"}, "cold-first")
        assert choice.hot.hot_memory == "5%"
        assert choice.needs_hot_rows == (rule == "published")


@pytest.mark.parametrize("name", RULES)
def test_every_option_has_a_meaning_and_a_default_that_is_allowed(name):
    rule_choice(name, {})
    assert all(key.meaning for key in keys_of(RULES[name].Options).values())
