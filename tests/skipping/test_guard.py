"""The guard: silent while the world is as learned, soon awake when it changes."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from slipstream.config import Skip
from slipstream.ordering import InputOrder
from slipstream.skipping.context import Context
from slipstream.skipping.guard import Guard, surprise
from slipstream.skipping.heard import Group, Heard
from slipstream.skipping.rules import RULES
from slipstream.skipping.skipper import guard_of

STEP, WINDOW, INPUTS = 400, 4000, 400_000


class World:
    """Inputs whose labels follow the model's own logits, until they no longer do."""

    def __init__(self, seed, wrong_from=10**9, mix_from=10**9):
        self.random = np.random.default_rng(seed)
        self.wrong_from, self.mix_from = wrong_from, mix_from

    def draw(self, n, position):
        logits = self.random.normal(-1, 1, n)
        truth = logits if position < self.wrong_from else self.random.permutation(logits)
        return logits, (self.random.random(n) < 1 / (1 + np.exp(-truth))).astype(np.float32)


def heard_of(decision, numbers, logits, trained):
    """What a step has said, as far as a guard asks."""
    plan = SimpleNamespace(
        numbers=torch.full((len(trained),), -1),
        n_valid=len(trained),
        labels=torch.from_numpy(trained),
        skipped=numbers,
        decision=decision,
    )
    return Heard(plan, 0, torch.from_numpy(logits))


def group_of(decision, numbers, skipped, logits, trained):
    return Group([heard_of(decision, numbers, logits, trained)], lambda _: skipped)


def walk(guard, world, steps, first=0, decision_of=lambda step: 1):
    """Go through steps, a third of whose inputs are skipped; where the guard raises an alarm."""
    for step in range(first, first + steps):
        before, position = step * STEP, (step + 1) * STEP
        logits, trained = world.draw(300, position)
        _, skipped = world.draw(100, position)
        if position >= world.mix_from:
            skipped[:60] = 1
        numbers = np.arange(before, before + 100)
        guard.add(group_of(decision_of(step), numbers, skipped, logits, trained))
        score = lambda numbers, at=position: world.draw(len(numbers), at)  # noqa: E731
        alarm = guard.look(before, position, score)
        if alarm is not None:
            return alarm
    return None


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_said_while_nothing_changes(seed):
    guard = Guard(seed, WINDOW, 160, INPUTS)
    assert walk(guard, World(seed), 1000) is None
    assert guard.factor == 1
    assert guard.audited > 1000


@pytest.mark.parametrize("seed", range(5))
def test_labels_that_no_longer_follow_the_model_are_seen_within_three_windows(seed):
    guard = Guard(seed, WINDOW, 160, INPUTS)
    alarm = walk(guard, World(seed, wrong_from=200_000), 1000)
    assert 200_000 <= alarm.position <= 200_000 + 3 * WINDOW
    assert "surprise" in alarm.why
    assert guard.factor == 0


def test_another_label_mix_of_what_is_skipped_is_seen():
    alarm = walk(Guard(0, WINDOW, 160, INPUTS), World(0, mix_from=100_000), 1000)
    assert 100_000 <= alarm.position <= 100_000 + 2 * WINDOW
    assert "label rate of skipped inputs" in alarm.why


def test_a_decision_that_skips_other_labels_is_no_alarm():
    guard, world = Guard(0, WINDOW, 160, INPUTS), World(0, mix_from=100_000)
    assert walk(guard, world, 1000, decision_of=lambda step: 1 + (step >= 249)) is None


@pytest.mark.parametrize("by_label", [False, True])
def test_false_alarms_are_as_rare_as_stated(by_label):
    stated, runs, alarms = 0.3, 60, 0
    for seed in range(runs):
        inputs, world = 60 * 4 * STEP, World(seed)
        guard = Guard(seed, 4 * STEP, 160, inputs, by_label=by_label, false_alarms=stated)
        alarms += walk(guard, world, inputs // STEP) is not None
    # With three standard errors for so few runs; tests that overlap make it fewer than stated.
    assert alarms / runs <= stated + 3 * (stated * (1 - stated) / runs) ** 0.5
    assert alarms, "stated so high, some run has one"


class ByLabel(World):
    """Inputs that are skipped where the label is as expected, by a pilot that changes its mind."""

    def __init__(self, *args, **keys):
        super().__init__(*args, **keys)
        self.all = np.zeros((2, 400_000))

    def step(self, guard, step):
        logits, labels = self.draw(STEP, (step + 1) * STEP)
        self.all[:, step * STEP : (step + 1) * STEP] = logits, labels
        sharp = 0.5 if step % 200 < 100 else 2.0  # every decision skips others
        wrong = np.where(labels > 0, 1 / (1 + np.exp(sharp * logits)), 1 / (1 + np.exp(-logits)))
        kept = self.random.random(STEP) < 1.5 * wrong
        numbers = step * STEP + np.flatnonzero(~kept)
        each = (numbers, labels[~kept], logits[kept], labels[kept])
        guard.add(group_of(1 + step // 100, *each))
        return guard.look(step * STEP, (step + 1) * STEP, lambda drawn: self.all[:, drawn])


@pytest.mark.parametrize("seed", range(3))
def test_a_rule_that_skips_by_label_is_judged_by_all_inputs_whatever_it_skips(seed):
    guard = Guard(seed, STEP, 64, 400_000, by_label=True)
    world = ByLabel(seed, wrong_from=320_000)
    alarms = [alarm for step in range(1000) if (alarm := world.step(guard, step)) is not None]
    assert 320_000 <= alarms[0].position <= 320_000 + 3 * 1600
    assert "surprise of all inputs" in alarms[0].why
    assert list(guard.summary()["sees_surprise_of"]) == ["all"]


def test_the_share_grows_back_slowly():
    guard = Guard(0, WINDOW, 160, INPUTS)
    alarm = walk(guard, World(0, wrong_from=100_000), 1000)
    factors, again = [], 2 * alarm.position  # as old as it was at the alarm
    for position in range(again - 10_000, again + 90_000, 20_000):
        guard.grow(position, 20_000)
        factors.append(guard.factor)
    assert factors == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_it_goes_on_from_its_state_to_the_same_alarm():
    one, world = Guard(0, WINDOW, 160, INPUTS), World(3, wrong_from=150_000)
    walk(one, world, 300)
    other = Guard(0, WINDOW, 160, INPUTS)
    other.load_state_dict(json.loads(json.dumps(one.state_dict())))
    left = world.random.bit_generator.state
    alarm = walk(one, world, 500, first=300)
    world.random.bit_generator.state = left
    assert walk(other, world, 500, first=300) == alarm is not None


def test_a_model_that_knows_its_world_is_not_surprised_on_average():
    random = np.random.default_rng(0)
    logits = random.normal(0, 2, 200_000)
    labels = random.random(len(logits)) < 1 / (1 + np.exp(-logits))
    chosen = logits > 1  # whichever inputs are asked about
    assert abs(surprise(logits, labels).mean()) < 0.01
    assert abs(surprise(logits[chosen], labels[chosen]).mean()) < 0.01
    assert surprise(logits, random.permutation(labels)).mean() > 0.3


@pytest.mark.parametrize(
    ("share", "rarely", "window"),
    [(None, 0, 5000), (None, 20_000, 20_000), (None, 90_000, 25_000), (0.01, 20_000, 10_000)],
)
def test_it_looks_after_a_share_of_an_epoch_or_as_rarely_as_a_gpu_needs(share, rarely, window):
    base = InputOrder(1_000_000)
    keys = Skip(guard_window=share)
    context = Context(keys, None, base, None, "dlrm", 16, 3, None)
    guard = guard_of(RULES["value"], context, rarely)
    assert [at for at in range(0, 60_000, 1000) if guard.looks(at, at + 1000)] == [
        at - 1000 for at in range(window, 60_001, window)
    ]


def test_steps_that_are_looked_at_together_are_those_looked_at_one_by_one():
    together, alone = (Guard(3, WINDOW, 160, INPUTS) for _ in range(2))
    world, steps = World(3), []
    for step in range(30):
        trained, skipped = step * 7 % 50, step * 11 % 30  # some have none
        logits, labels = world.draw(trained + skipped, step)
        numbers = np.arange(step * STEP, step * STEP + skipped)
        made = heard_of(1, numbers, logits[:trained], labels[:trained])
        alone.add(Group([made], lambda _, these=labels[trained:]: these))
        steps.append((made, labels[trained:]))
    all_labels = np.concatenate([labels for _, labels in steps])
    together.add(Group([made for made, _ in steps], lambda _: all_labels))
    assert together.state_dict() == alone.state_dict()
