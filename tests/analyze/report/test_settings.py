import pytest
from analyze.report.made_runs import run

from slipstream import Config
from slipstream.analyze.report import settings
from slipstream.analyze.report.settings import groups_of


def labels(runs):
    return [
        (group.label, [setting.label for setting in group.settings]) for group in groups_of(runs)
    ]


def test_seeds_are_taken_together_and_plain_comes_first():
    runs = [run("fast", 0), run("plain", 0), run("fast", 1), run("plain", 1)]
    assert labels(runs) == [("", ["plain", "fast"])]
    assert [len(setting.runs) for setting in groups_of(runs)[0].settings] == [2, 2]


def test_other_data_and_other_models_are_never_compared():
    runs = [run("plain"), run("plain", config={"data": "b"}), run("fast", config={"data": "b"})]
    assert [len(group.settings) for group in groups_of(runs)] == [1, 2]
    runs = [run("plain"), run("fast", config={"model": {"name": "dcn"}})]
    assert [group.label for group in groups_of(runs)] == ["dlrm", "dcn"]


def test_a_label_has_no_more_keys_than_it_takes():
    tiers = [{"placement": {"fast_memory": f"{n}%", "window": n}} for n in (5, 10)]
    runs = [run("plain"), run("fast", config=tiers[0]), run("fast", config=tiers[1])]
    assert labels(runs) == [("", ["plain", "fast, fast_memory 5%", "fast, fast_memory 10%"])]


@pytest.mark.parametrize("key", ["log", "checkpoint", "evaluate"])
def test_what_changes_nothing_tells_no_runs_apart(key):
    runs = [run("plain", 0, config={key: {"every": 1}}), run("plain", 1)]
    assert labels(runs) == [("", ["plain"])]


def test_the_baseline_is_the_plain_run_that_is_most_alike():
    def on(device, strategy):
        return run(strategy, config={"device": device})

    (group,) = groups_of([on(d, s) for d in ("cpu", "cuda") for s in ("plain", "fast")])
    fast = {each.keys["device"]: each for each in group.settings if each.strategy == "fast"}
    assert group.baseline(fast["cuda"]).keys["device"] == "cuda"
    assert group.baseline(fast["cpu"]).keys["device"] == "cpu"


def test_plain_training_that_skips_is_no_baseline():
    skipping = run("plain", skip_share=0.3, config={"skip": {"rule": "random"}})
    (group,) = groups_of([skipping, run("plain", config={"skip": {"rule": "none"}})])
    assert group.baseline(group.settings[1]).keys["skip.rule"] == "none"


def test_what_is_left_to_the_strategy_has_no_word_in_a_label():
    rules = [None, "random", "value"]
    runs = [run("plain", config={"skip": {"rule": rule}}) for rule in rules]
    assert labels(runs) == [("", ["plain", "plain, skip random", "plain, skip value"])]


def test_runs_of_one_rule_are_named_by_it():
    assert labels([run(config={"skip": {"rule": "value"}})]) == [("", ["plain, skip value"])]
    assert labels([run(config={"skip": {"rule": "none"}})]) == [("", ["plain"])]


def test_runs_that_differ_in_their_order_are_compared():
    runs = [run("plain"), run("plain", config={"order": {"kind": "cold-first"}})]
    assert labels(runs) == [("", ["plain", "plain, order cold-first"])]


def test_the_keys_that_say_how_a_run_learns_exist():
    assert set(settings._HOW + settings._NEITHER) <= set(Config.__struct_fields__)


def test_a_lag_that_a_run_chose_is_not_its_label():
    skip = [{"lag": 9}, {"lag": 8}]
    runs = [run("slipstream", config={"skip": keys}) for keys in skip]
    runs[1].config["placement"] = {"kind": "slow"}
    assert labels(runs) == [("", ["slipstream", "slipstream, placement slow"])]
