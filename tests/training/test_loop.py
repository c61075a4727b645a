"""What a run does on its way: rates, scores, ends, and what it does with odd data."""

import numpy as np
import pytest
import torch
from small_runs import clicks, config, lines

from slipstream.config.sections import ScheduleSettings
from slipstream.errors import ConfigError
from slipstream.pipeline.engine import Engine
from slipstream.pipeline.schedule import rate
from slipstream.training import evaluation, trainer
from slipstream.training.checkpoint import newest
from slipstream.training.diverged import DivergedError
from slipstream.training.loop import Hooks, train


def test_every_step_has_the_learning_rate_of_its_end(tmp_path, monkeypatch):
    factors = []
    update = Engine.update
    monkeypatch.setattr(
        Engine,
        "update",
        lambda self, plan, factor: factors.append(factor) or update(self, plan, factor),
    )
    settings = ("schedule.warmup_inputs=64", "schedule.decay=linear")
    train(clicks(), config(*settings), tmp_path / "run")
    schedule = ScheduleSettings(warmup_inputs=64, decay="linear")
    ends = [min(16 * n, 240) for n in range(1, 16)]
    assert factors == [rate(schedule, end, 240) for end in ends]
    assert factors[0] == 0.25
    assert factors[-1] == 0


def test_the_learning_curve_has_its_points_and_the_last_score_is_the_result(tmp_path):
    summary = train(clicks(), config(), tmp_path / "run")
    scored = lines(tmp_path / "run", "evaluation")
    assert [line["share"] for line in scored] == [0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    assert [line["position"] for line in scored] == [128, 144, 176, 192, 224, 240]
    assert [line["auc"] for line in summary["curve"]] == [line["auc"] for line in scored]
    for name in ("auc", "logloss", "normalized_entropy", "accuracy", "calibration"):
        assert summary[name] == scored[-1][name]


def test_no_line_comes_twice(tmp_path):
    train(clicks(), config(), tmp_path / "run")
    positions = [line["position"] for line in lines(tmp_path / "run", "training")]
    assert positions == [*range(16, 241, 16)]


def test_start_stop_and_epochs_say_how_many_inputs_are_trained(tmp_path):
    summary = train(clicks(), config(start=30, stop=80, epochs=3), tmp_path / "run")
    assert summary["inputs_trained"] == summary["inputs_total"] == 150
    numbers = lines(tmp_path / "run", "training")[-1]
    assert (numbers["position"], numbers["step"]) == (150, 10)


def scores_of(logloss):
    return {"auc": None, "logloss": logloss, "inputs": 1, "positives": 0}


def test_training_ends_when_validation_has_not_got_better_so_often(tmp_path, monkeypatch):
    losses, parts = iter([0.5, 0.4, 0.45, 0.4, 0.3]), []

    def scored(engine, placement, part, *_):
        parts.append(part.name)
        return scores_of(next(losses) if part.name == "validation" else 0.1)

    monkeypatch.setattr(trainer, "evaluate", scored)
    messages = []
    stop = ("early_stopping.every_inputs=32", "early_stopping.patience=2")
    settings = (*stop, "evaluate.at=[]")
    summary = train(
        clicks(), config(*settings), tmp_path / "run", hooks=Hooks(on_message=messages.append)
    )
    assert summary["inputs_trained"] == 4 * 32
    assert parts == ["validation"] * 4 + ["evaluation"]
    assert [line["share"] for line in summary["curve"]] == [128 / 240]
    assert "did not improve 2 times in a row: training ends at example 128 of 240" in messages[-1]


def test_scores_of_the_evaluation_part_do_not_steer(tmp_path):
    settings = ("early_stopping.every_inputs=32", "early_stopping.patience=100")
    first = train(clicks(), config(*settings), tmp_path / "first")
    other = train(clicks(), config(*settings, "evaluate.at=[]"), tmp_path / "other")
    plain = train(clicks(), config("evaluate.at=[]"), tmp_path / "plain")
    assert first["weights_digest"] == other["weights_digest"] == plain["weights_digest"]


def test_early_stopping_without_a_validation_part_is_said_before_anything_begins(tmp_path):
    with pytest.raises(ConfigError, match="needs a validation part"):
        train(clicks(validation=0.0), config("early_stopping.every_inputs=32"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_a_value_that_is_no_number_stops_the_run_and_is_named(value, tmp_path):
    dataset = clicks()
    (shard,) = dataset.train.shards
    shard.dense[100] = value  # no data set can be made with it
    settings = config("checkpoint.every_inputs=32")
    for resume in (False, True):
        with pytest.raises(
            DivergedError, match=r"step 7 .* positions 96 to 112.* is example 100\. Its dense"
        ):
            train(dataset, settings, tmp_path / "run", resume=resume)
        assert newest(tmp_path / "run" / "checkpoints").step == 6
    assert not (tmp_path / "run" / "summary.json").exists()


def test_a_learning_rate_that_is_too_high_stops_the_run_and_nothing_ruined_is_saved(tmp_path):
    settings = config("dense.lr=1e30", "embedding.lr=1e30", "checkpoint.every_inputs=16")
    with pytest.raises(DivergedError, match="Try a lower learning rate"):
        train(clicks(), settings, tmp_path / "run")
    checkpoint = newest(tmp_path / "run" / "checkpoints")
    assert checkpoint is None or checkpoint.step < 5


@pytest.mark.parametrize("limit", [16, 240])  # found when the model is scored, or by the next step
def test_rows_that_are_no_numbers_are_not_blamed_on_the_data(limit, tmp_path):
    settings = ("embedding={optimizer: sgd, lr: 1e38}", "evaluate.at=[]")
    with pytest.raises(DivergedError, match=r"example \d+.* Try a lower learning rate"):
        train(clicks(), config(*settings, stop=limit), tmp_path / "run")


def test_a_data_set_without_an_evaluation_part_trains_and_scores_nothing(tmp_path):
    summary = train(clicks(evaluation=0.0), config(), tmp_path / "run")
    assert summary["auc"] is None
    assert summary["logloss"] is None
    assert summary["inputs"] == 0


def test_labels_of_one_class_have_no_auc(tmp_path):
    summary = train(clicks(labels=np.zeros(300, dtype=int)), config(), tmp_path / "run")
    assert summary["auc"] is None
    assert summary["normalized_entropy"] is None
    assert summary["logloss"] > 0


def test_no_dense_values_and_a_single_column_are_enough(tmp_path):
    dataset = clicks(dense={}, columns={"user": np.arange(300) % 7})
    assert train(dataset, config(), tmp_path / "run")["inputs_trained"] == 240


def test_a_batch_larger_than_the_data_is_one_step_scored_once(tmp_path, monkeypatch):
    calls, evaluate = [], trainer.evaluate
    monkeypatch.setattr(trainer, "evaluate", lambda *a: calls.append(1) or evaluate(*a))
    summary = train(clicks(), config(batch_size=1000), tmp_path / "run")
    assert lines(tmp_path / "run", "training")[-1]["step"] == 1
    assert len(summary["curve"]) == 6
    assert len(calls) == 1


def test_a_training_part_without_inputs_is_said(tmp_path):
    dataset = clicks(n=4, validation=0.0, evaluation=0.0)
    dataset.parts["train"] = type(dataset.train)("train", dataset.schema, [])
    with pytest.raises(ConfigError, match="nothing to train on"):
        train(dataset, config(), tmp_path / "run")


def test_a_large_part_has_a_bounded_auc_that_states_its_error(tmp_path, monkeypatch):
    exact = train(clicks(2000), config(), tmp_path / "exact")
    monkeypatch.setattr(evaluation, "EXACT_BYTES", 100)
    bounded = train(clicks(2000), config(), tmp_path / "bounded")
    assert exact["auc_error"] == 0
    assert abs(exact["auc"] - bounded["auc"]) <= bounded["auc_error"] < 0.1
    assert exact["weights_digest"] == bounded["weights_digest"]


def test_weights_of_a_data_set_reach_the_loss(tmp_path):
    weights = np.ones(300, dtype=np.float32)
    weights[::2] = 0
    labels = np.arange(300) % 2  # only the positive half counts
    summary = train(clicks(labels=labels, weights=weights), config("dense.lr=1"), tmp_path / "run")
    assert summary["accuracy"] == 1
    other = train(clicks(labels=labels), config("dense.lr=1"), tmp_path / "other")
    assert summary["weights_digest"] != other["weights_digest"]


def test_rows_in_float64_are_trained_with_a_dense_part_in_float64(tmp_path):
    summary = train(clicks(), config("embedding.storage=fp64"), tmp_path / "run")
    checkpoint = newest(tmp_path / "run" / "checkpoints")
    assert checkpoint.contents.tables[0].storage == "fp64"
    assert summary["auc"] is not None


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_are_as_many_as_asked_for(threads, tmp_path):
    before = torch.get_num_threads()
    try:
        train(clicks(), config(threads=threads), tmp_path / "run")
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
