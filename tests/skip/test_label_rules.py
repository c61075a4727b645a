"""Rules that use labels: the chances to be trained, and the correction for them."""

import numpy as np
import pytest
from small_runs import clicks, skewed

from slipstream.config.sections import SkipSettings
from slipstream.order import InputOrder
from slipstream.skip import rule_choice
from slipstream.skip.accesses import AccessReader
from slipstream.skip.candidates import Candidates, candidates_of
from slipstream.skip.chance import uniform
from slipstream.skip.context import RunContext
from slipstream.skip.decision import Decision
from slipstream.skip.judge import Judge
from slipstream.skip.rules.case_control import common_rate, line_through, odds_of

EPOCHS = 4000


@pytest.fixture(scope="module")
def part():
    labels = (np.random.default_rng(5).random(500) < 0.2).astype(int)
    return skewed(500, labels=labels).train


def rule_of(name, reader, base):
    kind, options, _ = rule_choice(name, {})
    context = RunContext(SkipSettings(), reader, base, base, None, "dlrm", 16, 3, None)
    return kind(context, options)


def classified(part, name, wanted):
    """How often a rule trains each of twenty examples over many epochs, and their offsets."""
    reader, base = AccessReader(part), InputOrder(len(part))
    rule = rule_of(name, reader, base)
    seen = reader.read(np.arange(len(part)))
    rule.observe(seen, seen)
    numbers = np.arange(len(part))
    tables, threshold = rule.decide(candidates_of(rule.context, numbers, numbers, 0), wanted)
    decision = Decision(1, 0, threshold.value, tables)
    numbers = np.tile(np.arange(20), EPOCHS)
    verdict = Judge(rule)(decision, np.repeat(np.arange(EPOCHS), 20) * len(part), numbers)
    trained = verdict.train.reshape(EPOCHS, 20).mean(axis=0)
    return rule, decision, reader, trained, verdict.logit_offset[:20]


@pytest.mark.parametrize("name", ["thin", "case-control"])
def test_examples_are_trained_with_the_chances_that_their_offset_corrects(part, name):
    rule, decision, reader, trained, offset = classified(part, name, 0.5)
    accesses = reader.read(np.arange(20))
    # The chance of the same example with either label to be trained, by other random numbers.
    chances = {}
    for label in (0.0, 1.0):
        twin = reader.read(np.arange(20))
        twin.labels[:] = label
        trained_share = np.zeros(20)
        for epoch in range(EPOCHS):
            candidates = Candidates(
                twin, uniform(9, "twin", twin.example_numbers, epoch), twin.example_numbers
            )
            trained_share += ~(rule.score(decision.row_scores, candidates) < decision.threshold)
        chances[label] = trained_share / EPOCHS
    own = np.where(accesses.labels > 0, chances[1.0], chances[0.0])
    assert np.abs(trained - own).max() < 0.05
    often = np.minimum(chances[0.0], chances[1.0]) > 0.05  # there the counts give a good ratio
    assert often.sum() > 8
    assert np.abs(np.log(chances[1.0] / chances[0.0]) - offset)[often].max() < 0.2


def in_epochs(part, name, epochs):
    """The verdict on all examples of a decision at the beginning of each epoch."""
    reader, base = AccessReader(part), InputOrder(len(part), epochs=epochs)
    rule = rule_of(name, reader, base)
    numbers = np.arange(len(part))
    none = reader.read(numbers[:0])
    rule.observe(reader.read(numbers[: len(part) // 2]), none)
    for epoch in range(epochs):
        positions = numbers + epoch * len(part)
        candidates = candidates_of(rule.context, numbers, positions, epoch)
        tables, threshold = rule.decide(candidates, 0.5)
        yield Judge(rule)(Decision(1, 0, threshold.value, tables), positions, numbers)
        rule.observe(reader.read(numbers), none)


@pytest.mark.parametrize("name", ["case-control"])
def test_corrections_stay_right_when_examples_come_again(name):
    random = np.random.default_rng(1)  # labels that nothing can tell: 0.25 is the whole truth
    labels = (random.random(20_000) < 0.25).astype(int)
    columns = {f"c{k}": random.integers(0, 2000, 20_000) for k in range(4)}
    part = clicks(20_000, labels=labels, columns=columns).train
    labels = AccessReader(part).read(np.arange(len(part))).labels
    for verdict in in_epochs(part, name, 3):
        trained_share, truth = verdict.train, np.log(labels.mean() / (1 - labels.mean()))
        expected = 1 / (1 + np.exp(-(truth + verdict.logit_offset[trained_share])))
        error = np.sqrt((expected * (1 - expected)).sum())
        assert abs(labels[trained_share].sum() - expected.sum()) < 4 * error
        assert 0.4 < trained_share.mean() < 0.6


def test_an_example_is_left_out_of_the_counts_that_include_it(part):
    reader = AccessReader(part)
    everything, few = reader.read(np.arange(len(part))), reader.read(np.arange(25))
    clicks = np.zeros((reader.rows, 2), dtype=np.uint32)
    everything.count_labels(clicks)
    common = common_rate(clicks)
    odds_of_others = few.odds_without_own(clicks, common, 20.0)
    assert max(np.bincount(few.rows[0])) > 1, "some row is accessed several times"
    for number in range(25):
        own, others = reader.read(np.array([number])), clicks.copy()
        alone = np.zeros_like(clicks)
        own.count_labels(alone)
        others -= alone
        n, positive = others.astype(float).T
        rate = (positive + 20 * common) / (n + 20)
        odds = np.log(rate / (1 - rate)) - np.log(common / (1 - common))
        assert odds_of_others[number] == pytest.approx(own.sums(odds)[0], abs=1e-6)


def test_every_example_is_counted_once_whatever_comes_again(part):
    reader, base = AccessReader(part), InputOrder(len(part), epochs=3)
    rule = rule_of("case-control", reader, base)
    some = [reader.read(np.arange(a, b)) for a, b in ((0, 100), (50, 200), (0, len(part)))]
    rule.observe(some[0], some[1])
    rule.observe(some[2], some[0])
    once = np.zeros((reader.rows, 2), dtype=np.uint32)
    some[2].count_labels(once)
    assert np.array_equal(rule.state_dict()["clicks"], once)


def test_chances_are_even_and_their_own_for_each_name_and_epoch():
    numbers = np.arange(20_000)
    chances_drawn = uniform(1, "judge", numbers)
    assert chances_drawn.min() > 0
    assert chances_drawn.max() <= 1
    assert np.abs(np.histogram(chances_drawn, 10, (0, 1))[0] - 2000).max() < 200
    for other in (uniform(1, "explore", numbers), uniform(1, "judge", numbers, 1)):
        assert abs(np.corrcoef(chances_drawn, other)[0, 1]) < 0.03


def test_the_cheap_model_finds_the_line_of_its_data():
    random = np.random.default_rng(0)
    sums = random.normal(0, 2, 50_000)
    labels = (random.random(len(sums)) < 1 / (1 + np.exp(-(0.7 * sums - 1.5)))).astype(float)
    assert np.allclose(line_through(sums, labels), [-1.5, 0.7], atol=0.05)


def test_the_cheap_model_is_finite_where_labels_or_sums_are_alike():
    assert np.isfinite(line_through(np.zeros(10), np.zeros(10))).all()
    assert np.isfinite(line_through(np.arange(10.0), (np.arange(10) > 4).astype(float))).all()
    assert odds_of(np.zeros((3, 2), np.uint32), 20).tolist() == [0, 0, 0]


@pytest.mark.parametrize("name", ["thin", "case-control", "random"])
def test_batches_before_the_first_decision_are_of_the_same_kind_as_those_after_it(part, name):
    reader, base = AccessReader(part), InputOrder(len(part))
    rule = rule_of(name, reader, base)
    numbers = np.arange(20)
    verdict = Judge(rule)(Decision(), numbers, numbers)
    assert verdict.train.all()
    assert (verdict.logit_offset is None) == (name == "random")
    assert verdict.logit_offset is None or not verdict.logit_offset.any()
