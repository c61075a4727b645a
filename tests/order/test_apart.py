"""Hot and cold apart: every input as often as before, pure batches, the same after any stop."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_datasets import orders

from slipstream import ConfigError, InputOrder
from slipstream.order import Apart, Rates


def hot(numbers):
    return numbers * 7 % 5 < 3


class Loss:
    """The loss at the end of a segment, the same in every call."""

    def __init__(self, seed):
        self.seed = seed

    def __getitem__(self, segment):
        return np.random.default_rng([self.seed, segment]).random()


def walk(order, position, batch_size, losses, decisions=(), world=1):
    """The cuts of all ranks from a position on, and what was decided on the way."""
    decided = [*decisions]
    for number, loss in decided:
        order.report_loss(number, loss)
    cuts, result = None, []
    while True:
        number = order.pending_decision(position)
        if number is not None:
            order.report_loss(number, losses[number])
            decided.append((number, losses[number]))
        if cuts is None:
            shares = [
                order.cuts(position, batch_size, rank=r, world_size=world) for r in range(world)
            ]
            cuts = zip(*shares, strict=True)
        step = next(cuts, None)
        if step is None:
            return result, decided
        assert None not in step, "each step waits for one decision at most, which is reported"
        position = step[0].next_position
        result.append((np.concatenate([cut.example_numbers for cut in step]).tolist(), position))


@given(
    base=orders(),
    segment=st.integers(1, 120),
    batch_size=st.integers(1, 30),
    lag=st.integers(1, 3),
    world=st.integers(1, 2),
)
def test_every_input_once_an_epoch_in_pure_batches(base, segment, batch_size, lag, world):
    steps, _ = walk(Apart(base, hot, segment, Rates(lag)), 0, batch_size, Loss(1), world=world)
    seen, per_epoch = [], base.per_epoch
    for numbers, position in steps:
        assert 0 < len(numbers) <= batch_size * world
        assert len(set(hot(np.array(numbers)).tolist())) == 1, "no batch mixes the two"
        seen += numbers
        assert len(seen) == position
    for epoch in range(base.epochs):
        item = seen[epoch * per_epoch : (epoch + 1) * per_epoch]
        assert sorted(item) == list(range(base.start, base.start + per_epoch))


@given(
    base=orders(max_examples=150),
    segment=st.integers(5, 60),
    batch_size=st.integers(1, 20),
    lag=st.integers(1, 3),
    stop=st.integers(0, 200),
)
def test_resumed_at_any_step_the_same_batches_and_decisions_follow(
    base, segment, batch_size, lag, stop
):
    whole, decided = walk(Apart(base, hot, segment, Rates(lag)), 0, batch_size, Loss(2))
    if not whole:
        return
    stop %= len(whole)
    position = whole[stop][1]
    order = Apart(base, hot, segment, Rates(lag))
    reported = [(n, loss) for n, loss in decided if end_of(order, n) < position]
    rest, again = walk(order, position, batch_size, Loss(2), reported)
    assert rest == whole[stop + 1 :]
    assert again == decided


def end_of(order, number):
    position = 0
    while (segment := order.segment_at(position)).number < number:
        position = segment.stop
    return segment.stop


def test_in_the_middle_of_a_batch_the_rest_of_it_comes():
    order = Apart(InputOrder(20), hot, 20, Rates())
    whole = [cut.example_numbers.tolist() for cut in order.cuts(0, 6)]
    rest = [cut.example_numbers.tolist() for cut in order.cuts(2, 6)]
    assert rest == [whole[0][2:], *whole[1:]]


def test_a_segment_has_at_most_one_short_batch_of_each_kind():
    steps = list(Apart(InputOrder(1000), hot, 200, Rates(9)).cuts(0, 16))
    for segment in range(5):
        sizes = [
            (len(cut.example_numbers), bool(hot(cut.example_numbers)[0]))
            for cut in steps
            if segment * 200 < cut.next_position <= segment * 200 + 200
        ]
        short = [kind for size, kind in sizes if size < 16]
        assert len(short) == len(set(short))


@pytest.mark.parametrize(("rate", "changes"), [(100, 1), (50, 3), (10, 19), (1, 19)])
def test_the_lower_the_rate_the_more_often_the_kinds_change(rate, changes):
    class Fixed(Rates):
        def of(self, segment):
            return rate

    half = Apart(InputOrder(200), lambda numbers: numbers % 2 == 0, 200, Fixed())
    kinds = [int(cut.example_numbers[0]) % 2 for cut in half.cuts(0, 10)]
    assert sum(item != two for item, two in pairwise(kinds)) == changes


def test_what_is_not_decided_is_waited_for():
    order = Apart(InputOrder(30), hot, 10, Rates(1))
    cuts = order.cuts(0, 10)
    first = [next(cuts), next(cuts)]
    assert first[-1].next_position == 10
    assert next(cuts) is None
    order.report_loss(order.pending_decision(10), 0.5)
    assert order.pending_decision(10) is None
    assert next(cuts).next_position > 10


def test_the_rate_is_cut_when_the_loss_rises_and_raised_after_four_falls():
    rates = Rates(lag=1)
    losses = [9, 8, 7, 6, 5, 4, 4, 3, 2, 1, 5, 6, 7, 8, 9, 10, 11, 12]
    for segment, loss in enumerate(losses):
        rates.report_loss(segment, loss)
    after = [rates.of(segment + 1) for segment in range(len(losses))]
    assert after == [50, 50, 50, 50, 100, 100, 100, 100, 100, 100, 50, 25, 12, 6, 3, 1, 1, 1]
    with pytest.raises(ConfigError, match="comes after"):
        rates.report_loss(3, 0.5)


def test_at_a_fixed_rate_of_100_all_cold_inputs_of_an_epoch_come_first_and_no_loss_is_asked_for():
    base = InputOrder(50, seed=1, epochs=2)
    order = Apart(base, hot, 50, Rates(fixed=100))
    steps, decided = walk(order, 0, 7, Loss(0))
    assert decided == []
    for epoch in range(2):
        numbers = base.example_numbers(50 * epoch, 50 * epoch + 50)
        own = [
            item for batch, end in steps if 50 * epoch < end <= 50 * epoch + 50 for item in batch
        ]
        assert own == [*numbers[~hot(numbers)], *numbers[hot(numbers)]]
    with pytest.raises(ConfigError, match="it must be 1 to 100"):
        Rates(fixed=0)


def test_a_long_run_of_one_kind_makes_full_batches_up_to_its_last():
    base = InputOrder(100_000)
    cuts = list(Apart(base, hot, 100_000, Rates(fixed=100)).cuts(0, 999))
    cold = int((~hot(np.arange(100_000))).sum())
    sizes = [len(cut.example_numbers) for cut in cuts]
    wanted = [999] * (cold // 999) + [cold % 999] + [999] * ((100_000 - cold) // 999)
    assert sizes == [*wanted, (100_000 - cold) % 999]
