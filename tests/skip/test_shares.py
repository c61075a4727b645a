"""Every rule and order skips its target share, or the run has the reason why not."""

import re

import numpy as np
import pytest
from small_runs import clicks, config, lines, skewed, skip_rule

from slipstream.skip import RULES
from slipstream.training.loop import train

pytestmark = pytest.mark.usefixtures("segments_of_12_batches")
SHORT = (
    "skip.warmup=0.1",
    "skip.interval=0.1",
    "placement.fast_memory=60%",
)


def run(data, out, rule, *settings, strategy="plain", share=0.3):
    """A run with small batches, so that a decision soon holds."""
    hot = ("skip.options.hot_sample=1",) if strategy == "slipstream" else ()
    keys = (*skip_rule(rule), f"skip.target={share}", *SHORT, *hot)
    keys_of_run = config(*keys, *settings, strategy=strategy, batch_size=8, compile="off")
    return train(data, keys_of_run, out)


def judged(summary):
    """Examples that decisions judged, and how many of them were skipped."""
    decided = [each for each in summary["skipping"]["decisions"] if "target" in each]
    assert decided
    skipped = sum(each["inputs"] * (each["share"] or 0) for each in decided)
    assert summary["inputs_skipped"] == round(skipped)
    assert summary["inputs_trained"] + summary["inputs_skipped"] == summary["inputs_total"]
    return sum(each["inputs"] for each in decided), skipped


SHARED = ["random-hot", *(rule for rule in RULES if rule not in ("published", "freeze"))]
ORDERED = [  # every order with rules of each kind: by chance, by rows, by labels
    *(("fae", rule) for rule in ("random", "movement", "thin")),
    *(("hotline", rule) for rule in ("random-hot", "value")),
    *(("fast", rule) for rule in ("case-control", "random-hot")),
    *(("slipstream", rule) for rule in ("random", "random-hot", "movement", "case-control")),
]


@pytest.mark.parametrize(("strategy", "rule"), [*(("plain", rule) for rule in SHARED), *ORDERED])
def test_the_share_skipped_is_the_target_within_two_points(data, tmp_path, strategy, rule):
    count, skipped = judged(run(data, tmp_path / "run", rule, strategy=strategy))
    assert skipped / count == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize("strategy", ["plain", "slipstream"])
def test_the_published_rule_skips_the_share_of_hot_examples_of_its_search(data, tmp_path, strategy):
    summary = run(
        data, tmp_path / "run", "published", "skip.options.hot_memory=70%", strategy=strategy
    )
    (each,) = [each for each in summary["skipping"]["decisions"] if "target" in each]
    judged(summary)
    assert each["why"] in ("", "within the tolerance of 0.08")
    assert each["reached"] == pytest.approx(0.3, abs=0.08)
    if strategy == "slipstream":  # only hot examples are left
        # A sample of half of a few hundred hot examples: three standard errors are 5 points.
        assert each["share"] == pytest.approx(each["reached"], abs=0.05)
    else:
        assert 0.05 < each["share"] / each["reached"] < 0.95


@pytest.mark.parametrize("strategy", ["plain", "fae"])
def test_freezing_leaves_out_the_share_of_row_updates(data, tmp_path, strategy):
    summary = run(data, tmp_path / "run", "freeze", strategy=strategy)
    assert summary["skipping"]["row_updates_frozen"] == pytest.approx(0.3, abs=0.02)
    assert summary["inputs_skipped"] == 0


def reasons_of(out):
    """The reasons of all decisions; each has one."""
    reasons = [line["why"] for line in lines(out, "skipping")]
    assert all(reasons)
    return reasons


def test_where_few_examples_are_hot_the_reason_names_their_share(data, tmp_path):
    out = tmp_path / "run"
    settings = ("skip.options.hot_memory=8%",)
    summary = run(data, out, "random-hot", *settings, share=0.8)
    count, skipped = judged(summary)
    named = [
        float(re.fullmatch(r"only (.*) % of the sample can be skipped", why)[1]) / 100
        for why in reasons_of(out)
    ]
    assert 0.02 < skipped / count < 0.6
    assert np.mean(named) == pytest.approx(skipped / count, abs=0.03)
    text = summary["skipping"]["sentence"]
    assert f"{skipped / count:.1%} of {count:,} judged examples".replace("%", " %") in text
    assert "target 80.0 %; reason: only" in text


def test_where_few_examples_are_negative_the_reason_names_their_share(tmp_path):
    labels = (np.random.default_rng(5).random(2000) < 0.6).astype(int)
    out = tmp_path / "run"
    summary = run(skewed(2000, labels=labels), out, "thin", share=0.7)
    count, skipped = judged(summary)
    named = [
        float(re.fullmatch(r"only (.*) % of the sample are negatives", why)[1]) / 100
        for why in reasons_of(out)
    ]
    assert np.mean(named) == pytest.approx(0.4, abs=0.03)
    assert skipped / count == pytest.approx(0.4 * 0.99, abs=0.03)


def test_where_all_examples_are_alike_that_is_the_reason(data, tmp_path):
    same = clicks(1000, columns={"user": np.zeros(1000, dtype=int)})
    out = tmp_path / "run"
    _, skipped = judged(run(same, out, "value"))
    assert skipped == 0
    assert set(reasons_of(out)) == {"many examples have the same score"}


def test_a_published_search_without_success_skips_nothing_and_has_a_reason(data, tmp_path):
    out = tmp_path / "run"
    summary = run(data, out, "published", "skip.options.max_movement=1e-9")
    _, skipped = judged(summary)
    assert skipped == 0
    (why,) = reasons_of(out)
    assert why.startswith("in 25 steps no threshold up to 1e-09 came within 0.08 of the share")
    assert why in summary["skipping"]["sentence"]


@pytest.mark.parametrize(("target", "lag"), [(0.3, 200), (0.7, 20)])
def test_with_a_lag_of_many_intervals_shares_do_not_swing(target, lag, tmp_path):
    random, n = np.random.default_rng(0), 5000
    columns = {k: (rows * random.random(n) ** 4).astype(int) for k, rows in (("a", 900), ("b", 90))}
    many = clicks(n, columns=columns)
    keys = (f"skip.target={target}", f"skip.lag={lag}", "skip.rule=value")
    keys_of_run = config(*keys, batch_size=8, epochs=5)
    decisions = train(many, keys_of_run, tmp_path / "run")["skipping"]["decisions"][1:]
    late = [each["wanted"] for each in decisions if each["inputs"]]
    assert len(late) > 60
    assert max(abs(each - target) for each in late) < 0.06
