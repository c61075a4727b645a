import copy
import pickle

import pytest
import torch
from safetensors.torch import load_file, save_file
from tables.every_table import ids_of, loss_of, made

import slipstream


@pytest.mark.parametrize("storage", ["fp32", "bf16", "split-bf16", "fp64"])
@pytest.mark.parametrize("kind", [slipstream.Adam, slipstream.RowwiseAdagrad])
def test_training_goes_on_from_a_state_dict_to_the_bit(kind, storage, tmp_path):
    def train(tables, steps):
        for step in steps:
            loss_of(tables(ids_of(step)), step).backward()
            tables.step(lr_factor=1 / (1 + step))

    tables = made(kind(0.1), storage)
    train(tables, range(4))
    model = torch.nn.ModuleDict({"tables": tables})
    state = model.state_dict()
    assert state["tables.user.weight"].shape == (30, 4)
    assert state["tables.user.weight"].dtype == {
        "bf16": torch.bfloat16,
        "fp64": torch.float64,
    }.get(storage, torch.float32)
    save_file(state, tmp_path / "model.safetensors")
    torch.save(state, tmp_path / "model.pt")
    train(tables, range(4, 8))
    for state in (load_file(tmp_path / "model.safetensors"), torch.load(tmp_path / "model.pt")):
        again = torch.nn.ModuleDict({"tables": made(kind(0.1), storage, seed=5)})
        again.load_state_dict(state)
        train(again["tables"], range(4, 8))
        wanted = model.state_dict()
        for key, values in again.state_dict().items():
            assert values.equal(wanted[key]), key


def test_a_state_dict_is_a_copy():
    tables = made(slipstream.Sgd(0.1))
    state = tables.state_dict()
    tables.weight("user").zero_()
    state["user.weight"].zero_()
    assert tables.weight("user").any()


def test_a_state_dict_that_does_not_fit_is_refused():
    tables = made(slipstream.Adagrad(0.1), "fp32", seed=1)
    before = tables.state_dict()
    state = made(slipstream.RowwiseAdagrad(0.1), "fp32").state_dict()
    with pytest.raises(RuntimeError, match=r"user.sum has the shape \[30, 1\].*needs \[30, 4\]"):
        tables.load_state_dict(state)
    for key, values in tables.state_dict().items():
        assert values.equal(before[key]), "rows of other shapes change nothing"
    with pytest.raises(RuntimeError, match=r"Missing key.*user.sum"):
        tables.load_state_dict(made(slipstream.Sgd(0.1), "fp32").state_dict())
    with pytest.raises(RuntimeError, match=r"Unexpected key.*shop.weight"):
        tables.load_state_dict({**before, "shop.weight": torch.zeros(2, 2)})


def test_rows_of_ones_own_are_loaded_by_name():
    tables = made(slipstream.Adagrad(0.1), "bf16")
    rows = torch.arange(120.0).reshape(30, 4)
    tables.load_state_dict({"user.weight": rows}, strict=False)
    assert tables.weight("user").float().equal(rows)
    assert tables.weight("item").equal(made(None, "bf16").weight("item"))


@pytest.mark.parametrize("way", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_trains_on_its_own(way):
    tables = made(slipstream.Adam(0.1))
    loss_of(tables(ids_of(0)), 0).backward()
    tables.step()
    loss_of(tables(ids_of(1)), 1).backward()  # waits, and is not copied
    twin = way(tables)
    assert twin.weight("user").equal(tables.weight("user"))
    twin.step()
    assert twin.steps == 1
    loss_of(twin(ids_of(1)), 1).backward()
    twin.step()
    assert not twin.weight("user").equal(tables.weight("user"))
    tables.step()
    assert twin.weight("user").equal(tables.weight("user"))
