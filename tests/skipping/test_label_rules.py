"""Rules that look at labels: the chances they promise, and the correction that follows."""

from dataclasses import replace

import numpy as np
import pytest
from small_runs import skewed

from slipstream.config import Skip
from slipstream.ordering import InputOrder
from slipstream.skipping.accesses import Reader
from slipstream.skipping.chance import uniform
from slipstream.skipping.classifier import Classifier
from slipstream.skipping.context import Context
from slipstream.skipping.decision import Decision
from slipstream.skipping.pilot import line_through, odds_of
from slipstream.skipping.rule import Drawn
from slipstream.skipping.rules import RULES

EPOCHS = 4000


@pytest.fixture(scope="module")
def part():
    labels = (np.random.default_rng(5).random(500) < 0.2).astype(int)
    return skewed(500, labels=labels).train


def classified(part, name, wanted):
    """What a rule makes of twenty inputs, over and over: how often each is trained, its offset."""
    reader, base = Reader(part), InputOrder(len(part), epochs=EPOCHS)
    context = Context(Skip(), reader, base, None, "dlrm", 16, 3, None)
    rule = RULES[name](context)
    seen = reader.read(np.arange(len(part)))
    rule.see(seen, seen)
    classifier = Classifier(rule, reader, base, 3, 0.0)
    sample = classifier.drawn(np.arange(len(part)), 0)
    frozen = rule.freeze()
    frozen |= rule.fit(frozen, sample)
    found = rule.search(frozen, sample, wanted)
    decision = Decision(1, 0, found.threshold, frozen)
    numbers = np.tile(np.arange(20), EPOCHS)
    verdict = classifier(decision, np.repeat(np.arange(EPOCHS), 20) * len(part), numbers)
    trained = verdict.train.reshape(EPOCHS, 20).mean(axis=0)
    return rule, decision, reader.read(np.arange(20)), trained, verdict.logit_offset[:20]


@pytest.mark.parametrize("name", ["thin", "case-control", "value-case-control"])
def test_inputs_are_kept_with_the_chances_that_their_offset_corrects(part, name):
    rule, decision, accesses, trained, offset = classified(part, name, 0.5)
    # The same input with either label: its chance to be kept, by drawing chances of its own.
    chances = {}
    for label in (0.0, 1.0):
        twin = replace(accesses, labels=np.full(20, label, np.float32))
        kept = np.zeros(20)
        for epoch in range(EPOCHS):
            drawn = Drawn(twin, uniform(9, "twin", twin.numbers, epoch))
            kept += ~(rule.score(decision.frozen, drawn) < decision.threshold)
        chances[label] = kept / EPOCHS
    own = np.where(accesses.labels > 0, chances[1.0], chances[0.0])
    assert np.abs(trained - own).max() < 0.05
    often = np.minimum(chances[0.0], chances[1.0]) > 0.05  # where counting tells a ratio well
    assert often.sum() > 8
    assert np.abs(np.log(chances[1.0] / chances[0.0]) - offset)[often].max() < 0.2


def test_chances_are_even_and_their_own_for_each_name_and_epoch():
    numbers = np.arange(20_000)
    drawn = uniform(1, "judge", numbers)
    assert drawn.min() > 0
    assert drawn.max() <= 1
    assert np.abs(np.histogram(drawn, 10, (0, 1))[0] - 2000).max() < 200
    for other in (uniform(1, "audit", numbers), uniform(1, "judge", numbers, 1)):
        assert abs(np.corrcoef(drawn, other)[0, 1]) < 0.03


def test_the_pilot_finds_the_line_that_was_planted():
    random = np.random.default_rng(0)
    sums = random.normal(0, 2, 50_000)
    labels = (random.random(len(sums)) < 1 / (1 + np.exp(-(0.7 * sums - 1.5)))).astype(float)
    assert np.allclose(line_through(sums, labels), [-1.5, 0.7], atol=0.05)


def test_a_pilot_without_anything_to_go_by_still_has_an_answer():
    assert np.isfinite(line_through(np.zeros(10), np.zeros(10))).all()
    assert np.isfinite(line_through(np.arange(10.0), (np.arange(10) > 4).astype(float))).all()
    assert odds_of(np.zeros((3, 2), np.uint32), 20).tolist() == [0, 0, 0]
