import gc
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from random_datasets import datasets, orders

from slipstream import (
    Column,
    ConfigError,
    DataError,
    InputOrder,
    Loader,
    Part,
    Schema,
    SlipstreamError,
    Table,
    from_arrays,
)
from slipstream.data import batch as batch_module
from slipstream.data.batch import BatchReader
from slipstream.data.gather import Gather
from slipstream.data.inputs import Examples
from slipstream.order import Cut


def _expected(part, number):
    (run,) = part.runs(number, number + 1)
    return run


def assert_batch_holds(batch, part, numbers):
    """The batch holds exactly these inputs, and padding behind them."""
    n = len(numbers)
    assert batch.n_valid == n
    assert batch.example_numbers.tolist() == [*numbers, *[-1] * (batch.capacity - n)]
    for place, number in enumerate(numbers):
        run = _expected(part, number)
        assert batch.labels[place] == run.labels[0]
        assert batch.dense[place].tolist() == run.dense[0].tolist()
        assert batch.ids[place].tolist() == run.ids[0].tolist()
        assert batch.weights[place] == (1 if run.weights is None else run.weights[0])
        if run.times is not None:
            assert batch.times[place] == run.times[0]
        for name, ragged in run.lists.items():
            column = batch.lists[name]
            values = column.values[column.offsets[place] : column.offsets[place + 1]]
            assert values.tolist() == ragged.values.tolist()
    padding = (batch.labels, batch.dense, batch.ids, batch.weights)
    assert all(not tensor[n:].any() for tensor in padding)
    for column in batch.lists.values():
        assert torch.all(column.offsets[n:] == len(column.values))


@given(
    dataset=datasets(min_rows=1),
    rows_per_shard=st.sampled_from([3, 8, 64]),
    batch_size=st.integers(1, 20),
    seed=st.none() | st.integers(0, 3),
    epochs=st.integers(1, 2),
    rank=st.integers(0, 1),
)
def test_batches_hold_the_inputs_that_the_order_says(
    dataset, rows_per_shard, batch_size, seed, epochs, rank
):
    with tempfile.TemporaryDirectory() as folder:
        part = dataset.save(Path(folder) / "set", rows_per_shard=rows_per_shard).train
        order = InputOrder(len(part), seed=seed, epochs=epochs, block=8, mixed=2)
        everything = order.example_numbers(0, len(order))
        seen = 0
        with Loader(part, batch_size, order=order, rank=rank, world_size=2) as loader:
            for batch in loader:
                step = everything[seen : batch.next_position]
                first, last = len(step) * rank // 2, len(step) * (rank + 1) // 2
                assert_batch_holds(batch, part, step[first:last].tolist())
                seen = batch.next_position
        assert seen == len(order)


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("batch_size", [256, 100, 5000, 7000])
def test_a_part_of_many_shards_is_read_right(part, seed, batch_size):
    order = InputOrder(len(part), seed=seed)
    with Loader(part, batch_size, order=order) as loader:
        batches = list(loader)
    numbers = torch.cat([batch.example_numbers[: batch.n_valid] for batch in batches])
    np.testing.assert_array_equal(numbers.numpy(), order.example_numbers(0, len(order)))
    assert_batch_holds(
        batches[-1], part, batches[-1].example_numbers[: batches[-1].n_valid].tolist()
    )


@given(
    st.lists(st.integers(0, 4999), max_size=40),
    st.integers(0, 4900),
    st.sampled_from([8, 16, 24]),
)
def test_any_inputs_in_any_order_are_gathered_right(part, numbers, start, length):
    aligned = start // 8 * 8
    mixed = [*range(start, start + 3), *range(aligned, aligned + length), *numbers]
    for wanted in (numbers, mixed, [*range(aligned + 5, aligned + 8), *range(aligned)]):
        gather = Gather.of(part, np.array(wanted, dtype=np.int64))
        out = np.empty((len(wanted), 2), dtype=np.int32)
        gather.fixed("ids", out)
        expected = [_expected(part, number).ids[0].tolist() for number in wanted]
        assert out.tolist() == expected


@given(
    order=orders(max_examples=300),
    cuts=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    worlds=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    steps=st.integers(0, 10),
)
def test_state_at_any_input_resumes_exactly_there(order, cuts, worlds, steps):
    n = order.examples
    columns = {"a": np.arange(n)}
    part = from_arrays(np.zeros(n), columns, validation=0, evaluation=0, min_count=1).train

    def read(state, batch_size, world_size, steps):
        """What all ranks of a world read in some steps, and the state that they then are in."""
        numbers = []
        loaders = [
            Loader(part, batch_size, order=order, rank=r, world_size=world_size, threads=1)
            for r in range(world_size)
        ]
        for loader in loaders:
            loader.load_state_dict(state)
        for _ in range(steps):
            for loader in loaders:
                batch = next(loader, None)
                if batch is not None:
                    numbers += batch.example_numbers[: batch.n_valid].tolist()
        states = [loader.state_dict() for loader in loaders]
        assert all(state == states[0] for state in states)
        for loader in loaders:
            loader.close()
        return numbers, states[0]

    first, state = read({"position": 0}, cuts[0], worlds[0], min(steps, 5))
    rest, _ = read(state, cuts[1], worlds[1], -(-len(order) // (cuts[1] * worlds[1])))
    assert first + rest == order.example_numbers(0, len(order)).tolist()


def test_no_input_is_missed_after_an_error_that_was_survived(part, monkeypatch):
    read, failures = BatchReader.read, iter([False, True, False, True] + [False] * 999)

    def sometimes(self, cuts):
        if next(failures):
            raise OSError(5, "Input/output error")
        return read(self, cuts)

    monkeypatch.setattr(BatchReader, "read", sometimes)
    monkeypatch.setattr(batch_module, "_INPUTS_AT_ONCE", 500)
    loader, numbers, errors = Loader(part, 500, ahead=3), [], 0
    while loader.position < len(part):
        try:
            numbers += next(loader).example_numbers.tolist()
        except OSError:
            errors += 1
    assert errors >= 1
    assert [number for number in numbers if number >= 0] == list(range(len(part)))


def test_an_order_of_nothing_reads_nothing(part):
    assert list(Loader(part, 10, order=InputOrder(len(part), epochs=0))) == []


@pytest.mark.parametrize("covered", [0, 1])
def test_a_closed_loader_says_so(part, covered):
    loader = Loader(part, 10, ahead=4)
    for _ in range(covered):
        next(loader)
    loader.close()
    with pytest.raises(ConfigError, match="closed"):
        next(loader)


@given(data=st.data())
def test_ranges_are_read_as_the_numbers_in_them(data):
    dataset = data.draw(datasets())
    rows = len(dataset.train)
    cuts = []
    for _ in range(data.draw(st.integers(1, 4))):
        end = cuts[-1].example_numbers.stop if cuts else 0
        start = end if data.draw(st.booleans()) else data.draw(st.integers(0, rows))
        stop = data.draw(st.integers(start, min(start + 5, rows)))
        cuts.append(Cut(range(start, stop), 0))
        if len(cuts[-1].example_numbers) < 5:  # only the last may be short
            break
    numbers = [
        cut._replace(example_numbers=np.array(cut.example_numbers, dtype=np.int64)) for cut in cuts
    ]
    reader = BatchReader(dataset.train, 5, at_once=4)
    for own_values, other in zip(reader.read(cuts), reader.read(numbers), strict=True):
        for name in ("example_numbers", "labels", "weights", "dense", "ids"):
            assert torch.equal(getattr(own_values, name), getattr(other, name)), name


@pytest.mark.parametrize("some", [(-1, 3), (4990, 5001), (3, 2)])
def test_consecutive_inputs_that_are_not_there_are_an_error(part, some):
    with pytest.raises(DataError, match=f"no examples {some[0]} to {some[1]}"):
        Gather.between(part, *some)


@pytest.mark.parametrize("wrong", [-1, 5000])
def test_an_input_that_is_not_there_is_an_error(part, wrong):
    with pytest.raises(DataError, match=f"no example {wrong}"):
        Gather.of(part, np.array([3, wrong, 5]))


def test_ids_of_64_bits_are_read(tmp_path):
    table = Table("wide", 2**31 + 10, 0)
    schema = Schema((table,), (Column("w", "wide"),))
    ids = np.arange(2**31, 2**31 + 10, dtype=np.int64)[:, None]
    inputs = Examples(np.zeros(10, np.float32), ids, np.empty((10, 0), np.float32))
    (batch,) = Loader(Part("train", schema, [inputs]), 16)
    assert batch.ids.dtype == torch.int64
    assert batch.ids[:10, 0].tolist() == ids[:, 0].tolist()


def test_what_was_read_ahead_is_not_part_of_the_state(part):
    with Loader(part, 100, ahead=8) as loader:
        next(loader)
        loader.peek(5)
        assert loader.state_dict()["position"] == 100


def test_a_state_of_another_order_is_an_error_that_names_the_difference(part):
    state = Loader(part, 100, order=InputOrder(len(part), seed=1)).state_dict()
    Loader(part, 50, order=InputOrder(len(part), seed=1, epochs=3)).load_state_dict(state)
    with pytest.raises(ConfigError, match="seed 1"):
        Loader(part, 100, order=InputOrder(len(part), seed=2)).load_state_dict(state)


@pytest.mark.parametrize("wrong", [{"batch_size": 0}, {"rank": 2}, {"world_size": 0}])
def test_a_share_that_no_rank_can_take_is_an_error_at_once(part, wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        Loader(part, **{"batch_size": 10, **wrong})


def test_peeking_shows_the_coming_batches_and_consumes_none(part):
    with Loader(part, 700) as loader:
        first = next(loader)
        window = loader.peek(3)
        assert [batch.example_numbers[0].item() for batch in window] == [700, 1400, 2100]
        assert next(loader) is window[0]
        assert len(loader.peek(99)) == 6
        assert first.example_numbers[0] == 0


def test_iterating_a_second_time_is_an_error_that_says_what_to_do(part):
    loader = Loader(part, 1000)
    assert len(list(loader)) == 5
    with pytest.raises(ConfigError, match="epochs"):
        list(loader)
    loader.load_state_dict({"position": 4000})
    assert len(list(loader)) == 1


def test_a_finished_loader_that_is_restored_hands_out_nothing(part):
    loader = Loader(part, 1000)
    loader.load_state_dict({"position": len(part)})
    assert list(loader) == []


def test_threads_end_with_the_loader(part):
    loader = Loader(part, 10, threads=3)
    next(loader)
    threads = list(loader._threads)
    loader.close()
    assert not any(thread.is_alive() for thread in threads)


def test_threads_end_when_the_loader_is_no_longer_used(part):
    loader = Loader(part, 10, threads=3)
    next(loader)
    threads = list(loader._threads)
    del loader
    gc.collect()
    for thread in threads:
        thread.join(timeout=10)
    assert not any(thread.is_alive() for thread in threads)


def test_an_error_in_a_reading_thread_reaches_the_one_who_asks(part, monkeypatch):
    def broken(self, name, out):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Gather, "fixed", broken)
    with Loader(part, 10) as loader, pytest.raises(OSError, match="Input/output"):
        next(loader)


def test_an_order_for_another_part_is_an_error(part):
    with pytest.raises(ConfigError, match="order is for 7 examples"):
        Loader(part, 10, order=InputOrder(7))


def test_an_empty_part_has_no_batches():
    dataset = from_arrays(np.zeros(2), {"a": np.arange(2)}, validation=0, evaluation=0)
    assert list(Loader(dataset.evaluation, 4)) == []


def test_a_rank_that_gets_nothing_in_the_last_step_has_an_empty_batch(part):
    order = InputOrder(len(part), stop=1)
    (batch,) = Loader(part, 4, order=order, rank=0, world_size=2)
    assert_batch_holds(batch, part, [])
    assert batch.next_position == 1


def test_a_batch_moves_to_another_device_whole(part):
    batch = next(Loader(part, 10)).to("meta")
    assert batch.ids.device.type == batch.lists["many"].values.device.type == "meta"
    assert batch.times is not None
    assert batch.n_valid == 10


def test_who_waits_for_an_order_reads_as_many_batches_at_once_whenever_they_are_decided(part):
    class Deciding(InputOrder):
        """Knows so many batches more each time that somebody waits for it."""

        known, waited = 3, 0

        def cuts(self, *args, **keys):
            for number, cut in enumerate(super().cuts(*args, **keys)):
                while number >= self.known:
                    yield None
                yield cut

        def wait(self):
            self.known += 1
            self.waited += 1

    order = Deciding(len(part))
    with Loader(part, 500, order=order, ahead=6, at_once=4, wait=order.wait) as loader:
        batches = list(loader)
    assert order.waited == 10 - 3, "no more than it takes"
    assert torch.cat([entry.example_numbers for entry in batches]).tolist() == list(range(5000))
    assert [entry.place for entry in batches] == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]
    order = Deciding(len(part))
    with Loader(part, 500, order=order) as loader, pytest.raises(SlipstreamError, match="decided"):
        list(loader)
