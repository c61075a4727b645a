"""A run that goes on: stopped anywhere, with more epochs, with files that are not as they were."""

import json
import shutil
import threading

import pytest
from kills import outcome
from small_runs import clicks, config, lines

from slipstream import Dataset, Recipe, synthesize
from slipstream.config import Config
from slipstream.errors import CheckpointError, ConfigError
from slipstream.training.checkpoint import newest
from slipstream.training.loop import Hooks, StoppedError, train
from slipstream.training.run import Run

SETTINGS = (
    "checkpoint.every_inputs=70",
    "early_stopping.every_inputs=48",
    "early_stopping.patience=100",
    "evaluate.at=[0.3, 0.6]",
)


class Counted:
    """Returns True when it is called for the nth time, and from then on."""

    def __init__(self, nth):
        self.nth, self.calls = nth, 0

    def __call__(self):
        self.calls += 1
        return self.calls >= self.nth


def test_stopped_whenever_it_asks_also_within_evaluations_it_ends_the_same(tmp_path):
    dataset, keys = clicks(), config(*SETTINGS)
    never = Counted(10**9)
    train(dataset, keys, tmp_path / "whole", hooks=Hooks(should_stop=never))
    wanted = outcome(tmp_path / "whole")
    assert never.calls >= 30, "evaluations ask too"
    for nth in range(1, never.calls + 1, 2):
        run = tmp_path / "stopped"
        with pytest.raises(StoppedError, match=r"Stopped at example .* is saved"):
            train(dataset, keys, run, hooks=Hooks(should_stop=Counted(nth)))
        assert not (run / "lock").exists()
        train(dataset, keys, run, resume=True)
        assert outcome(run) == wanted, nth
        shutil.rmtree(run)


def test_stopped_again_and_again_it_comes_to_its_end(tmp_path):
    dataset, keys, run = clicks(), config(*SETTINGS), tmp_path / "run"
    train(dataset, keys, tmp_path / "whole")
    stops = 0
    while not (run / "summary.json").exists():
        try:
            train(
                dataset, keys, run, resume=run.exists(), hooks=Hooks(should_stop=Counted(4 + stops))
            )
        except StoppedError:
            stops += 1
    assert stops >= 5
    assert outcome(run) == outcome(tmp_path / "whole")


def test_a_run_that_has_ended_is_left_as_it_is(tmp_path):
    messages = []
    first = train(clicks(), config(), tmp_path)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    again = train(
        clicks(), config(), tmp_path, resume=True, hooks=Hooks(on_message=messages.append)
    )
    assert json.dumps(again) == json.dumps(first)
    assert messages == [f"The run in {tmp_path} has already ended."]
    now = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert now == files


def test_the_result_of_an_ended_run_needs_no_model_of_its_own(tmp_path, monkeypatch):
    from slipstream.models import MODELS

    monkeypatch.setitem(MODELS, "mine", MODELS["dlrm"])
    wanted = train(clicks(), config("model.name=mine"), tmp_path)
    monkeypatch.delitem(MODELS, "mine")
    saved = Run(tmp_path).config
    assert train(clicks(), saved, tmp_path, resume=True)["auc"] == wanted["auc"]
    with pytest.raises(ConfigError, match=r"model.name is 'mine'.* import its module first"):
        train(clicks(), saved.replace(epochs=2), tmp_path, resume=True)


def test_more_epochs_go_on_from_the_end_and_are_those_of_a_longer_run(tmp_path):
    dataset = clicks()  # 240 inputs are 15 whole batches
    longer = train(dataset, config(epochs=2), tmp_path / "whole")
    first = train(dataset, config(epochs=1), tmp_path / "run")
    second = train(dataset, config(epochs=2), tmp_path / "run", resume=True)
    assert second["weights_digest"] == longer["weights_digest"] != first["weights_digest"]
    assert second["auc"] == longer["auc"]
    assert Run(tmp_path / "run").config.epochs == 2
    shares = [round(point["share"], 3) for point in second["curve"]]
    assert shares == [0.267, 0.3, 0.367, 0.4, 0.467, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    scored = [point["position"] for point in lines(tmp_path / "run", "evaluation")]
    assert scored == [128, 144, 176, 192, 224, 240, 288, 336, 384, 432, 480]
    positions = [point["position"] for point in lines(tmp_path / "run", "training")]
    assert positions == sorted(set(positions))


def test_more_epochs_after_a_stop_are_those_of_a_longer_run_from_there(tmp_path):
    dataset = clicks()
    longer = train(dataset, config(epochs=3), tmp_path / "whole")
    with pytest.raises(StoppedError):
        train(dataset, config(), tmp_path / "run", hooks=Hooks(should_stop=Counted(5)))
    messages = []
    again = train(
        dataset,
        config(epochs=3),
        tmp_path / "run",
        resume=True,
        hooks=Hooks(on_message=messages.append),
    )
    assert again["weights_digest"] == longer["weights_digest"]
    assert any("now ends at example 720 instead of 240" in text for text in messages)


def test_fewer_epochs_than_are_done_are_said_and_nothing_changes(tmp_path):
    train(clicks(), config(epochs=2), tmp_path)
    with pytest.raises(ConfigError, match=r"is at example 480, but with epochs 1"):
        train(clicks(), config(epochs=1), tmp_path, resume=True)
    assert Run(tmp_path).config.epochs == 2
    assert Run(tmp_path).summary is not None


def test_a_run_that_was_ended_by_validation_stays_ended(tmp_path):
    settings = ("early_stopping.every_inputs=16", "early_stopping.patience=1", "dense.lr=0")
    settings = (*settings, "embedding.lr=0")
    first = train(clicks(), config(*settings), tmp_path)
    assert first["inputs_trained"] == 32
    messages = []
    again = train(
        clicks(),
        config(*settings, epochs=2),
        tmp_path,
        resume=True,
        hooks=Hooks(on_message=messages.append),
    )
    assert again["inputs_trained"] == 32
    assert "training has ended" in messages[-1]


def test_killed_before_the_first_checkpoint_it_begins_at_the_start_and_says_so(tmp_path):
    wanted = train(clicks(), config(), tmp_path / "whole")
    run = Run(tmp_path / "run")
    run.folder.mkdir()
    run.begin(Run(tmp_path / "whole").config)
    (run.folder / "metrics.jsonl").write_text('{"kind": "training", "position": 16}\n{"ki')
    messages = []
    again = train(
        clicks(), config(), run.folder, resume=True, hooks=Hooks(on_message=messages.append)
    )
    assert messages == ["No checkpoint has been saved yet: training begins at the start."]
    assert again["weights_digest"] == wanted["weights_digest"]
    assert outcome(run.folder) == outcome(tmp_path / "whole")


def stopped_run(folder, *, nth=12):
    with pytest.raises(StoppedError):
        train(clicks(), config(*SETTINGS), folder, hooks=Hooks(should_stop=Counted(nth)))


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_is_used(tmp_path):
    wanted = train(clicks(), config(*SETTINGS), tmp_path / "whole")
    stopped_run(tmp_path / "run", nth=29)
    checkpoint = newest(tmp_path / "run" / "checkpoints")
    (checkpoint.path / "dense.safetensors").write_bytes(b"damaged")
    messages = []
    again = train(
        clicks(),
        config(*SETTINGS),
        tmp_path / "run",
        resume=True,
        hooks=Hooks(on_message=messages.append),
    )
    assert str(checkpoint.path) in messages[0]
    assert "The one before it is used" in messages[0]
    assert again["weights_digest"] == wanted["weights_digest"]
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


def test_if_all_are_damaged_that_is_an_error_and_nothing_is_begun_anew(tmp_path):
    stopped_run(tmp_path)
    for path in tmp_path.glob("checkpoints/*/state.json"):
        path.unlink()
    with pytest.raises(CheckpointError, match=r"No checkpoint in .* can be used"):
        train(clicks(), config(*SETTINGS), tmp_path, resume=True)


def test_another_data_set_is_refused(tmp_path):
    dataset, other = (
        Dataset.open(synthesize(Recipe(rows=300, seed=seed), tmp_path / f"{seed}"))
        for seed in (0, 1)
    )
    with pytest.raises(StoppedError):
        train(dataset, config(), tmp_path / "run", hooks=Hooks(should_stop=Counted(5)))
    with pytest.raises(ConfigError, match="was started with another data set"):
        train(other, config(), tmp_path / "run", resume=True)
    train(dataset, config(), tmp_path / "run", resume=True)


def test_metrics_that_were_lost_are_said(tmp_path):
    stopped_run(tmp_path)
    (tmp_path / "metrics.jsonl").unlink()
    messages = []
    train(
        clicks(), config(*SETTINGS), tmp_path, resume=True, hooks=Hooks(on_message=messages.append)
    )
    assert "metrics.jsonl has lost lines" in messages[-1]
    assert lines(tmp_path)[0]["position"] > 40


def test_a_folder_without_configuration_is_no_run(tmp_path):
    with pytest.raises(ConfigError, match=r"no run in .*config.yaml"):
        train(clicks(), config(), tmp_path, resume=True)


def test_checkpoints_without_configuration_are_not_taken_for_a_new_run(tmp_path):
    wanted = train(clicks(), config(), tmp_path / "whole")
    stopped_run(tmp_path / "run")
    (tmp_path / "run" / "config.yaml").unlink()
    with pytest.raises(ConfigError, match="already holds a run"):
        train(clicks(), config(), tmp_path / "run")
    again = train(clicks(), config(), tmp_path / "run", force=True)
    assert again["weights_digest"] == wanted["weights_digest"]
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


@pytest.mark.parametrize("how", [{}, {"force": True}, {"resume": True}])
def test_two_at_once_do_not_train_in_one_folder(how, tmp_path):
    inside, done = threading.Event(), threading.Event()

    def wait():
        inside.set()
        done.wait(30)
        return False

    first = threading.Thread(
        target=train, args=(clicks(), config(), tmp_path), kwargs={"hooks": Hooks(should_stop=wait)}
    )
    first.start()
    inside.wait(30)
    try:
        with pytest.raises(ConfigError, match=r"(Another process is training|already holds a run)"):
            train(clicks(), config(), tmp_path, **how)
        assert (tmp_path / "config.yaml").exists()
    finally:
        done.set()
        first.join()
    assert Run(tmp_path).summary is not None


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("years of work")
    for force in (False, True):
        with pytest.raises(
            ConfigError, match=r"holds 'thesis.tex', which does not belong to a run"
        ):
            train(clicks(), config(), tmp_path, force=force)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_wrong_configuration_leaves_no_folder_behind(tmp_path):
    for keys, sentence in (
        ({"strategy": "plan"}, "Did you mean plain"),
        ({"device": "cuda:99"}, "CUDA device"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            train(clicks(), config(**keys), tmp_path / "run")
    with pytest.raises(ConfigError, match="Did you mean dlrm"):
        train(clicks(), config("model.name=dlrn"), tmp_path / "run")
    with pytest.raises(ConfigError, match=r"Did you mean model\.top"):
        train(clicks(), config("model.tp=[4]"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_configuration_in_the_folder_repeats_the_run(tmp_path):
    wanted = train(clicks(), config("embedding.optimizer=adam", shuffle=True), tmp_path / "one")
    again = Config.read(tmp_path / "one" / "config.yaml")
    assert again.compile == "off"
    assert train(clicks(), again, tmp_path / "two")["weights_digest"] == wanted["weights_digest"]


def test_what_cannot_change_on_the_way_is_named(tmp_path):
    stopped_run(tmp_path)
    before = (tmp_path / "config.yaml").read_bytes()
    changed = config(*SETTINGS, "dense.lr=0.5", "model.top=[8]", seed=3, batch_size=32)
    with pytest.raises(ConfigError, match=r"another model.top, seed, batch_size, dense.lr, which"):
        train(clicks(), changed, tmp_path, resume=True)
    assert (tmp_path / "config.yaml").read_bytes() == before
