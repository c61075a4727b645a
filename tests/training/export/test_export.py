"""What is exported gives the same logits in a process that has no slipstream."""

import json
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file
from trained import SIZES, criteo_data, small_run

from slipstream import Dataset, Recipe, synthesize
from slipstream.errors import ConfigError
from slipstream.training.evaluation import predictions
from slipstream.training.export import export_run
from slipstream.training.load_run import open_run

FILES = {"export.json", "model.pt2", "weights.safetensors"}
SCRIPT = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("slipstream", "numba", "polars"):
            raise ImportError(f"{name} is blocked by the test")
sys.meta_path.insert(0, Block())
import json, pathlib, torch
from safetensors.torch import load_file
for folder in map(pathlib.Path, sys.argv[1:]):
    described = json.loads((folder / "export.json").read_text())
    program = torch.export.load(folder / "model.pt2").module()
    weights = {}
    for file in {one["file"] for one in described["weights"].values()}:
        weights.update(load_file(folder / file))
    names = [one["name"] for one in described["program"]["inputs"]]
    tables = [weights[name] for name in names if name.startswith("table.")]
    for *inputs, expected in torch.load(f"{folder}.cases"):
        worst = (program(*inputs, *tables) - expected).abs().max()
        assert worst < 1e-6, (folder, worst)
assert "slipstream" not in sys.modules
"""


@pytest.fixture(scope="module")
def taobao(tmp_path_factory) -> Dataset:
    recipe = Recipe("taobao", rows=900)
    return Dataset.open(synthesize(recipe, tmp_path_factory.mktemp("taobao") / "data"))


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Dataset:
    recipe = Recipe("small", rows=900)
    return Dataset.open(synthesize(recipe, tmp_path_factory.mktemp("small") / "data"))


def write_cases(out, run, data, sizes=(64, 1)):
    """Inputs as the program takes them, each with the logits of the run."""
    opened = open_run(run, data)
    opened.engine.dense.precision = "fp32"
    exported = []
    for size in sizes:
        for batch, logits in predictions(opened.engine, opened.placement, data.evaluation, size):
            n, inputs = batch.n_valid, [batch.dense, batch.ids.long()]
            for column in data.schema.lists:
                ragged = batch.lists[column.name]
                lengths = ragged.offsets.diff()
                padded = torch.full((len(lengths), max(1, int(lengths.max()))), 99_999_999)
                for i, length in enumerate(lengths.tolist()):
                    start = int(ragged.offsets[i])
                    padded[i, :length] = ragged.values[start : start + length].long()
                inputs += [padded, lengths]
            cases = [tensor[:n].clone() for tensor in inputs]
            exported.append([*cases, logits[:n].clone()])
            if size == 1 and len(exported) > 8:
                break
    torch.save(exported, f"{out}.cases")


KINDS = (
    "embedding.storage=bf16",
    "embedding.tables.ad={dim: 3, storage: split-bf16, optimizer: adam}",
    "embedding.tables.site={storage: fp32}",
    "model.normalize_dense=true",
    "model.normalize_embedded=true",
    "precision=bf16",
)


@pytest.mark.process
def test_every_model_and_kind_of_table_runs_without_slipstream(taobao, small, tmp_path):
    exported = [tmp_path / model for model in SIZES]
    for out in exported:
        small_run(tmp_path / "run", taobao, model=out.name, force=True)
        export_run(tmp_path / "run", out)
        write_cases(out, tmp_path / "run", taobao)
    exported.append(tmp_path / "kinds")
    small_run(tmp_path / "run", small, *KINDS, force=True)
    described = export_run(tmp_path / "run", exported[-1], inside_bytes=400, shard_bytes=3000)
    write_cases(exported[-1], tmp_path / "run", small)
    outside = [name for name, table in described["tables"].items() if not table["inside"]]
    assert 0 < len(outside) < len(described["tables"])
    assert len({weight["file"] for weight in described["weights"].values()}) > 1
    subprocess.run([sys.executable, "-c", SCRIPT, *map(str, exported)], check=True, timeout=100)


def test_the_weights_are_those_of_the_run_by_name(small, tmp_path):
    small_run(tmp_path / "run", small, "embedding.tables.tag={storage: bf16}")
    exported = export_run(tmp_path / "run", tmp_path / "out")
    weights = load_file(tmp_path / "out" / "weights.safetensors")
    assert exported == json.loads((tmp_path / "out" / "export.json").read_text())
    opened = open_run(tmp_path / "run")
    for store in opened.engine.tables.stores:
        for table in store.group.tables:
            rows = torch.arange(*store.rows_of(table.name).indices(store.group.rows))
            weight = weights[f"table.{table.name}"]
            assert weight.dtype == (torch.bfloat16 if table.name == "tag" else torch.float32)
            assert torch.equal(weight.float(), store.look(rows))
    for name, value in opened.engine.dense.model.state_dict().items():
        assert torch.equal(weights[f"dense.{name}"], value)
    assert weights.keys() == exported["weights"].keys()


def test_an_id_that_no_table_has_is_an_error(tmp_path):
    data = criteo_data(tmp_path)
    small_run(tmp_path / "run", data)
    export_run(tmp_path / "run", tmp_path / "out")
    program = torch.export.load(tmp_path / "out" / "model.pt2").module()
    ids = torch.zeros(2, 26, dtype=torch.int64)
    logits = program(torch.zeros(2, 13), ids)
    assert logits.shape == (2,)
    assert not logits.requires_grad, "a program to predict with keeps nothing for training"
    for wrong in (-1, 10**6):
        ids[1, 3] = wrong
        with pytest.raises(IndexError):
            program(torch.zeros(2, 13), ids)


def test_what_is_there_is_replaced_only_if_it_is_an_export_and_asked_for(small, tmp_path):
    small_run(tmp_path / "run", small)
    out = tmp_path / "out"
    export_run(tmp_path / "run", out)
    with pytest.raises(ConfigError, match="already holds an export"):
        export_run(tmp_path / "run", out)
    export_run(tmp_path / "run", out, force=True)
    with pytest.raises(ConfigError, match="is not an export"):
        export_run(tmp_path / "run", small.folder, force=True)
    assert not list(tmp_path.glob("out.*"))
    assert {path.name for path in out.iterdir()} == FILES
