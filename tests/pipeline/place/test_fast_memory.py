"""Sharing out the fast tier: what fits, what is the least, and what is said when it does not."""

import pytest
from batch_rows import rows_of_batches
from hypothesis import given
from hypothesis import strategies as st
from random_datasets import datasets
from small_runs import clicks, config, often_chosen, skewed

from slipstream import ConfigError
from slipstream.config import Config
from slipstream.data.loader import Loader
from slipstream.pipeline.place import working_set as working_sets
from slipstream.pipeline.place.accesses import Popularity
from slipstream.pipeline.place.budget import (
    auto_bytes,
    divide_among,
    divide_budget,
    least_bytes,
    too_small_for_all,
)
from slipstream.pipeline.place.tiered import Tiered
from slipstream.pipeline.place.working_set import WorkingSet, count_working_set, working_set_bound
from slipstream.tables.plan import Planner
from slipstream.tables.sizes import budget_bytes, row_bytes
from slipstream.training import build
from slipstream.training.build import check, model_of
from slipstream.training.loop import train
from slipstream.training.placement import placement_for, tier_sizes_of, working_set


def _layout(dataset, model="dlrm"):
    deepfm = Config().with_settings(["model.name=deepfm", "model.dim=2", "model.deep=[4]"])
    return model_of(config() if model == "dlrm" else deepfm, dataset).layout


@given(datasets(min_rows=1), st.sampled_from(["dlrm", "deepfm"]), st.integers(1, 20), st.data())
def test_any_budget_from_the_least_on_fits_every_batch(dataset, model, batch_size, data):
    if not dataset.schema.columns or not len(dataset.train):
        return
    layout = _layout(dataset, model)
    singles = [column.name for column in dataset.schema.singles]
    rows = Popularity.of(layout, dataset.counts)
    with Loader(dataset.train, batch_size) as loader:
        batches = list(loader)
    needed = count_working_set(layout, singles, batches)
    largest = needed.largest
    lists = dataset.manifest.parts["train"].lists
    longest = {name: stats.longest for name, stats in lists.items()}
    bound = working_set_bound(layout, batch_size, longest).largest
    assert all(most <= more for most, more in zip(largest, bound, strict=True))
    least = least_bytes(rows.sizes, largest)
    budget = data.draw(st.just(least) | st.integers(least, max(least, 2 * rows.bytes)))
    window, keep = data.draw(st.integers(1, 9)), data.draw(st.booleans())
    tier_sizes = divide_among(
        rows,
        len(dataset.train),
        budget,
        keep=keep,
        window_inputs=batch_size * window,
        needed=needed,
    )
    used = sum(
        tier_size.slots * size for tier_size, size in zip(tier_sizes, rows.sizes, strict=True)
    )
    assert used <= budget
    planner = Planner(Tiered(layout, singles, tier_sizes, window))
    assert [plan.oversized_batch for plan in planner.plans(batches)] == [False] * len(batches)
    less = data.draw(st.integers(0, least - 1))
    tier_sizes = divide_among(
        rows, 1, less, keep=keep, window_inputs=batch_size * window, needed=needed
    )
    used = sum(
        tier_size.slots * size for tier_size, size in zip(tier_sizes, rows.sizes, strict=True)
    )
    assert used <= less + sum(rows.sizes), "a slot each there always is"
    planner = Planner(Tiered(layout, singles, tier_sizes, window))
    assert len(list(planner.plans(batches))) == len(batches)


@given(datasets(min_rows=1), st.integers(1, 20))
def test_the_least_that_works_is_that_of_the_full_batch_with_the_fewest_rows(dataset, size):
    if not dataset.schema.columns or not len(dataset.train):
        return
    layout = _layout(dataset)
    rows = Popularity.of(layout, dataset.counts)
    singles = [column.name for column in dataset.schema.singles]
    with Loader(dataset.train, size) as loader:
        batches = list(loader)
    needed = count_working_set(layout, singles, batches)
    trace = rows_of_batches(layout, singles, batches)
    bytes_of = [
        sum(len(group[n]) * size for group, size in zip(trace, rows.sizes, strict=True))
        for n in range(len(batches))
    ]
    full = [
        size
        for size, batch in zip(bytes_of, batches, strict=True)
        if batch.n_valid == batch.capacity
    ]
    assert needed.smallest_bytes == min(full or bytes_of)
    assert too_small_for_all(rows.sizes, needed, needed.smallest_bytes) is None


@pytest.mark.parametrize("strategy", ["bagpipe", "fast"])
def test_a_budget_too_small_is_refused_before_the_folder_is_made_and_the_least_works(
    tmp_path, strategy
):
    dataset = clicks()
    chosen = config("placement.fast_memory=100B", strategy=strategy)
    with pytest.raises(ConfigError, match="no batch fits") as error:
        train(dataset, chosen, tmp_path / "run")
    assert not (tmp_path / "run").exists()
    least = str(error.value).split("placement.fast_memory to ")[1].split(" ")[0]
    enough = chosen.with_settings([f"placement.fast_memory={least}"])
    summary = train(dataset, enough, tmp_path / "run")
    assert summary["inputs_trained"] == len(dataset.train)
    assert 0 < summary["transfers"]["oversized_steps"] < 15, "of 15 batches"
    plain = train(dataset, config(), tmp_path / "plain")
    assert summary["weights_digest"] == plain["weights_digest"]
    one_less = chosen.with_settings([f"placement.fast_memory={int(least[:-1]) - 1}B"])
    with pytest.raises(ConfigError, match="too small"):
        check(one_less, dataset)


@pytest.mark.parametrize("name", ["fae", "hotline", "fast"])
@pytest.mark.parametrize("more", [1, 1.1, 1.5])
@pytest.mark.parametrize("window", [1, 4])
@pytest.mark.parametrize("batch_size", [4, 16])
def test_the_least_fits_every_batch_also_apart_and_with_rows_that_are_chosen(
    name, more, window, batch_size, monkeypatch
):
    often_chosen(monkeypatch, 2)
    dataset = skewed()
    keys = config(
        f"placement.window={window}",
        "placement.fast_memory=1B",
        strategy=name,
        batch_size=batch_size,
        epochs=2,
    )
    layout = _layout(dataset)
    least = least_bytes(row_bytes(layout), working_set(keys, layout, dataset).largest)
    keys = keys.with_settings([f"placement.fast_memory={int(more * least)}B"])
    check(keys, dataset)
    tier_sizes = tier_sizes_of(keys, layout, dataset)
    sizes = row_bytes(layout)
    assert sum(r.slots * size for r, size in zip(tier_sizes, sizes, strict=True)) <= int(
        more * least
    )
    order = build.run_order(keys, layout, dataset, tier_sizes)
    planner = Planner(placement_for(keys, layout, dataset, tier_sizes))
    trained = 0
    with Loader(dataset.train, batch_size, order=order) as loader:
        for plan in planner.plans(loader):
            trained += plan.n_valid
            assert name == "fae" or not plan.oversized_batch
            number = order.pending_decision(plan.next_position)
            if number is not None:
                order.report_loss(number, 0.5)
    assert trained == len(order)


def test_cold_inputs_bring_more_rows_than_inputs_at_random():
    dataset = skewed()
    layout = _layout(dataset)
    many = {"keep": True, "batch_size": 16, "window": 2}
    budget = budget_bytes("60%", layout)
    plain, apart = (
        divide_budget(layout, dataset.counts, len(dataset.train), budget, **many, apart=is_apart)
        for is_apart in (False, True)
    )
    assert sum(len(tier_size.keep) for tier_size in apart) < sum(
        len(tier_size.keep) for tier_size in plain
    )
    assert sum(len(tier_size.keep) for tier_size in apart) > 0


def test_the_needed_rows_are_found_exactly_only_where_it_matters():
    dataset = clicks()
    layout = _layout(dataset)
    tight, wide = (config(f"placement.fast_memory={size}") for size in ("1%", "1GiB"))
    with Loader(dataset.train, 16) as loader:
        exact = [
            len({("user", int(u)) for u, _ in batch.ids[: batch.n_valid].tolist()})
            + len({("ad", int(a)) for _, a in batch.ids[: batch.n_valid].tolist()})
            for batch in loader
        ]
    assert working_set(tight, layout, dataset).largest == [max(exact)]
    assert working_set(wide, layout, dataset).largest == working_set_bound(layout, 16, {}).largest


def test_batches_are_read_once_for_a_data_set(monkeypatch):
    dataset, counted = clicks(), []

    def count(layout, singles, batches):
        counted.append(batches)
        return count_working_set(layout, singles, batches)

    monkeypatch.setattr(working_sets, "count_working_set", count)
    layout = _layout(dataset)
    first = config("placement.fast_memory=1%")
    needed = working_set(first, layout, dataset)
    assert working_set(first, _layout(dataset), dataset) is needed
    assert len(counted) == 1
    working_set(first.with_settings(["batch_size=8"]), layout, dataset)
    working_set(first.with_settings(["epochs=3"]), layout, dataset)
    working_set(first, layout, clicks())
    assert len(counted) == 4, "other batches, and another data set"


def test_auto_keeps_rows_for_the_stated_share_and_leaves_room_for_a_batch():
    dataset = clicks()
    chosen = config("placement.fast_memory=auto", strategy="fast")
    layout = _layout(dataset)
    rows = Popularity.of(layout, dataset.counts)
    budget = auto_bytes(rows, [2])
    assert budget == rows.bytes_for(0.95) + 2 * rows.sizes[0]
    assert rows.coverage(budget) >= 0.95
    assert auto_bytes(rows, [10**6]) == rows.bytes
    (tier_size,) = tier_sizes_of(chosen, layout, dataset)
    assert 0 < len(tier_size.keep) <= tier_size.slots


def test_sizes_are_read_as_they_are_written():
    layout = _layout(clicks())
    (size,) = row_bytes(layout)
    for text, bytes_ in (("256MiB", 256 << 20), ("1.5k", 1536), ("100", 100), ("2 GB", 2 << 30)):
        assert budget_bytes(text, layout) == bytes_
    assert budget_bytes("50%", layout) == round(size * layout.groups[0].rows / 2)
    assert budget_bytes("auto", layout, lambda: 7) == 7
    with pytest.raises(ConfigError, match="256MiB"):
        budget_bytes("a lot", layout)


def test_the_size_that_the_error_names_is_enough():
    for rows in (1, 700, 12_345, 10**6, 10**9):
        needed = WorkingSet([2 * rows], smallest_bytes=68 * rows)
        error = too_small_for_all([68], needed, 0)
        for before, larger in (("placement.fast_memory to ", 1), ("; at ", 2)):
            named = budget_bytes(error.split(before)[1].split(" ")[0], _layout(clicks()))
            assert too_small_for_all([68], needed, named) is None
            assert least_bytes([68], [larger * rows]) <= named
