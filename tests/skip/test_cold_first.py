"""Skipping where all hot examples come last: no decision holds for much longer than intended."""

import numpy as np
import pytest
from small_runs import config, lines, skewed, skip_rule

from slipstream.skip.accesses import AccessReader
from slipstream.skip.rule import Due
from slipstream.skip.rules.published import Published
from slipstream.training import build
from slipstream.training.example_order import hot_rows_of
from slipstream.training.loop import train
from slipstream.training.state import Hooks

KEYS = (
    *(
        "order.kind=cold-first",
        "skip.options.hot_memory=8%",
        "skip.options.hot_sample=1",
        "compile=off",
    ),
    *("skip.warmup=0.1", "evaluate.at=[]"),
)


@pytest.fixture(scope="module")
def data():
    labels = (np.random.default_rng(5).random(6000) < 0.2).astype(int)
    return skewed(6000, labels=labels)


@pytest.mark.parametrize("rule", ["random-hot", "movement", "value"])
def test_no_decision_holds_for_much_more_than_an_interval_whatever_it_skips(data, tmp_path, rule):
    keys = config(*KEYS, *skip_rule(rule), "skip.target=0.3", batch_size=8)
    summary = train(data, keys, tmp_path / "run")
    every = round(0.05 * len(data.train))
    decisions = summary["skipping"]["decisions"]
    assert max(each["inputs"] for each in decisions[1:]) < 2 * every
    assert summary["inputs_skipped"] > 0
    # Among hot examples a decision skips no more than it may compensate; where these begin, the
    # decision before still holds.
    assert all((each["share"] or 0) < 0.7 for each in decisions)


def test_the_lag_of_a_decision_is_no_longer_than_an_interval_at_high_shares(data, tmp_path):
    keys = (*skip_rule("random-hot"), "skip.target=0.9", "skip.lag=8", "skip.interval=0.2")
    train(data, config(*KEYS, *keys, batch_size=8), tmp_path / "run")
    every = round(0.2 * len(data.train))
    at = [each["position"] for each in lines(tmp_path / "run", "skipping")]
    assert at
    assert max(np.diff(at)) < 1.5 * every


def test_snapshot_a_waits_for_the_first_hot_examples_where_no_batches_come_before(
    data, tmp_path, monkeypatch
):
    snapshots, due_after = [], Published.due

    def noted(self, plan, before):
        due = due_after(self, plan, before)
        if due == Due.SNAPSHOT:
            snapshots.append(plan.next_position)
        return due

    monkeypatch.setattr(Published, "due", noted)
    keys = skip_rule("published", warmup_batches=0, sample_share=1)
    chosen = config(*KEYS, *keys, "skip.lag=5", batch_size=8)
    train(data, chosen, tmp_path / "run")
    hot = hot_rows_of(chosen, build.model_of(chosen, data).layout, data)
    cold = int((~hot.examples).sum())
    (decision,) = lines(tmp_path / "run", "skipping")
    assert cold < snapshots[0] <= cold + 8
    assert len(snapshots) == 1
    assert decision["position"] > cold + 8


def test_without_any_warm_up_the_published_rule_decides_a_step_after_snapshot_a(data, tmp_path):
    keys = (
        "skip.rule=published",
        "skip.options.warmup_batches=0",
        "skip.warmup=0",
        "skip.options.sample_share=1",
    )
    train(data, config(*KEYS, *keys, batch_size=8), tmp_path / "run")
    assert len(lines(tmp_path / "run", "skipping")) == 1


@pytest.mark.parametrize(("rule", "warmup"), [("value", 0.9), ("published", 0.9), ("random", 0.9)])
def test_a_run_that_ends_before_its_first_decision_holds_is_too_short(data, tmp_path, rule, warmup):
    sentences = []
    options = {"warmup_batches": 0} if rule == "published" else {}
    keys = (*skip_rule(rule, **options), "skip.lag=80", f"skip.warmup={warmup}")
    hooks = Hooks(on_message=sentences.append)
    summary = train(data, config(*KEYS, *keys, batch_size=8), tmp_path / "run", hooks=hooks)
    (sentence,) = [text for text in sentences if "Nothing will be skipped" in text]
    assert "80 batches later" in sentence
    assert summary["inputs_skipped"] == 0


def test_hot_rows_are_those_of_the_examples_that_are_trained_on(data):
    options = skip_rule("movement", hot_memory="8%", hot_sample=20)
    whole, some = config(*options), config(*options, "stop=500")
    layout = build.model_of(whole, data).layout
    hot, accessed = (
        hot_rows_of(some, layout, data),
        AccessReader(data.train).read(np.arange(500)).rows[0],
    )
    assert len(hot.examples) == 500
    assert set(hot.rows) <= set(accessed.tolist())
    assert hot_rows_of(whole, layout, data).digest != hot.digest
