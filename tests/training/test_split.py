"""Batches in two parts, and kept rows that change: the same training, up to the order of sums."""

import numpy as np
import pytest
import torch
from small_runs import clicks, config, often_chosen, short_segments, skewed, stop_after

from slipstream import Lists
from slipstream.config import Config
from slipstream.data.loader import Loader
from slipstream.tables.plan import Planner
from slipstream.training import build
from slipstream.training.loop import StoppedError, train
from slipstream.training.placement import placement_for, tier_sizes_of

MODELS = {
    "dlrm": ("model.bottom=[4]", "model.top=[4]"),
    "dcn": ("model.deep=[6]", "model.cross=2"),
    "deepfm": ("model.deep=[6]",),
    "wide_deep": ("model.deep=[6]",),
    "tbsm": ("model.top=[6, 5]", "model.attention=[4]", "model.final=[6]"),
}
TIERS = ("placement.fast_memory=60%",)


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    short_segments(monkeypatch, 5)
    often_chosen(monkeypatch, 3)


def keys_of(strategy, model="dlrm", *settings):
    sizes = MODELS[model]
    all_of_them = (f"model.name={model}", "model.dim=2", "log.trackers=[]", *sizes, *TIERS)
    return Config(strategy=strategy, batch_size=16).with_settings([*all_of_them, *settings])


def dataset_for(model):
    if model != "tbsm":
        return skewed(400)
    random = np.random.default_rng(0)
    ids = (60 * random.random(2000) ** 4).astype(np.int64)
    lists = [ids[5 * n : 5 * n + random.integers(0, 4)].tolist() for n in range(400)]
    columns = {"item": ids[:400], "seen": Lists.of(lists, "sequence")}
    return clicks(400, columns=columns, tables={"seen": "item"})


def stepping(keys, dataset):
    """An engine and the plans of its steps."""
    model = build.model_of(keys, dataset)
    tier_sizes = tier_sizes_of(keys, model.layout, dataset)
    engine = build.engine_of(keys, model, 0, tier_sizes=tier_sizes)
    placement = placement_for(keys, model.layout, dataset, tier_sizes)
    engine.tables.keep(placement.resident_rows())
    order = build.run_order(keys, model.layout, dataset, tier_sizes)
    loader = Loader(dataset.train, keys.batch_size, order=order)
    return engine, Planner(placement).plans(loader)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("optimizer", ["sgd", "rowwise_adagrad", "adam"])
def test_split_batches_equal_plain_ones_step_by_step_in_float64(model, optimizer):
    settings = ("embedding.storage=fp64", f"embedding.optimizer={optimizer}", "epochs=2")
    dataset = dataset_for(model)
    plain, its_plans = stepping(keys_of("plain", model, *settings), dataset)
    split, plans = stepping(keys_of("hotline", model, *settings), dataset)
    parted = 0
    for plan, parted_plan in zip(its_plans, plans, strict=True):
        parted += bool(parted_plan.parts)
        split.tables.prepare(parted_plan)
        losses = [plain.forward(plan).loss, split.forward(parted_plan).loss]
        assert losses[0] == pytest.approx(losses[1], abs=1e-9)
        plain.update(plan)
        split.update(parted_plan)
        split.tables.flush()
        for left, right in zip(plain.tables.stores, split.tables.stores, strict=True):
            for name, values in left.views.items():
                expected = torch.from_numpy(right.views[name].copy())
                actual = torch.from_numpy(values.copy())
                torch.testing.assert_close(expected, actual, rtol=1e-9, atol=1e-9)
        weights = zip(plain.dense.model.parameters(), split.dense.model.parameters(), strict=True)
        for left, right in weights:
            torch.testing.assert_close(left, right, rtol=1e-9, atol=1e-9)
    assert parted > 5
    split.tables.close()


@pytest.mark.parametrize("model", MODELS)
def test_rows_that_are_chosen_anew_change_no_bit(model, tmp_path):
    dataset = dataset_for(model)
    plain = train(dataset, keys_of("plain", model, "epochs=2"), tmp_path / "plain")
    fast = train(dataset, keys_of("fast", model, "epochs=2"), tmp_path / "fast")
    assert fast["weights_digest"] == plain["weights_digest"]
    assert fast["transfers"]["hits"] > 0
    learned = keys_of("hotline", model, "epochs=2", "order.kind=as-is")
    assert train(dataset, learned, tmp_path / "l")["weights_digest"] == plain["weights_digest"]


@pytest.mark.parametrize("model", MODELS)
def test_hot_and_cold_apart_is_the_same_in_one_tier_and_in_two(model, tmp_path):
    settings = ("epochs=2", "placement.fast_memory=70%")
    dataset = dataset_for(model)
    two = train(dataset, keys_of("fae", model, *settings), tmp_path / "two")
    rows = sum(table.rows for table in dataset.schema.tables)
    assert 0 < two["hot_rows"] < rows, "there are hot inputs and cold ones"
    slow = train(
        dataset, keys_of("fae", model, *settings, "placement.kind=slow"), tmp_path / "slow"
    )
    assert two["weights_digest"] == slow["weights_digest"]


@pytest.mark.parametrize("name", ["fast", "hotline"])
def test_stopped_and_resumed_also_with_another_strategy(name, tmp_path):
    dataset, keys = skewed(300), keys_of(name, "dlrm", "epochs=2")
    whole = train(dataset, keys, tmp_path / "whole")
    for number, stop in enumerate((1, 7, 20)):
        run = tmp_path / f"run{number}"
        with pytest.raises(StoppedError):
            train(dataset, keys, run, hooks=stop_after(stop))
        again = train(dataset, keys, run, resume=True)
        assert again["inputs_trained"] == whole["inputs_trained"]
        assert again["weights_digest"] == whole["weights_digest"]
        if name == "hotline":
            assert again["transfers"] == whole["transfers"], "it goes on with the very plans"
    with pytest.raises(StoppedError):
        train(dataset, keys, tmp_path / "other", hooks=stop_after(9))
    other = keys_of("bagpipe", "dlrm", "epochs=2", "placement.fast_memory=90%")
    ended = train(dataset, other, tmp_path / "other", resume=True)
    assert ended["inputs_trained"] == whole["inputs_trained"]


def test_split_works_with_other_placements(tmp_path):
    for kind in ("popular", "popular+lookahead"):
        keys = config(*TIERS, "order.kind=split", f"placement.kind={kind}", strategy="plain")
        summary = train(skewed(), keys, tmp_path / kind)
        assert summary["inputs_trained"] == 480
