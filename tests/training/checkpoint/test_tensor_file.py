"""Our files are those of the safetensors package, and the other way round."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from row_stores import fields, fill, stores_of

from slipstream.errors import CheckpointError
from slipstream.tables.optimizers import Adam
from slipstream.tables.spec import TableSpec
from slipstream.training.checkpoint.checkpoints import Checkpoints
from slipstream.training.checkpoint.restore import newest
from slipstream.training.checkpoint.tensor_file import arrays, pack, unpack

safetensors = pytest.importorskip("safetensors.torch")

DTYPES = [
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32,
    torch.int16, torch.int8, torch.uint64, torch.uint32, torch.uint16, torch.uint8, torch.bool,
]  # fmt: skip
SHAPES = st.lists(st.integers(0, 4), max_size=3)
NAMES = st.text(min_size=1, max_size=5).filter(lambda name: name != "__metadata__")
NAMES = NAMES.filter(lambda name: all(not 0xD800 <= ord(letter) < 0xE000 for letter in name))


@st.composite
def named_tensors(draw):
    names = draw(st.lists(NAMES, unique=True, max_size=5))
    tensors = {}
    for name in names:
        dtype, shape = draw(st.sampled_from(DTYPES)), draw(SHAPES)
        values = torch.arange(int(np.prod(shape))) % (2 if dtype == torch.bool else 100)
        tensors[name] = values.to(dtype).reshape(shape)
    return tensors


def assert_same(left, right):
    assert left.keys() == right.keys()
    for name, tensor in left.items():
        assert tensor.dtype == right[name].dtype
        assert tensor.shape == right[name].shape
        assert torch.equal(tensor, right[name])


@given(tensors=named_tensors())
def test_the_package_reads_what_is_written_here(tensors):
    assert_same(safetensors.load(pack(tensors).tobytes()), tensors)


@given(tensors=named_tensors())
def test_what_the_package_writes_is_read_here(tensors):
    data = np.frombuffer(safetensors.save(tensors, {"made": "by the package"}), dtype=np.uint8)
    assert_same(unpack(data), tensors)


@pytest.mark.parametrize("storage", ["fp32", "fp64", "bf16", "split-bf16"])
def test_the_package_reads_the_rows_of_a_checkpoint(storage, tmp_path):
    stores = stores_of(TableSpec("a", 7, 3, Adam(), storage))
    fill(stores, 1)
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.begin(1, stores, {}, {})
    back = safetensors.load_file(newest(tmp_path).path / "rows/0-0.safetensors")
    kind = {"fp32": torch.float32, "fp64": torch.float64}.get(storage, torch.bfloat16)
    assert back["weight"].dtype == kind
    assert back["mean"].dtype == (torch.float64 if storage == "fp64" else torch.float32)
    wanted = {name: values for (_, name), values in fields(stores).items()}
    assert {n: t.view(torch.uint8).numpy().tobytes() for n, t in back.items()} == wanted


def test_an_empty_array_of_numpy_is_a_tensor_too():
    tensors = {"ends": torch.from_numpy(np.empty(0, dtype=np.int64)), "one": torch.ones(1)}
    assert_same(unpack(pack(tensors)), tensors)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff" * 16,
        b"\x02" + b"\0" * 7 + b"[]",
        b"\x02" + b"\0" * 7 + b"{x",
        b"\x3c" + b"\0" * 7 + b'{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'.ljust(60),
        b"\x3c" + b"\0" * 7 + b'{"a":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}}'.ljust(60),
    ],
)
def test_other_bytes_are_told_apart(data):
    with pytest.raises(CheckpointError, match=r"x\.st cannot be read as safetensors"):
        arrays(np.frombuffer(data, dtype=np.uint8), "x.st")
