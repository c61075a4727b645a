"""Reports about steps that are still under way when they are due."""

import time
from contextlib import ExitStack
from types import SimpleNamespace

import pytest
import torch
from small_runs import clicks, config, lines, reported, stop_after

from slipstream.gpu.planning import plan_ahead
from slipstream.gpu.step.graph_engine import GraphEngine
from slipstream.training.loop import DivergedError, StoppedError, Trainer, train
from slipstream.training.recent import Recent
from slipstream.training.reports import Reports
from slipstream.training.run import Run
from slipstream.training.state import Hooks, RunState

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def _by_kernels_of_a_gpu(monkeypatch):
    monkeypatch.setattr(
        plan_ahead, "kernels_for", lambda _, tier_sizes: "cpu" if tier_sizes is None else "gpu"
    )


def keys(monkeypatch, every):
    reported(monkeypatch, every)
    few = ("placement.fast_memory=70%", "placement.window=16", "checkpoint.every_inputs=200")
    return config(*few, strategy="fast", device=DEVICE)


def told(run):
    """What is reported of training, but for the time that it took."""
    timed = ("train_seconds", "samples_per_second")
    return [{k: v for k, v in one.items() if k not in timed} for one in lines(run, "training")]


@pytest.mark.parametrize("every", [16, 48, 112])
def test_a_report_says_the_same_whether_its_steps_are_waited_for_or_not(
    every, tmp_path, monkeypatch
):
    train(clicks(336), keys(monkeypatch, every), tmp_path / "ours")
    step_all = GraphEngine.step_all

    def one_by_one(self, plans):
        for plan in plans:
            yield from step_all(self, [plan])
            yield from self.remaining_results()

    monkeypatch.setattr(GraphEngine, "step_all", one_by_one)
    monkeypatch.setattr(plan_ahead, "together", lambda *_: 1)
    train(clicks(336), keys(monkeypatch, every), tmp_path / "waiting")
    ours = told(tmp_path / "ours")
    assert len(ours) > 2
    assert ours == told(tmp_path / "waiting")


def test_a_run_that_was_stopped_reports_what_one_does_that_was_not(tmp_path, monkeypatch):
    train(clicks(480), keys(monkeypatch, 48), tmp_path / "whole")
    with pytest.raises(StoppedError):
        train(clicks(480), keys(monkeypatch, 48), tmp_path / "cut", hooks=stop_after(7))
    train(clicks(480), keys(monkeypatch, 48), tmp_path / "cut", resume=True)
    assert told(tmp_path / "cut") == told(tmp_path / "whole")


def slow_figures(monkeypatch, seconds):
    """Have figures take longer than steps."""
    result = Recent.result

    def slow(self):
        time.sleep(seconds)
        return result(self)

    monkeypatch.setattr(Recent, "result", slow)


def test_reports_before_an_error_are_written(tmp_path, monkeypatch):
    collect = Trainer.collect

    def diverges(self, results):
        def watched():
            for result in results:
                at_step = result.plan.step == 11
                yield result._replace(loss=float("nan")) if at_step else result

        collect(self, watched())

    slow_figures(monkeypatch, 0.5)
    monkeypatch.setattr(Trainer, "collect", diverges)
    with pytest.raises(DivergedError):
        train(clicks(480), keys(monkeypatch, 32), tmp_path / "run")
    assert [one["step"] for one in told(tmp_path / "run")][:4] == [2, 4, 6, 8]


def test_figures_that_are_late_do_not_pile_up(tmp_path, monkeypatch):
    slow_figures(monkeypatch, 0.02)
    (tmp_path / "run").mkdir()
    plan, shown = SimpleNamespace(n_valid=2, labels=torch.ones(2), weight=torch.ones(2)), []
    with ExitStack() as stack:
        hooks = Hooks(on_progress=lambda one: shown.append(one.done))
        reports = Reports(Run(tmp_path / "run"), hooks, in_thread=True, stack=stack)
        reports.open(0, config("log.trackers=[]"), position=0)
        for step in range(1, 31):
            plan.step = step
            reports.add(plan, torch.zeros(2), due=True)
            reports.add_progress(RunState(60, step=step, position=2 * step))
            reports.write_due(wait=False)
            assert step - len(shown) <= 8
        reports.write_due()
    assert shown == list(range(2, 61, 2))
