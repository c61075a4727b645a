"""Every metric reaches the caller's hook and the trackers."""

import json
import sys

import pytest
from small_runs import clicks, config, lines, stop_after

from slipstream.errors import ConfigError
from slipstream.training.loop import Hooks, StoppedError, train
from slipstream.training.trackers import TRACKERS, figures_of

REPORTS = ("evaluate.at=[0.5]", "checkpoint.every_inputs=48")


def run(folder, *settings, resume=False, force=False, **hooks):
    keys = config(*REPORTS, *settings)
    return train(clicks(), keys, folder, hooks=Hooks(**hooks), resume=resume, force=force)


def test_a_hook_receives_every_line_of_metrics(tmp_path):
    received = []
    run(tmp_path / "run", on_metrics=received.append)
    assert json.loads(json.dumps(received)) == lines(tmp_path / "run")
    assert {"training", "evaluation"} == {line["kind"] for line in received}
    assert all(
        {"auc", "logloss", "normalized_entropy", "accuracy"} <= line.keys() for line in received
    )


def test_tensorboard_shows_every_number_also_after_a_resumed_run(tmp_path):
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed: not tested here")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    folder = tmp_path / "run"
    with pytest.raises(StoppedError):
        train(clicks(), config(*REPORTS, "log.trackers=[tensorboard]"), folder, hooks=stop_after(9))
    run(folder, "log.trackers=[tensorboard]", resume=True)
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    shown = {(tag, e.step) for tag in events.Tags()["scalars"] for e in events.Scalars(tag)}
    wanted = [(n, line["position"]) for line in lines(folder) for n, _ in figures_of(line)]
    assert shown == set(wanted)


def test_mlflow_receives_configuration_and_metrics_in_one_run_also_after_a_resumed_run(
    tmp_path, monkeypatch
):
    pytest.importorskip("mlflow", reason="MLflow is not installed: not tested here")
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    folder = tmp_path / "run"
    with pytest.raises(StoppedError):
        train(clicks(), config(*REPORTS, "log.trackers=[mlflow]"), folder, hooks=stop_after(9))
    run(folder, "log.trackers=[mlflow]", resume=True)
    client = MlflowClient()
    (logged,) = client.search_runs([client.get_experiment_by_name("slipstream").experiment_id])
    assert (logged.info.run_name, logged.info.status) == ("run", "FINISHED")
    assert logged.data.params["batch_size"] == "16"
    history = client.get_metric_history(logged.info.run_id, "evaluation/auc")
    wanted = [(line["position"], line["auc"]) for line in lines(folder, "evaluation")]
    assert [(each.step, each.value) for each in history] == wanted


def test_wandb_receives_metrics_offline(tmp_path, monkeypatch):
    wandb = pytest.importorskip("wandb", reason="W&B is not installed: not tested here")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.chdir(tmp_path)
    run(tmp_path / "run", "log.trackers=[wandb]")
    assert wandb.run is None, "the run has ended"
    assert list((tmp_path / "wandb").glob("offline-run-*"))


@pytest.mark.parametrize("name", ["tensorboard", "mlflow", "wandb"])
def test_a_missing_package_is_one_clear_sentence(name, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "torch.utils.tensorboard", raising=False)
    with pytest.raises(ConfigError, match=f"tracker {name} cannot be used: .*pip install {name}"):
        run(tmp_path / "run", f"log.trackers=[{name}]")
    assert not (tmp_path / "run").exists()


def test_an_unknown_tracker_is_an_error_before_the_folder_is_changed(tmp_path):
    wanted = r"log.trackers is 'mlfow'; .* Did you mean mlflow\? If it is your own, import its"
    with pytest.raises(ConfigError, match=wanted):
        run(tmp_path / "run", "log.trackers=[mlfow]")
    assert not (tmp_path / "run").exists()


def test_force_also_replaces_the_files_of_a_tracker(tmp_path, monkeypatch):
    class Notes:
        files = ("notes.txt",)

        def __init__(self, folder, config, position):
            self.file = (folder / "notes.txt").open("a")

        def log(self, line):
            self.file.write(f"{line['kind']}\n")

        def close(self):
            self.file.close()

    folder = tmp_path / "run"
    monkeypatch.setitem(TRACKERS, "notes", Notes)
    run(folder, "log.trackers=[notes]")
    run(folder, "log.trackers=[notes]", force=True)
    assert len((folder / "notes.txt").read_text().splitlines()) == len(lines(folder))
    monkeypatch.delitem(TRACKERS, "notes")
    with pytest.raises(ConfigError, match=r"'notes.txt', .* import the module of the tracker"):
        run(folder, force=True)


def test_a_run_goes_on_without_a_tracker_that_fails(tmp_path, monkeypatch):
    class Broken:
        def __init__(self, folder, config, position):
            self.lines = 0

        def log(self, line):
            self.lines += 1
            if self.lines == 2:
                raise OSError("no connection")

    sentences = []
    monkeypatch.setitem(TRACKERS, "broken", Broken)
    run(tmp_path / "run", "log.trackers=[broken]", on_message=sentences.append)
    wanted = "The tracker broken has failed and is not used any more: no connection"
    assert sentences == [wanted]
