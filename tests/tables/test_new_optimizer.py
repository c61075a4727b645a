"""An optimizer with two states that was added in one file trains like any other."""

import copy

import pytest
import torch
from small_runs import clicks, config, stop_after
from tables.ftrl import Ftrl

from slipstream import EmbeddingTables, Feature, TableSpec
from slipstream.tables.optimizers import OPTIMIZERS, row_optimizer
from slipstream.training.loop import StoppedError, train

FTRL = Ftrl(lr=0.3)
pytestmark = pytest.mark.filterwarnings("ignore:The row optimizer ftrl")


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setitem(OPTIMIZERS, "ftrl", Ftrl)


def tables_of(storage="fp64"):
    specs = [TableSpec("item", 12, 3, FTRL, storage)]
    return EmbeddingTables(specs, [Feature("item", "item"), Feature("seen", "item", "mean")])


def ids_of(seed):
    random = torch.Generator().manual_seed(seed)
    values = torch.randint(12, (16,), generator=random)
    return {
        "item": torch.randint(12, (8,), generator=random),
        "seen": (values, torch.arange(9) * 2),
    }


def step(tables, seed):
    vectors = tables(ids_of(seed))
    ((vectors["item"] - 1) * (vectors["seen"] + 2)).sum().backward()
    tables.step()


def test_it_is_found_by_its_name_with_its_own_options():
    assert row_optimizer("ftrl", l1=0.5) == Ftrl(l1=0.5)


def test_it_says_once_that_it_has_no_kernel():
    with pytest.warns(UserWarning, match="ftrl has no compiled kernel: its updates run in plain"):
        tables_of()


def test_rows_change_by_its_formula():
    tables = tables_of()
    rows = tables.weight("item")
    state = {"z": torch.zeros(12, 3, dtype=rows.dtype), "n": torch.zeros(12, 1, dtype=rows.dtype)}
    for seed in range(5):
        ids = ids_of(seed)
        weight = rows.clone().requires_grad_()
        seen = weight[ids["seen"][0]].reshape(8, 2, 3).mean(1)
        ((weight[ids["item"]] - 1) * (seen + 2)).sum().backward()
        touched = torch.cat([ids["item"], ids["seen"][0]]).unique()
        some = {name: values[touched] for name, values in state.items()}
        rows[touched] = FTRL.update(rows[touched], some, weight.grad[touched], FTRL.lr, seed + 1)
        for name, values in some.items():
            state[name][touched] = values
        step(tables, seed)
        torch.testing.assert_close(tables.weight("item"), rows, rtol=0, atol=1e-12)


@pytest.mark.parametrize("storage", ["fp32", "split-bf16", "bf16"])
def test_training_goes_on_from_a_state_dict_to_the_bit(storage):
    tables = tables_of(storage)
    for seed in range(3):
        step(tables, seed)
    saved = tables.state_dict()
    assert {name: list(one.shape) for name, one in saved.items() if "." in name} == {
        "item.weight": [12, 3],
        "item.z": [12, 3],
        "item.n": [12, 1],
    }
    other = tables_of(storage)
    other.load_state_dict(copy.deepcopy(saved))
    for one in (tables, other):
        step(one, 3)
    assert other.weight("item").equal(tables.weight("item"))


def test_a_run_trains_with_it_and_goes_on_from_a_checkpoint(tmp_path):
    keys = config("embedding={optimizer: ftrl, lr: 0.3, options: {l1: 0.001}}")
    keys = keys.with_settings(["checkpoint.every_inputs=48", "embedding.tables.ad.optimizer=adam"])
    whole = train(clicks(), keys, tmp_path / "whole")
    with pytest.raises(StoppedError):
        train(clicks(), keys, tmp_path / "run", hooks=stop_after(9))
    resumed = train(clicks(), keys, tmp_path / "run", resume=True)
    assert resumed["weights_digest"] == whole["weights_digest"]
    warm = keys.with_settings([f"init_from={tmp_path / 'whole'}"])
    assert train(clicks(), warm, tmp_path / "warm")["weights_digest"] != whole["weights_digest"]


@pytest.mark.parametrize("strategy", ["bagpipe", "fast"])
def test_every_strategy_gives_the_weights_of_plain_training(strategy, tmp_path):
    keys = config("embedding.optimizer=ftrl", "placement.fast_memory=60%", "strategy=plain")
    plain = train(clicks(), keys, tmp_path / "plain")
    tiers = train(clicks(), keys.with_settings([f"strategy={strategy}"]), tmp_path / "tiers")
    assert tiers["weights_digest"] == plain["weights_digest"]
