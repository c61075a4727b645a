"""The engine for a GPU trains what the others do; where there is no GPU, in the interpreter."""

import itertools
import threading
from dataclasses import replace

import pytest
import torch
from small_runs import clicks, config, lines, often_chosen, skewed, stop_after

from slipstream import Lists
from slipstream.analyze.verify import verify
from slipstream.config.sections import DenseSettings
from slipstream.data.loader import Loader
from slipstream.gpu.planning import plan_ahead
from slipstream.gpu.planning.device_placement import DevicePlacement
from slipstream.gpu.step.flat_optimizer import FlatOptimizer
from slipstream.gpu.step.graph_engine import GraphEngine
from slipstream.pipeline.dense import DensePart
from slipstream.tables.plan import Planner
from slipstream.training import build, placement
from slipstream.training.checkpoint import Checkpoints
from slipstream.training.loop import StoppedError, train
from slipstream.training.placement import placement_for, tier_sizes_of

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SMALL = ("placement.fast_memory=60%", "placement.window=3")
LARGE = ("placement.fast_memory=70%", "placement.window=3")


@pytest.fixture(autouse=True)
def _by_kernels_of_a_gpu(monkeypatch):
    monkeypatch.setattr(
        plan_ahead, "kernels_for", lambda _, tier_sizes: "cpu" if tier_sizes is None else "gpu"
    )


def keys(*settings, strategy="fast", **options):
    return config(*SMALL, *settings, strategy=strategy, device=DEVICE, **options)


@pytest.mark.parametrize(
    ("strategy", "settings"),
    [
        ("fast", ("embedding.optimizer=adam", "dense.optimizer=adam", "dense.clip=0.1")),
        ("bagpipe", ("embedding.optimizer=adagrad", "schedule.warmup_inputs=99")),
        ("fae", ("dense.optimizer=sgd", "dense.weight_decay=0.01")),
        ("hotline", ("embedding.optimizer=sgd", "embedding.storage=split-bf16")),
    ],
)
def test_every_strategy_keeps_its_promise(strategy, settings):
    resident, reference = verify(skewed(140), keys(*settings, strategy=strategy), 5)
    assert resident.allowed == 0 or strategy == "hotline"
    assert resident.correct, resident
    assert reference.correct, reference


def test_steps_whose_rows_do_not_fit_have_the_same_bits(tmp_path, monkeypatch):
    data = clicks(160)
    for finishes in (True, False):
        if not finishes:
            monkeypatch.setattr(placement, "device_finds_rows", lambda *_: False)
            often_chosen(monkeypatch, 4)
        tiny = config("placement.fast_memory=250B", strategy="fast", device=DEVICE)
        ours = train(data, tiny, tmp_path / "tiny", force=True)
        assert ours["transfers"]["oversized_steps"] > 0
        whole = train(
            data, tiny.with_settings(["placement.fast_memory=100%"]), tmp_path / "whole", force=True
        )
        assert whole["transfers"]["oversized_steps"] == 0
        assert ours["weights_digest"] == whole["weights_digest"]


def test_a_failure_in_the_background_is_an_error_and_no_thread_is_left(tmp_path, monkeypatch):
    told = itertools.count()

    def fails(self, group, rows):
        if next(told) == 3:
            raise OSError("the disk is full")

    monkeypatch.setattr(Checkpoints, "before_update", fails)
    with pytest.raises(OSError, match="the disk is full"):
        train(clicks(160), config(*LARGE, strategy="bagpipe", device=DEVICE), tmp_path)
    ours = [one.name for one in threading.enumerate() if one.name.startswith("slipstream")]
    # Those that kernels of the CPU share their work with serve the whole process.
    assert not [name for name in ours if not name.startswith("slipstream-kernels")]


@pytest.mark.parametrize("strategy", ["fast", "bagpipe", "fae"])
def test_plans_that_the_device_finishes_train_the_same(strategy, tmp_path, monkeypatch):
    data, wanted = clicks(160), config(*LARGE, strategy=strategy, device=DEVICE)
    model = build.model_of(wanted, data)
    tier_sizes = tier_sizes_of(wanted, model.layout, data)
    assert isinstance(placement_for(wanted, model.layout, data, tier_sizes), DevicePlacement)
    made = verify(data, wanted, 5)
    assert all(one.correct for one in made), made
    ours = train(data, wanted, tmp_path / "finished")
    monkeypatch.setattr(placement, "device_finds_rows", lambda *_: False)
    theirs = train(data, wanted, tmp_path / "whole")
    assert ours["weights_digest"] == theirs["weights_digest"]
    assert ours["auc"] == theirs["auc"], "scored on the device, and by the kernels of the CPU"
    assert ours["transfers"]["lookups"] == theirs["transfers"]["lookups"]
    assert ours["transfers"]["hits"] + ours["transfers"]["misses"] == ours["transfers"]["lookups"]


def test_also_with_histories():
    random = torch.Generator().manual_seed(0)
    ids = torch.randint(0, 60, (1000,), generator=random).numpy()
    lists = [ids[4 * n : 4 * n + n % 4].tolist() for n in range(200)]
    columns = {"item": ids[:200], "seen": Lists.of(lists, "sequence")}
    data = clicks(200, columns=columns, tables={"seen": "item"})
    wanted = keys().with_settings(["model={name: tbsm, dim: 2, top: [4], final: [4]}"])
    made = verify(data, wanted.with_settings(["placement.fast_memory=80%"]), 4)
    assert all(one.correct for one in made), made


def test_a_run_that_was_stopped_goes_on_to_the_same_bits(tmp_path):
    data, wanted = skewed(180), keys("evaluate.at=[0.5]", "checkpoint.every_inputs=60")
    whole = train(data, wanted, tmp_path / "whole")
    with pytest.raises(StoppedError):
        train(data, wanted, tmp_path / "cut", hooks=stop_after(5))
    resumed = train(data, wanted, tmp_path / "cut", resume=True)
    assert resumed["weights_digest"] == whole["weights_digest"]
    assert resumed["auc"] == whole["auc"]
    assert resumed["transfers"]["rows_in"] > 0
    told = [
        [(line["position"], line["logloss"]) for line in lines(tmp_path / name, "training")]
        for name in ("whole", "cut")
    ]
    assert told[0] == told[1], "what steps said late is in its place"


def test_a_run_ends_close_to_one_with_the_kernels_of_the_cpu(tmp_path, monkeypatch):
    data, wanted = skewed(160), keys()
    ours = train(data, wanted, tmp_path / "gpu")
    monkeypatch.undo()
    theirs = train(data, config(*SMALL, strategy="fast"), tmp_path / "cpu")
    assert ours["logloss"] == pytest.approx(theirs["logloss"], abs=1e-4)
    assert ours["transfers"] == theirs["transfers"]


def test_dense_weights_count_only_the_steps_that_moved_them(monkeypatch):
    data = skewed(160)
    settings = ("dense.optimizer=adam", "placement.fast_memory=100%")
    weights = []
    for device in (True, False):
        if not device:
            monkeypatch.undo()
        wanted = keys(*settings) if device else config(*SMALL, *settings, strategy="fast")
        model = build.model_of(wanted, data)
        tier_sizes = tier_sizes_of(wanted, model.layout, data)
        engine = build.engine_of(wanted, model, 0, tier_sizes=tier_sizes)
        tiered = placement_for(wanted, model.layout, data, tier_sizes)
        with Loader(data.train, wanted.batch_size) as loader:
            plans = list(itertools.islice(Planner(tiered).plans(loader), 4))
        engine.tables.keep(tiered.resident_rows())
        for plan in plans:
            empty = plan.step == 2
            plan = replace(plan, n_valid=0) if empty else plan
            engine.prepare(plan)
            engine.skip_step(plan) if empty else list(engine.step(plan))
        list(engine.remaining_results())
        weights.append({name: one.cpu() for name, one in engine.dense.state_dict().items()})
        engine.tables.close()
    ours, theirs = weights
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name].to(value), value, rtol=1e-3, atol=1e-5)
    steps = {float(value) for name, value in ours.items() if name.endswith(".step")}
    assert steps == {3.0}


def test_what_is_added_to_logits_counts_in_the_steps_of_which_it_is_said_and_in_no_other(
    monkeypatch,
):
    data = skewed(160)
    losses = []
    for device in (True, False):
        if not device:
            monkeypatch.undo()
        more = ("placement.fast_memory=100%",)
        wanted = keys(*more) if device else config(*SMALL, *more, strategy="fast")
        model = build.model_of(wanted, data)
        tier_sizes = tier_sizes_of(wanted, model.layout, data)
        engine = build.engine_of(wanted, model, 0, tier_sizes=tier_sizes)
        tiered = placement_for(wanted, model.layout, data, tier_sizes)
        with Loader(data.train, wanted.batch_size) as loader:
            plans = list(itertools.islice(Planner(tiered).plans(loader), 4))
        engine.tables.keep(tiered.resident_rows())
        said = []
        for plan in plans:
            if plan.step in (2, 3):
                offset = torch.full_like(plan.labels, 10.0 * plan.step)
                plan = replace(plan, logit_offset=offset)
            engine.prepare(plan)
            said += list(engine.step(plan))
        said += list(engine.remaining_results())
        losses.append([one.loss for one in said])
        engine.tables.close()
    ours, theirs = losses
    assert ours == pytest.approx(theirs, rel=1e-3)
    assert theirs[2] > theirs[1] > 3 * theirs[0]
    assert theirs[3] < theirs[1]


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "adam"])
@pytest.mark.parametrize("clip", [None, 0.05])
def test_weights_in_one_row_move_as_pytorch_moves_them(optimizer, clip):
    how = DenseSettings(optimizer=optimizer, lr=0.1, weight_decay=0.01, clip=clip)
    made = []
    for recorded in (True, False):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Linear(5, 1)).double()
        optimizer = FlatOptimizer if recorded else None
        device = DEVICE if recorded else "cpu"
        part = DensePart(model, how, device=device, optimizer=optimizer)
        for step in range(4):
            values = torch.full((2, 3), 1.0 + step, dtype=torch.float64, device=part.device)
            part.model(values).square().sum().backward()
            part.step(0.5 + step)
        made.append(part)
    ours, theirs = (one.state_dict() for one in made)
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name].to(value), value, rtol=1e-12, atol=1e-12)
    other = DensePart(model, how, device=DEVICE, optimizer=FlatOptimizer)
    other.load_state_dict(theirs)
    for name, value in other.state_dict().items():
        torch.testing.assert_close(value.to(theirs[name]), theirs[name], rtol=0, atol=0)


def test_the_engine_is_the_one_for_a_gpu():
    data, wanted = clicks(), keys()
    model = build.model_of(wanted, data)
    engine = build.engine_of(wanted, model, 0, tier_sizes=tier_sizes_of(wanted, model.layout, data))
    assert isinstance(engine, GraphEngine)
    engine.tables.close()
