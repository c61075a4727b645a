"""The guard: silent while the world is as learned, soon awake when it changes."""

import json

import numpy as np
import pytest

from slipstream.skipping.guard import Guard, surprise

STEP, WINDOW = 400, 4000


class World:
    """Inputs whose labels follow the model's own logits, until they no longer do."""

    def __init__(self, seed, wrong_from=10**9, mix_from=10**9):
        self.random = np.random.default_rng(seed)
        self.wrong_from, self.mix_from = wrong_from, mix_from

    def draw(self, n, position):
        logits = self.random.normal(-1, 1, n)
        truth = logits if position < self.wrong_from else self.random.permutation(logits)
        return logits, (self.random.random(n) < 1 / (1 + np.exp(-truth))).astype(np.float32)


def walk(guard, world, steps, first=0):
    """Go through steps, a third of whose inputs are skipped; where the guard raises an alarm."""
    for step in range(first, first + steps):
        before, position = step * STEP, (step + 1) * STEP
        logits, trained = world.draw(300, position)
        _, skipped = world.draw(100, position)
        if position >= world.mix_from:
            skipped[:60] = 1
        guard.add(np.arange(before, before + 100), skipped, logits, trained)
        score = lambda numbers, at=position: world.draw(len(numbers), at)  # noqa: E731
        alarm = guard.look(before, position, score)
        if alarm is not None:
            return alarm
    return None


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_said_while_nothing_changes(seed):
    guard = Guard(seed, WINDOW, 160)
    assert walk(guard, World(seed), 1000) is None
    assert guard.factor == 1
    assert guard.audited > 1000


@pytest.mark.parametrize("seed", range(5))
def test_labels_that_no_longer_follow_the_model_are_seen_within_three_windows(seed):
    guard = Guard(seed, WINDOW, 160)
    alarm = walk(guard, World(seed, wrong_from=200_000), 1000)
    assert 200_000 <= alarm.position <= 200_000 + 3 * WINDOW
    assert "surprise" in alarm.why
    assert guard.factor == 0


def test_another_label_mix_of_what_is_skipped_is_seen():
    alarm = walk(Guard(0, WINDOW, 160), World(0, mix_from=100_000), 1000)
    assert 100_000 <= alarm.position <= 100_000 + 2 * WINDOW
    assert "label rate of skipped inputs" in alarm.why


def test_the_share_grows_back_slowly():
    guard = Guard(0, WINDOW, 160)
    alarm = walk(guard, World(0, wrong_from=100_000), 1000)
    factors, again = [], 2 * alarm.position  # as old as it was at the alarm
    for position in range(again - 10_000, again + 90_000, 20_000):
        guard.grow(position, 20_000)
        factors.append(guard.factor)
    assert factors == [0.0, 0.25, 0.5, 0.75, 1.0]


def test_it_goes_on_from_its_state_to_the_same_alarm():
    one, world = Guard(0, WINDOW, 160), World(3, wrong_from=150_000)
    walk(one, world, 300)
    other = Guard(0, WINDOW, 160)
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
