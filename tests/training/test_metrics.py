"""Metrics against scikit-learn, with ties, weights, extreme scores and batches cut anywhere."""

import json
import math
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from slipstream import ConfigError, DataError
from slipstream.training.metrics import METRICS, Metrics, mean
from slipstream.training.metrics import metrics as module

sklearn = pytest.importorskip("sklearn.metrics")

FEW = st.sampled_from([-2.0, -1.0, -0.0, 0.0, 0.5, 1.0])  # many ties
ANY = st.floats(-8, 8, width=32)
EXTREME = st.one_of(FEW, st.floats(-1e4, 1e4, width=32), st.sampled_from([-3e38, 3e38, 1e-45]))
USUAL = st.one_of(FEW, ANY)
# Where the weights of the labels differ by 1e12 and more, the reference itself rounds.
WEIGHT = st.just(0.0) | st.floats(2**-10, 4, width=32)


@st.composite
def predictions(draw, score=USUAL, least=0):
    rows = draw(st.lists(st.tuples(score, st.integers(0, 1), WEIGHT), min_size=least, max_size=40))
    logits, labels, weights = (np.array([row[n] for row in rows]) for n in range(3))
    weighted = draw(st.booleans())
    return logits.astype("f4"), labels.astype("f4"), weights.astype("f4") if weighted else None


def scores_of(sample, mode="exact", cuts=()):
    metrics = Metrics(mode)
    edges = [0, *sorted(cuts), len(sample[0])]
    for start, stop in pairwise(edges):
        metrics.add(*(None if values is None else values[start:stop] for values in sample))
    return metrics.result()


def _masses(sample):
    _, labels, weights = sample
    weights = np.ones_like(labels) if weights is None else weights
    return float(weights[labels == 0].sum()), float(weights[labels == 1].sum())


@pytest.mark.parametrize("mode", ["exact", "bounded"])
@given(sample=predictions())
def test_values_are_those_of_scikit_learn(sample, mode):
    logits, labels, weights = sample
    scores = scores_of(sample, mode)
    negative, positive = _masses(sample)
    assert (scores["inputs"], scores["positives"]) == (len(labels), int(labels.sum()))
    if negative + positive == 0:
        assert (
            scores["logloss"]
            is scores["accuracy"]
            is scores["calibration"]
            is scores["auc"]
            is None
        )
        return
    wide = logits.astype(float)
    probability = 1 / (1 + np.exp(-wide))
    expected = sklearn.log_loss(labels, probability, sample_weight=weights, labels=[0, 1])
    assert scores["logloss"] == pytest.approx(expected, rel=1e-9)
    expected = sklearn.accuracy_score(labels, wide > 0, sample_weight=weights)
    assert scores["accuracy"] == pytest.approx(expected, rel=1e-12)
    if negative and positive:
        expected = sklearn.roc_auc_score(labels, wide, sample_weight=weights)
        assert abs(scores["auc"] - expected) <= scores["auc_error"] + 1e-9
        rate = np.average(labels, weights=weights)
        constant = np.full(len(labels), rate, dtype=np.float64)
        entropy = sklearn.log_loss(labels, constant, sample_weight=weights)
        assert scores["normalized_entropy"] == pytest.approx(scores["logloss"] / entropy, rel=1e-6)
        mean = np.average(probability, weights=weights)
        assert scores["calibration"] == pytest.approx(mean / rate, rel=1e-6)
    else:
        assert scores["auc"] is scores["auc_error"] is scores["normalized_entropy"] is None
    if not positive:
        assert scores["calibration"] is None


@given(sample=predictions(EXTREME, least=1))
def test_extreme_scores_lose_nothing(sample):
    logits, labels, weights = sample
    scores = scores_of(sample)
    if sum(_masses(sample)) == 0:
        return
    losses = torch.nn.functional.binary_cross_entropy_with_logits(
        torch.from_numpy(logits).double(), torch.from_numpy(labels).double(), reduction="none"
    )
    assert scores["logloss"] == pytest.approx(np.average(losses, weights=weights), rel=1e-12)
    assert all(value is None or math.isfinite(value) for value in scores.values())


@pytest.mark.parametrize("score", [FEW, ANY, EXTREME], ids=["ties", "any", "extreme"])
@given(data=st.data())
def test_the_stated_error_of_the_bounded_auc_holds(score, data):
    sample = data.draw(predictions(score))
    exact, bounded = scores_of(sample), scores_of(sample, "bounded")
    if exact["auc"] is None:
        assert bounded["auc"] is bounded["auc_error"] is None
    else:
        assert abs(exact["auc"] - bounded["auc"]) <= bounded["auc_error"] + 1e-12
    assert exact["logloss"] == bounded["logloss"]


def test_the_error_of_the_bounded_auc_is_small_for_click_scores():
    draw = np.random.default_rng(0)
    logits = draw.normal(-3, 1.5, 50_000).astype("f4")
    labels = draw.random(50_000) < 1 / (1 + np.exp(-logits))
    exact, bounded = (scores_of((logits, labels, None), mode) for mode in ("exact", "bounded"))
    assert abs(exact["auc"] - bounded["auc"]) <= bounded["auc_error"] < 2e-5


@pytest.mark.parametrize("mode", ["exact", "bounded"])
@pytest.mark.parametrize("block", [1, 7, 1 << 16])
@given(data=st.data())
def test_batches_cut_anywhere_give_the_same_bits(mode, block, data):
    sample = data.draw(predictions(EXTREME))
    cuts = data.draw(st.lists(st.integers(0, len(sample[0])), max_size=5))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK", block)
        assert scores_of(sample, mode, cuts) == scores_of(sample, mode)


def test_weights_of_one_change_nothing_and_more_can_be_added_after_a_result():
    logits, labels = np.array([0.5, -1, 2, 0.5], "f4"), np.array([1, 0, 1, 0], "f4")
    metrics = Metrics()
    metrics.add(logits[:2], labels[:2])
    metrics.result()
    metrics.add(torch.from_numpy(logits[2:]).reshape(-1, 1), labels[2:], np.ones(2))
    assert metrics.result() == scores_of((logits, labels, None))
    assert metrics.result()["auc"] == 0.875


@pytest.mark.parametrize("share", [0.03, 0.5, 0.97])
@pytest.mark.parametrize(("weighted", "kept_scores", "more"), [(False, 4, 4), (True, 8, 36)])
def test_memory_is_what_is_stated(share, weighted, kept_scores, more):
    n, draw = 500_000, np.random.default_rng(0)
    sample = [draw.normal(size=n).astype("f4"), (draw.random(n) < share).astype("f4")]
    weights = draw.random(n).astype("f4") if weighted else None
    metrics, constant = Metrics(), 2 << 20
    tracemalloc.start()
    try:
        for start in range(0, n, 50_000):
            some = slice(start, start + 50_000)
            metrics.add(
                *(values[some] for values in sample), None if weights is None else weights[some]
            )
        now, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        metrics.result()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert now < kept_scores * n + constant
    assert peak < (kept_scores + more) * n + constant


def test_a_buffer_may_be_used_again():
    buffer, metrics = torch.tensor([1.0, -1.0]), Metrics()
    metrics.add(buffer, torch.tensor([1, 0]))
    buffer.zero_()
    assert metrics.result()["auc"] == 1.0


def test_no_inputs_are_none_in_json():
    assert json.loads(json.dumps(Metrics().result())) == {
        **dict.fromkeys([*METRICS, "auc_error"]),
        "inputs": 0,
        "positives": 0,
    }


@pytest.mark.parametrize(
    ("logits", "labels", "weights", "sentence"),
    [
        ([0, math.nan], [0, 1], None, "The score of example 3 is nan, not finite."),
        ([0, 1], [0, 2], None, "The label of example 3 is 2.0, not 0 or 1."),
        ([0, 1], [0, 1], [-1, 1], "The weight of example 2 is -1.0, not finite and at least 0."),
        ([0, 1], [0], None, "2 scores, 1 labels and 2 weights"),
    ],
)
def test_what_makes_no_sense_is_told(logits, labels, weights, sentence):
    metrics = Metrics()
    metrics.add(np.zeros(2), np.zeros(2))
    with pytest.raises(DataError, match=sentence):
        metrics.add(np.array(logits), np.array(labels), weights and np.array(weights))
    assert metrics.result()["inputs"] == 2


def test_an_unknown_mode_is_an_error():
    with pytest.raises(ConfigError, match="Did you mean bounded"):
        Metrics("bound")


def test_a_new_metric_needs_one_function_and_one_line(monkeypatch):
    brier = mean("brier", lambda p: (p.probabilities - p.positive) ** 2)
    monkeypatch.setitem(METRICS, "brier", brier)
    logits, labels = np.array([0.5, -1, 2], "f4"), np.array([1, 0, 0])
    wanted = sklearn.brier_score_loss(labels, 1 / (1 + np.exp(-logits.astype(float))))
    assert scores_of((logits, labels, None))["brier"] == pytest.approx(wanted)
