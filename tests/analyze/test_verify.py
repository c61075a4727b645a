"""`verify` shows that every strategy keeps its promise, and finds where one does not."""

from itertools import islice

import pytest
import torch
from small_runs import clicks, config, often_chosen, short_segments, skewed
from typer.testing import CliRunner

from slipstream import Dataset
from slipstream.analyze import verify as verifying
from slipstream.analyze.verify import VerifyResult, in_float64, verify
from slipstream.cli.app import app
from slipstream.data.loader import Loader
from slipstream.errors import ConfigError
from slipstream.gpu import memory
from slipstream.pipeline import strategies
from slipstream.pipeline.strategies import STRATEGIES
from slipstream.tables.mover import Mover
from slipstream.tables.plan import Planner
from slipstream.training import build
from slipstream.training.placement import placement_for, tier_sizes_of, working_set

SMALL = ("placement.fast_memory=80%", "placement.window=3")


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_keeps_its_promise(name):
    reported = []
    results = verify(clicks(), config(*SMALL, strategy=name), 12, reported.append)
    resident, reference = results
    assert [result.steps for result in results] == [12, 12]
    assert sum(reported) == 24
    assert resident.correct
    assert reference.correct
    assert reference.allowed == 1e-9
    rows = sum(table.rows for table in clicks().schema.tables)
    assert resident.rows == rows
    assert resident.values > 3 * rows, "two elements and the optimizer's state, and the dense part"


@pytest.mark.parametrize("name", ["fae", "hotline", "bagpipe", "fast"])
@pytest.mark.parametrize(
    "settings",
    [
        ("embedding.optimizer=adam", "dense.optimizer=adam"),
        ("embedding.optimizer=adagrad", "embedding.storage=bf16"),
        ("embedding.optimizer=sgd", "embedding.storage=split-bf16", "schedule.warmup_inputs=99"),
        ("model.name=deepfm", "model.bottom=null", "epochs=3", "shuffle=true"),
        (
            "embedding.tables={ad: {storage: bf16, optimizer: sgd}}",
            "precision=bf16",
            "placement.fast_memory=100%",
        ),
    ],
)
def test_also_with_other_optimizers_storages_models_and_epochs(name, settings):
    wanted = config(strategy=name)
    if settings[0] == "model.name=deepfm":
        wanted = wanted.with_settings(["model={name: deepfm, dim: 2}"])
        settings = settings[2:]
    results = verify(clicks(), wanted.with_settings([*SMALL, *settings]), 40)
    assert all(result.correct for result in results), results


@pytest.mark.parametrize("name", ["fae", "hotline", "bagpipe", "fast"])
def test_also_with_histories(name, histories):
    wanted = config(strategy=name, batch_size=64).with_settings(["model={name: tbsm, dim: 4}"])
    results = verify(
        Dataset.open(histories), wanted.with_settings(["placement.fast_memory=60%"]), 10
    )
    assert all(result.correct for result in results), results


def test_hot_and_cold_apart_is_the_same_bits_on_the_same_batches_over_many_decisions(monkeypatch):
    short_segments(monkeypatch, 5)
    keys = config("placement.fast_memory=60%", strategy="fae", epochs=2)
    for settings in ((), ("placement.kind=lookahead",), ("placement.kind=slow",)):
        resident, reference = verify(skewed(), keys.with_settings(settings), 60)
        assert resident.allowed == 0
        assert resident.correct
        assert reference.correct
        assert resident.steps == 60


def test_what_is_promised_follows_the_ordering(monkeypatch):
    often_chosen(monkeypatch, 3)
    keys = config("placement.fast_memory=60%")
    for name, kind, allowed in (
        ("hotline", "null", 1e-4),
        ("hotline", "as-is", 0),
        ("fast", "split", 1e-4),
    ):
        chosen = keys.with_settings([f"strategy={name}", f"order.kind={kind}"])
        resident, reference = verify(skewed(), chosen, 20)
        assert resident.allowed == allowed
        assert resident.correct
        assert reference.correct


def test_a_row_that_is_not_written_back_is_found_and_named(monkeypatch):
    write = Mover._write
    monkeypatch.setattr(
        Mover, "_write", lambda self, left: write(self, [(r[1:], rec[1:]) for r, rec in left])
    )
    results = verify(clicks(), config(*SMALL, strategy="bagpipe"), 12)
    assert not any(result.correct for result in results)
    assert results[1].largest > 1e-9
    assert "user" in results[0].where or "ad" in results[0].where or "dense" in results[0].where


def test_up_to_rounding_is_compared_step_by_step(monkeypatch):
    loose = STRATEGIES["fast"]._replace(promise="rounding")
    monkeypatch.setitem(strategies.STRATEGIES, "loose", loose)
    resident, reference = verify(clicks(), config(*SMALL, strategy="loose"), 6)
    assert resident.name.endswith("step by step")
    assert resident.allowed > 0
    assert resident.correct
    assert reference.correct


def test_a_difference_is_reported_by_its_size_and_bits_by_themselves():
    def compared(allowed, values, expected):
        result = VerifyResult("", allowed)
        result.add("x", torch.tensor(values), torch.tensor(expected))
        return result

    assert compared(0.0, [1.0, 2.0], [1.0, 2.0]).correct
    assert not compared(0.0, [0.0], [-0.0]).correct, "these are other bits"
    assert compared(1e-9, [0.0], [-0.0]).correct
    assert compared(0.5, [10.0], [8.0]).largest == 0.25
    assert not compared(1e9, [float("nan")], [1.0]).correct


@pytest.mark.parametrize("value", [1.0, 0.75, 1.9921875, 100.0, 1e-3])
def test_of_values_in_bfloat16_one_unit_in_the_last_place_is_no_difference(value):
    stored = torch.tensor([value]).bfloat16()
    next_value, after_next = (
        (stored.view(torch.int16) + k).view(torch.bfloat16).float() for k in (1, 2)
    )
    for other, differs in ((next_value, False), (after_next, True)):
        result = VerifyResult("", 1e-4)
        result.add("x", other, stored.float(), bf16=True)
        assert not result.same_bits
        assert (result.largest > 0) == differs
    to_the_bit = VerifyResult("", 0.0)
    to_the_bit.add("x", next_value, stored.float(), bf16=True)
    assert not to_the_bit.correct


def test_more_steps_than_there_are_inputs_are_as_many_as_there_are():
    results = verify(clicks(), config(*SMALL, strategy="fast"), 999)
    assert [result.steps for result in results] == [15, 15]


def test_float64_is_for_all_tables():
    wanted = config("embedding.tables={ad: {storage: bf16}}", "precision=bf16")
    wide = in_float64(wanted)
    assert wide.embedding.storage == wide.embedding.tables["ad"].storage == "fp64"
    assert wide.precision == "fp32"


def test_a_tier_in_which_no_batch_fits_is_an_error():
    with pytest.raises(ConfigError, match=r"too small: no batch fits"):
        verify(clicks(), config("placement.fast_memory=1%", strategy="bagpipe"), 3)


@pytest.mark.parametrize("name", ["fae", "hotline", "bagpipe", "fast"])
def test_every_strategy_holds_where_the_tier_is_too_small_for_most_batches(name, monkeypatch):
    often_chosen(monkeypatch, 3)
    dataset, keys = skewed(), config(strategy=name)
    layout = build.model_of(keys, dataset).layout
    tight = keys.with_settings(["placement.fast_memory=1B"])
    least = working_set(tight, layout, dataset).smallest_bytes
    keys = keys.with_settings([f"placement.fast_memory={least + 16}B"])
    tier_sizes = tier_sizes_of(keys, layout, dataset)
    order = build.run_order(keys, layout, dataset, tier_sizes)
    tiered = placement_for(keys, layout, dataset, tier_sizes)
    with Loader(dataset.train, 16, order=order) as loader:
        plans = list(Planner(tiered).plans(islice(loader, 10)))
    assert sum(plan.oversized_batch for plan in plans) >= 5
    for result in verify(dataset, keys, 30):
        assert result.correct, result


WORDS = ["--batch-size", "64", "--steps", "6", "--set", "model.bottom=[4]", "--set"]
WORDS += ["model.top=[4]", "--set", "model.dim=2", "--set", "placement.fast_memory=50%"]


def test_the_command_prints_what_was_compared_and_its_status_is_the_answer(request, monkeypatch):
    data = str(request.getfixturevalue("clicks"))
    words = ["verify", data, "--strategy", "fast", *WORDS]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    first, second = done.output.strip().splitlines()
    assert first.startswith("fast in float32 with all rows resident: 6 steps, ")
    assert first.endswith("the same bits: correct")
    assert second.endswith("allowed 1e-09: correct")
    monkeypatch.setattr(Mover, "_write", lambda self, left: None)
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 1, done.output
    assert done.output.count("WRONG") == 2
    wrong = CliRunner().invoke(app, ["verify", data, "--strategy", "bagpip"])
    assert wrong.exit_code == 2
    assert "Did you mean bagpipe" in wrong.output


def test_a_device_whose_memory_is_used_up_is_named_with_the_memory_needed(monkeypatch):
    def full(*_, **__):
        raise torch.OutOfMemoryError

    monkeypatch.setattr(memory, "available_memory", lambda _: 1 << 30)
    monkeypatch.setattr(verifying._Pair, "run", full)
    with pytest.raises(ConfigError, match=r"1,024 MiB.* 1 MiB for all rows of the training"):
        verify(clicks(), config(*SMALL, strategy="fast"), 3)
