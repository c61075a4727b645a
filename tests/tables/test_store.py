import mmap

import numpy as np
import pytest
import torch

from slipstream import Adagrad, ConfigError, EmbeddingTables, Feature, Sgd, TableSpec
from slipstream.tables import store
from slipstream.tables.spec import Layout
from slipstream.tables.tables import Embeddings

ODD = [float("nan"), float("inf"), -float("inf"), 3.4e38, 1e-40, -1e-45, -0.0, 1.00390625]


def test_a_mapped_file_with_rows_of_something_else_is_not_taken_for_zeros(tmp_path):
    layout = Layout((TableSpec("a", 5, 3, Adagrad(0.1)),), (Feature("a", "a"),))
    Embeddings(layout, folder=tmp_path).stores[0].views["sum"][:] = 7
    with pytest.raises(ConfigError, match=r"rows-0.bin is there already.*delete it"):
        Embeddings(layout, folder=tmp_path)
    assert (np.fromfile(tmp_path / "rows-0.bin", np.float32) == 7).sum() == 15, "and stays"


def test_memory_is_had_from_a_system_without_large_pages_too(monkeypatch):
    class Refusing(mmap.mmap):
        def madvise(self, *_):
            raise OSError(22, "Invalid argument")

    monkeypatch.setattr(mmap, "mmap", Refusing)
    memory = store.in_memory((1 << 18, 8))
    memory[-1] = 3
    assert memory.sum() == 24


@pytest.mark.parametrize("storage", ["bf16", "split-bf16"])
def test_values_at_the_edge_of_a_float_are_kept_and_moved_as_torch_rounds_them(storage):
    tables = EmbeddingTables([TableSpec("a", 1, len(ODD), Sgd(1.0), storage)])
    values = torch.tensor([ODD])
    tables.load_state_dict({"a.weight": values}, strict=False)
    wanted = values.bfloat16() if storage == "bf16" else values
    exact = {"rtol": 0, "atol": 0, "equal_nan": True}
    no_number = torch.full((1, len(ODD)), 2**31 - 1, dtype=torch.int32).view(torch.float32)
    for gradient in (torch.zeros(1, len(ODD)), -values, no_number, values):
        torch.testing.assert_close(tables.weight("a"), wanted, **exact)
        number = ~wanted.isnan()
        assert tables.weight("a").signbit()[number].equal(wanted.signbit()[number])
        vectors = tables({"a": torch.tensor([0])})["a"]
        read = wanted.float() if storage == "bf16" else cut(wanted)
        torch.testing.assert_close(vectors.detach(), read, **exact)
        vectors.backward(gradient)
        tables.step()
        wanted = (wanted.float() - gradient).to(wanted.dtype)


def cut(values):
    return (values.view(torch.int32) & -65536).view(torch.float32)
