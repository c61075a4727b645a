"""Runs that skip: the share asked for, bitwise resume, nothing changed where nothing is skipped."""

import numpy as np
import pytest
from small_runs import config, lines, skewed, stop_after

from slipstream.skipping.rules import RULES
from slipstream.training.loop import StoppedError, train

SHORT = ("skip.warmup=0.1", "skip.interval=0.1", "placement.fast_memory=60%", "ordering.segment=4")
RUNS = [
    ("plain", {}),
    ("fae", {}),
    ("hotline", {"compile": "off"}),
    ("fast", {}),
]


@pytest.fixture(scope="module")
def data():
    labels = (np.random.default_rng(5).random(3000) < 0.2).astype(int)
    return skewed(3000, labels=labels)


def run(data, out, rule, *settings, strategy="plain", hooks=None, resume=False, **keys):
    made = config(*SHORT, f"skip.rule={rule}", *settings, strategy=strategy, **keys)
    return train(data, made, out, hooks=hooks, resume=resume)


@pytest.mark.parametrize(("strategy", "keys"), RUNS)
def test_share_0_is_bitwise_a_run_without_skipping(data, tmp_path, strategy, keys):
    plain = run(data, tmp_path / "plain", "none", strategy=strategy, **keys)
    ours = run(data, tmp_path / "0", "value", "skip.target=0", strategy=strategy, **keys)
    assert ours["weights_digest"] == plain["weights_digest"] or strategy == "fae"
    assert ours["inputs_skipped"] == 0
    if strategy == "fae":  # a decision on its rate may come later, for what skipping might leave
        same = run(data, tmp_path / "f", "none", "ordering.lag=6", strategy=strategy, **keys)
        assert ours["weights_digest"] == same["weights_digest"]


@pytest.mark.parametrize("rule", RULES)
def test_the_share_asked_for_is_the_share_got_or_the_run_says_why(data, tmp_path, rule):
    summary = run(data, tmp_path / "run", rule, "skip.target=0.3", batch_size=8)
    decided = [one for one in summary["skipping"]["decisions"] if "asked" in one]
    inputs = sum(one["inputs"] for one in decided)
    skipped = sum(one["inputs"] * (one["share"] or 0) for one in decided)
    said = [line["why"] for line in lines(tmp_path / "run", "skipping")]
    assert abs(skipped / inputs - 0.3) < 0.02 or any(said)
    assert summary["inputs_skipped"] == round(skipped) > 0
    assert summary["inputs_trained"] + summary["inputs_skipped"] == summary["inputs_total"]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("strategy", "keys"), RUNS)
def test_a_run_that_was_stopped_ends_where_an_uninterrupted_one_does(
    data, tmp_path, rule, strategy, keys
):
    if (strategy != "plain" and rule != "value") or strategy == "hotline":
        return  # what hotline learns of popular rows it learns anew: the same up to rounding
    whole = run(data, tmp_path / "whole", rule, strategy=strategy, epochs=2, **keys)
    for stop in (25, 90, 170):
        with pytest.raises(StoppedError):
            more = {"hooks": stop_after(stop), "resume": stop > 25}
            run(data, tmp_path / "r", rule, strategy=strategy, epochs=2, **more, **keys)
    again = run(data, tmp_path / "r", rule, strategy=strategy, epochs=2, resume=True, **keys)
    for key in ("weights_digest", "auc", "inputs_trained", "inputs_skipped"):
        assert again[key] == whole[key]
    assert again["skipping"]["decisions"] == whole["skipping"]["decisions"]


@pytest.mark.parametrize("strategy", ["fae", "fast"])
def test_where_rows_live_does_not_change_what_is_skipped_or_learned(data, tmp_path, strategy):
    settings = ("ordering.kind=as-is", "skip.lag=30")
    plain = run(data, tmp_path / "plain", "value", "skip.lag=30")
    other = run(data, tmp_path / "other", "value", *settings, strategy=strategy)
    assert other["weights_digest"] == plain["weights_digest"]


def test_thinned_negatives_leave_predictions_calibrated(data, tmp_path):
    settings = ("skip.target=0.6", "dense.lr=0.05")
    thin = run(data, tmp_path / "thin", "thin", *settings, epochs=4)
    assert thin["skipping"]["label_rate_skipped"] == 0
    assert thin["skipping"]["label_rate_trained"] > 0.3
    assert 0.8 < thin["calibration"] < 1.25


def test_shares_are_asked_for_in_turn(data, tmp_path):
    run(data, tmp_path / "run", "random", "skip.shares=[0.1, 0.5]")
    asked = [line["asked"] for line in lines(tmp_path / "run", "skipping")]
    assert asked[:3] == [0.1, 0.5, 0.5]
