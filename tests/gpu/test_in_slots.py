"""A model that reads rows from their slots trains what one that is given vectors trains."""

import numpy as np
import pytest
import torch
from small_runs import clicks, config, skewed
from torch import nn

from slipstream.config import Config
from slipstream.gpu.planning import plan_ahead
from slipstream.gpu.step.arena import Arena
from slipstream.models import dlrm
from slipstream.training import build
from slipstream.training.loop import train

dots = pytest.importorskip("slipstream.gpu.kernels.dots", exc_type=ImportError)
of_rows = pytest.importorskip("slipstream.gpu.kernels.dots_of_rows", exc_type=ImportError)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TIERS = ("placement.fast_memory=70%", "placement.window=3")


@pytest.fixture(autouse=True)
def _by_kernels_of_a_gpu(monkeypatch):
    monkeypatch.setattr(
        plan_ahead, "kernels_for", lambda _, tier_sizes: "cpu" if tier_sizes is None else "gpu"
    )
    monkeypatch.setattr(dlrm.DotInteraction, "kernel", dots)
    monkeypatch.setattr(dlrm.DotInteraction, "rows_kernel", of_rows)
    if DEVICE == "cpu":
        kernel = lambda _, first, others: dots.dot_interaction(first, others[0])  # noqa: E731
        monkeypatch.setattr(dlrm.DotInteraction, "of", kernel)


def three_columns(n=96):
    """With a dim of 2 the interaction gives eight values: no layer needs zeros behind them."""
    random = np.random.default_rng(0)
    ids = {name: random.integers(0, rows, n) for name, rows in (("a", 30), ("b", 9), ("c", 50))}
    return clicks(n, columns=ids)


@pytest.mark.parametrize(
    ("strategy", "settings"),
    [
        ("fast", ()),
        ("fast", ("embedding.storage=bf16", "embedding.optimizer=adam")),
        ("fast", ("placement.fast_memory=390B",)),
        ("bagpipe", ("embedding.storage=split-bf16", "embedding.optimizer=adagrad")),
        ("hotline", ("embedding.storage=fp32",)),
    ],
)
def test_a_run_ends_with_the_same_bits(strategy, settings, tmp_path, monkeypatch):
    data, wanted = three_columns(), config(*TIERS, *settings, strategy=strategy, device=DEVICE)
    asked = set()
    look_up = Arena.lookup

    def noted(self, plan, frame=None, *, in_slots=False):
        asked.add(in_slots)
        return look_up(self, plan, frame, in_slots=in_slots)

    monkeypatch.setattr(Arena, "lookup", noted)
    made = []
    for reads in (True, False):
        asked.clear()
        monkeypatch.setattr(dlrm.Dlrm, "reads_slots", property(lambda _, reads=reads: reads))
        made.append(train(data, wanted, tmp_path / str(reads)))
        oversized_batch = made[-1]["transfers"]["oversized_steps"] > 0
        assert oversized_batch == ("placement.fast_memory=390B" in settings)
        assert asked == ({reads, False} if oversized_batch else {reads})
    ours, theirs = made
    assert ours["weights_digest"] == theirs["weights_digest"]
    assert ours["auc"] == theirs["auc"]


class OnGpu(nn.Parameter):
    """A weight of which a model thinks that it is on a GPU."""

    is_cuda = True


def reads_slots(data, *settings):
    model = build.model_of(Config().with_settings([*settings]), data)
    model.top[0].weight = OnGpu(model.top[0].weight.detach())
    return model.reads_slots


def test_dlrm_reads_slots_where_its_rows_are_of_one_kind_that_kernels_can_read():
    data = three_columns()
    for storage in ("fp32", "bf16", "split-bf16"):
        assert reads_slots(data, f"embedding.storage={storage}")
    assert reads_slots(data, "model.dim=64")
    for setting in (
        "embedding.storage=fp64",
        "model.dim=65",
        "model.normalize_embedded=true",
        "embedding.tables={a: {dim: 4}}",
        "embedding.tables={a: {dim: 4}, b: {dim: 4}, c: {dim: 4}}",
        "embedding.tables={b: {storage: bf16}}",
    ):
        assert not reads_slots(data, setting), setting
    assert not reads_slots(skewed(60)), "it has lists"


def test_models_on_a_cpu_and_other_models_are_given_vectors():
    for name in ("dlrm", "dcn", "deepfm", "wide_deep"):
        model = build.model_of(Config().with_settings([f"model.name={name}"]), three_columns())
        assert not model.reads_slots
