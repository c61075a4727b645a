from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_datasets import orders

from slipstream import ConfigError, InputOrder
from slipstream.order import Chunk, as_array, example_number, into_batches


@given(order=orders())
def test_every_epoch_holds_every_input_once(order):
    numbers = order.example_numbers(0, len(order)).reshape(order.epochs, order.per_epoch)
    for epoch in numbers:
        assert sorted(epoch.tolist()) == list(range(order.start, order.start + order.per_epoch))


@given(order=orders(), data=st.data())
def test_any_stretch_of_an_order_is_that_stretch_of_the_whole(order, data):
    start = data.draw(st.integers(0, len(order)))
    stop = data.draw(st.integers(start, len(order)))
    np.testing.assert_array_equal(
        order.example_numbers(start, stop), order.example_numbers(0, len(order))[start:stop]
    )


def _read(order, start, batch_size, world_size):
    """What each step of a world reads from a position on: numbers by rank, and where it ends."""
    ranks = [
        list(into_batches(order.chunks(start), batch_size, rank=r, world_size=world_size))
        for r in range(world_size)
    ]
    assert len({len(steps) for steps in ranks}) == 1, "every rank makes the same number of steps"
    return list(zip(*ranks, strict=True))


@given(order=orders(), batch_size=st.integers(1, 50), sizes=st.tuples(*[st.integers(1, 4)] * 2))
def test_two_worlds_of_different_size_together_read_every_input_once(order, batch_size, sizes):
    steps = _read(order, 0, batch_size, sizes[0])
    half = steps[: len(steps) // 2]
    position = half[-1][0].next_position if half else 0
    rest = _read(order, position, batch_size + 3, sizes[1])
    numbers = [cut.example_numbers for step in half + rest for cut in step]
    read = np.concatenate(numbers) if numbers else np.empty(0, dtype=int)
    times = np.bincount(read - order.start, minlength=order.per_epoch)
    np.testing.assert_array_equal(times, order.epochs)


@given(order=orders(), data=st.data())
def test_batches_are_the_inputs_at_their_positions(order, data):
    position = data.draw(st.integers(0, len(order) + 2))
    for cut in order.cuts(position, data.draw(st.integers(1, 50))):
        wanted = order.example_numbers(position, cut.next_position)
        np.testing.assert_array_equal(as_array(cut.example_numbers), wanted)
        position = cut.next_position
    assert position >= len(order)


def test_inputs_as_they_are_come_as_ranges_but_where_an_epoch_ends():
    order = InputOrder(3 << 17, epochs=2)
    kinds = [isinstance(cut.example_numbers, range) for cut in order.cuts(0, 100_000)]
    assert kinds == [True, True, True, False, True, True, True, True]


@pytest.mark.parametrize("seed", [None, 1])
def test_a_position_before_the_first_is_an_error(seed):
    with pytest.raises(ConfigError, match="Positions -1 to 5 do not lie within"):
        list(InputOrder(5, seed=seed).cuts(-1, 2))


@given(order=orders(), batch_size=st.integers(1, 50), world_size=st.integers(1, 4))
def test_only_the_last_batch_is_short_and_ranks_share_it_evenly(order, batch_size, world_size):
    steps = _read(order, 0, batch_size, world_size)
    for step in steps[:-1]:
        assert [len(cut.example_numbers) for cut in step] == [batch_size] * world_size
    if steps:
        sizes = [len(cut.example_numbers) for cut in steps[-1]]
        assert max(sizes) - min(sizes) <= 1
        assert steps[-1][0].next_position == len(order)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9), st.booleans()), max_size=8),
    st.integers(1, 7),
)
def test_positions_that_are_ranges_give_the_batches_of_those_that_are_not(pieces, batch_size):
    own_values, other_values, at = [], [], 0
    for gap, count, as_range in pieces:
        at += gap
        where = np.arange(at, at + count)
        own_values.append(Chunk(range(at, at + count) if as_range else where, where + 100))
        other_values.append(Chunk(where, where + 100))
        at += count
    both = (list(into_batches(item, batch_size)) for item in (own_values, other_values))
    for item, other in zip(*both, strict=True):
        assert item.next_position == other.next_position
        np.testing.assert_array_equal(item.example_numbers, other.example_numbers)


def test_gaps_in_the_sequence_do_not_make_batches_smaller():
    keep = [np.arange(start, start + 10)[::3] for start in range(0, 100, 10)]
    cuts = list(into_batches((Chunk(k, k + 1000) for k in keep), 7))
    everything = np.concatenate(keep)
    assert [len(cut.example_numbers) for cut in cuts] == [7] * 5 + [5]
    np.testing.assert_array_equal(
        np.concatenate([c.example_numbers for c in cuts]), everything + 1000
    )
    assert [cut.next_position for cut in cuts[:2]] == [everything[6] + 1, everything[13] + 1]


def test_shuffled_orders_differ_by_seed_and_epoch_and_mix_well():
    rows = 1 << 16
    order = InputOrder(rows, seed=1, epochs=2)
    first, second = order.example_numbers(0, rows), order.example_numbers(rows, 2 * rows)
    other = InputOrder(rows, seed=2).example_numbers(0, rows)
    for item, two in ((first, second), (first, other)):
        assert abs(np.corrcoef(item, two)[0, 1]) < 0.02
        assert np.mean(item == two) < 0.001
    blocks_in_a_batch = len(np.unique(first[:2048] // 512))
    assert blocks_in_a_batch > 60


def test_a_shuffled_order_is_the_same_for_all_time():
    numbers = InputOrder(100, seed=7, epochs=2, block=16, mixed=2, run=4).example_numbers(90, 110)
    assert numbers.tolist() == [
        62, 63, 48, 49, 50, 51, 52, 53, 54, 55,
        56, 57, 58, 59, 80, 81, 82, 83, 92, 93,
    ]  # fmt: skip


@given(order=orders())
def test_a_part_of_a_log_comes_in_the_order_of_a_log_that_is_only_that_part(order):
    alone = replace(order, examples=order.per_epoch, start=0, stop=None)
    np.testing.assert_array_equal(
        order.example_numbers(0, len(order)), order.start + alone.example_numbers(0, len(alone))
    )


@given(rows=st.integers(1, 10**9), share=st.integers(0, 100))
def test_a_share_of_the_log_is_that_share_of_its_examples(rows, share):
    assert abs(example_number(f"{share}%", rows) - share * rows / 100) <= 0.5
    assert example_number(share, rows) == share


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"epochs": -1}, "epochs"),
        ({"block": 12, "run": 8}, "multiple"),
        ({"start": -1}, "start is -1; it must be at least 0"),
        ({"start": 20, "stop": 20}, "start is 20 and stop is 20; start must be below stop"),
        ({"start": 100}, "start is 100, but there are 100 examples"),
        ({"stop": 101}, "stop is 101, but there are 100 examples"),
    ],
)
def test_impossible_arguments_are_named(wrong, word):
    with pytest.raises(ConfigError, match=word):
        InputOrder(100, **wrong)


def test_a_position_outside_the_order_is_an_error():
    with pytest.raises(ConfigError, match="do not lie within"):
        InputOrder(10).example_numbers(5, 11)


@pytest.mark.parametrize(("rank", "world_size"), [(2, 2), (-1, 1), (0, 0)])
def test_a_rank_outside_its_world_is_an_error(rank, world_size):
    with pytest.raises(ConfigError, match="rank"):
        list(into_batches(InputOrder(10).chunks(), 2, rank=rank, world_size=world_size))


def test_another_thread_that_asks_in_between_changes_no_answer():
    order = InputOrder(3000, epochs=2, seed=3, block=64, mixed=4)
    wanted, requests = order.example_numbers(0, 6000), []

    class Interrupted(dict):
        """Another thread asks for the inputs of another epoch whenever something is looked up."""

        def get(self, key):
            actual = super().get(key)
            if not requests:
                requests.append(key)
                order.example_numbers(4000, 4100)
                requests.clear()
            return actual

    order.__dict__["_kept"] = Interrupted()
    for start in range(0, 3000, 100):
        assert (
            order.example_numbers(start, start + 100).tolist()
            == wanted[start : start + 100].tolist()
        )
