"""The table of rules, and of the keys that each reads."""

import sys

import msgspec
import pytest
from small_runs import config, skewed

from slipstream import ConfigError
from slipstream.config.skip import READ_BY, Skip
from slipstream.config.skip import RULES as NAMED
from slipstream.skip.rules import RULES, rule
from slipstream.training.loop import train
from slipstream.training.state import Hooks


def test_the_config_names_the_rules_that_there_are():
    assert set(NAMED) == set(RULES)


def test_a_rule_that_there_is_not_is_an_error_that_names_the_nearest():
    with pytest.raises(ConfigError, match="Did you mean value"):
        rule("valeu")


READ = set()


class Spied(Skip):
    """Notes which keys are read by code about skipping."""

    def __getattribute__(self, name):
        if sys._getframe(1).f_globals["__name__"].startswith("slipstream.skip"):
            READ.add(name)
        return super().__getattribute__(name)


@pytest.mark.parametrize("name", RULES)
def test_the_table_says_which_keys_a_rule_reads(name, tmp_path):
    READ.clear()
    keys = config(
        "skip.warmup_batches=2", "skip.warmup=0.1", "skip.sample_share=0.5", "compile=off"
    )
    skip = {
        **msgspec.structs.asdict(keys.skip),
        "rule": name,
        "hot_sample": 1.0,
        "hot_only": name == "random",
    }
    keys = keys.replace(skip=Spied(**skip))
    train(skewed(600), keys, tmp_path / "run")
    # The classifier asks for explore, and a sample is drawn, whatever the rule makes of them.
    told = set(READ_BY) - {"explore", "sample_inputs"}
    assert READ & told == {key for key in told if name in READ_BY[key]}


def test_a_key_that_the_rule_does_not_read_is_said_with_the_rules_that_do(tmp_path):
    said = []
    keys = config("skip.rule=value", "skip.h_t=0.1", "skip.hot_memory=5%", "skip.target=0.2")
    train(skewed(300), keys, tmp_path / "run", hooks=Hooks(say=said.append))
    assert [line for line in said if "does not read it" in line] == [
        "skip.hot_memory is '5%', but the rule value does not read it; published, random, "
        "movement and freeze do.",
        "skip.h_t is 0.1, but the rule value does not read it; published does.",
    ]


def test_keys_without_a_rule_and_keys_that_the_ordering_reads():
    assert Skip(target=0.5).unread("none") == [
        "skip.target is 0.5, but nothing is skipped: choose a rule (--skip), or leave it out."
    ]
    assert Skip(hot_memory="5%", h_f=3).unread("value", "cold-first") == []
    assert Skip(lag=9).unread("none") == Skip().unread("none") == []
