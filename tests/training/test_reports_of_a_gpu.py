"""Reports about steps that are still under way when they are due."""

import pytest
import torch
from small_runs import clicks, config, lines, stop_after

from slipstream.training import build
from slipstream.training.loop import StoppedError, train
from slipstream.training.recorded import RecordedEngine

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def _by_kernels_of_a_gpu(monkeypatch):
    monkeypatch.setattr(build, "kernels_for", lambda _, rooms: "cpu" if rooms is None else "gpu")


def keys(every):
    few = ("placement.fast_memory=70%", "placement.window=16", "checkpoint.every_inputs=200")
    return config(*few, f"log.every_inputs={every}", strategy="fast", device=DEVICE)


def told(run):
    """What is reported of training, but for the time that it took."""
    timed = ("train_seconds", "samples_per_second")
    return [{k: v for k, v in one.items() if k not in timed} for one in lines(run, "training")]


@pytest.mark.parametrize("every", [16, 48, 112])
def test_a_report_says_the_same_whether_its_steps_are_waited_for_or_not(
    every, tmp_path, monkeypatch
):
    train(clicks(480), keys(every), tmp_path / "ours")
    step_all = RecordedEngine.step_all

    def one_by_one(self, plans):
        for plan in plans:
            yield from step_all(self, [plan])
            yield from self.landed()

    monkeypatch.setattr(RecordedEngine, "step_all", one_by_one)
    monkeypatch.setattr(build, "together", lambda *_: 1)
    train(clicks(480), keys(every), tmp_path / "waiting")
    ours = told(tmp_path / "ours")
    assert len(ours) > 2
    assert ours == told(tmp_path / "waiting")


def test_a_run_that_was_stopped_reports_what_one_does_that_was_not(tmp_path):
    train(clicks(480), keys(48), tmp_path / "whole")
    with pytest.raises(StoppedError):
        train(clicks(480), keys(48), tmp_path / "cut", hooks=stop_after(7))
    train(clicks(480), keys(48), tmp_path / "cut", resume=True)
    assert told(tmp_path / "cut") == told(tmp_path / "whole")
