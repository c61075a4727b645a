"""A run scores any data set that has its ids, whether it has ended or not."""

import shutil

import pytest
from raw_logs import criteo_rows, write
from trained import SIZES, config_of, criteo_data, small_run

from slipstream import Dataset, Recipe, synthesize
from slipstream.data.formats import log_spec
from slipstream.data.prepare import Options, prepare
from slipstream.errors import CheckpointError, ConfigError, DataError
from slipstream.training.evaluate_run import evaluate_run
from slipstream.training.load_run import open_run
from slipstream.training.loop import Hooks, StoppedError, train
from slipstream.training.run import Run

METRICS = ("auc", "logloss", "normalized_entropy", "accuracy", "calibration", "inputs")


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Dataset:
    return criteo_data(tmp_path_factory.mktemp("criteo"))


@pytest.fixture(scope="module")
def taobao(tmp_path_factory) -> Dataset:
    recipe = Recipe("taobao", rows=900)
    return Dataset.open(synthesize(recipe, tmp_path_factory.mktemp("taobao") / "data"))


@pytest.mark.parametrize("model", SIZES)
def test_the_figures_are_those_of_the_summary(model, taobao, tmp_path):
    summary = small_run(tmp_path / "run", taobao, "embedding.optimizer=adam", model=model)
    again = evaluate_run(tmp_path / "run", taobao)
    assert {name: again[name] for name in METRICS} == {name: summary[name] for name in METRICS}
    assert again["ended"]
    assert again["position"] == summary["inputs_trained"]


def test_every_storage_and_normalization_comes_back_to_the_bit(data, tmp_path):
    for storage in ("bf16", "split-bf16", "fp32"):
        settings = (f"embedding.storage={storage}", "model.normalize_dense=true", "precision=bf16")
        tables = "embedding.tables.C1={optimizer: adagrad, dim: 2}"
        summary = small_run(tmp_path / storage, data, *settings, tables)
        again = evaluate_run(tmp_path / storage, data)
        assert again["logloss"] == summary["logloss"], storage


def test_other_parts_and_batch_sizes(data, tmp_path):
    summary = small_run(tmp_path / "run", data)
    assert evaluate_run(tmp_path / "run", data, "validation")["inputs"] == len(data.validation)
    again = evaluate_run(tmp_path / "run", data, batch_size=7)
    assert again["logloss"] == pytest.approx(summary["logloss"], abs=1e-6)


def test_a_data_set_made_with_the_runs_dictionary_is_scored(data, tmp_path):
    small_run(tmp_path / "run", data)
    log = write(tmp_path / "later.tsv", criteo_rows(300, seed=5))
    spec = log_spec("criteo", {})
    same = Options(dictionary=data.folder, validation=0.0, evaluation=0.5)
    later = Dataset.open(prepare(spec, [log], tmp_path / "later", same))
    assert evaluate_run(tmp_path / "run", later)["inputs"] == 150
    own = Dataset.open(prepare(spec, [log], tmp_path / "own", Options()))
    with pytest.raises(DataError, match=r"other ids .* tables 'C1', 'C2', 'C3' and others differ"):
        evaluate_run(tmp_path / "run", own)
    more = Options(dictionary=data.folder, extend=True, min_count=1)
    extended = Dataset.open(prepare(spec, [log], tmp_path / "extended", more))
    with pytest.raises(DataError, match="without --extend"):
        evaluate_run(tmp_path / "run", extended)


def test_hashed_tables_of_the_same_size_still_have_ids_of_their_own(tmp_path):
    first = criteo_data(tmp_path / "one", hash=50)
    second = criteo_data(tmp_path / "two", seed=1, hash=50)
    small_run(tmp_path / "run", first)
    assert evaluate_run(tmp_path / "run", first)["inputs"] == len(first.evaluation)
    with pytest.raises(DataError, match="other ids"):
        evaluate_run(tmp_path / "run", second)


def test_another_format_is_named_by_its_column(data, taobao, tmp_path):
    small_run(tmp_path / "run", data)
    with pytest.raises(DataError, match=r"other columns than the run .* 'user' \(single"):
        evaluate_run(tmp_path / "run", taobao)


def test_a_run_that_was_stopped_says_where_it_stands(data, tmp_path):
    calls = iter(range(100))
    hooks = Hooks(should_stop=lambda: next(calls) == 3)
    with pytest.raises(StoppedError):
        train(data, config_of(data), tmp_path / "run", hooks=hooks)
    result = evaluate_run(tmp_path / "run", data)
    assert result["position"] == 384, "it was asked before the fourth batch of 128"
    assert not result["ended"]
    assert "is at example 384" in result["status"]


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(data, tmp_path):
    small_run(tmp_path / "run", data, "checkpoint.every_inputs=512")
    newest = max((tmp_path / "run" / "checkpoints").iterdir())
    (newest / "dense.safetensors").write_bytes(b"")
    result = evaluate_run(tmp_path / "run", data)
    assert result["position"] < len(data.train)
    assert str(newest) in result["warnings"][0]


def test_without_a_checkpoint_the_error_says_when_there_will_be_one(data, tmp_path):
    (tmp_path / "run").mkdir()
    Run(tmp_path / "run").begin(config_of(data))
    with pytest.raises(CheckpointError, match="has saved no checkpoint yet"):
        open_run(tmp_path / "run")
    with pytest.raises(ConfigError, match="There is no run in"):
        open_run(tmp_path / "nothing")


def test_a_part_that_is_not_there_is_named(data, tmp_path):
    with pytest.raises(ConfigError, match="no part 'test'"):
        evaluate_run(tmp_path, data, "test")


def test_the_run_is_enough_to_build_the_model(tmp_path):
    data = criteo_data(tmp_path / "criteo")
    small_run(tmp_path / "run", data)
    shutil.rmtree(tmp_path / "criteo")
    assert open_run(tmp_path / "run").schema == data.schema
