"""Skipping with threads that plan ahead: what is skipped does not depend on who waits for whom."""

import threading
import time

import numpy as np
import pytest
import torch
from small_runs import clicks, config, lines, reported, skewed, skip_rule, stop_after

from slipstream.errors import SlipstreamError
from slipstream.gpu.planning import plan_ahead
from slipstream.gpu.step.graph_engine import GraphEngine
from slipstream.skip.decision import Decisions
from slipstream.skip.rule import Due
from slipstream.skip.skipper import DueSteps, Skipper
from slipstream.training.loop import StoppedError, train
from slipstream.training.state import Hooks

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SHORT = (
    "skip.warmup=0.1",
    "skip.interval=0.1",
    "placement.fast_memory=60%",
    "placement.window=6",
    "skip.lag=14",
)
OPTIONS = {"published": {"tolerance": 0.2}}


@pytest.fixture(autouse=True)
def _few_reports(monkeypatch):
    reported(monkeypatch, 100_000)


CASES = [
    ("fast", "value", "singles", "shuffle=true"),
    ("fast", "movement", "singles", "compile=off"),
    ("fast", "freeze", "lists", "placement.fast_memory=10%"),  # some batches do not fit
    ("slipstream", "published", "singles", "placement.window=1"),
    ("slipstream", "published", "singles", "skip.options.h_t=1000"),  # some are left without inputs
    ("slipstream", "published", "lists", "order.kind=as-is"),
    ("hotline", "case-control", "singles", "epochs=2"),
]


@pytest.fixture(autouse=True)
def _by_kernels_of_a_gpu(monkeypatch):
    monkeypatch.setattr(
        plan_ahead, "kernels_for", lambda _, tier_sizes: "cpu" if tier_sizes is None else "gpu"
    )


def data(kind="singles", n=220):
    """With lists, plans are made otherwise."""
    random = np.random.default_rng(5)
    labels = (random.random(n) < 0.2).astype(int)
    if kind == "lists":
        return skewed(n, labels=labels)
    users, ads = ((rows * random.random(n) ** 4).astype(int) for rows in (60, 30))
    return clicks(n, labels=labels, columns={"user": users, "ad": ads})


def keys(strategy, rule, *settings):
    few = (*SHORT, *skip_rule(rule, **OPTIONS.get(rule, {})), *settings)
    return config(*few, strategy=strategy, batch_size=8, epochs=2, device=DEVICE, compile="off")


def one_by_one(monkeypatch, data, wanted, out):
    """The same run with steps that are planned and awaited one by one."""
    with monkeypatch.context() as patch:
        patch.setattr(plan_ahead, "plans_ahead", lambda *_: 0)
        return train(data, wanted, out)


def said(run):
    """What was decided, and where reports stood meanwhile."""
    made = [one for one in lines(run) if one["kind"] in ("skipping", "training")]
    return [(one["position"], one if one["kind"] != "training" else None) for one in made]


@pytest.mark.parametrize(("strategy", "rule", "kind", "setting"), CASES)
def test_a_run_that_plans_ahead_is_that_of_steps_one_by_one(
    strategy, rule, kind, setting, tmp_path, monkeypatch
):
    wanted = keys(strategy, rule, setting)
    assert plan_ahead.plans_ahead(wanted, [])
    plain = one_by_one(monkeypatch, data(kind), wanted, tmp_path / "plain")
    ours = train(data(kind), wanted, tmp_path / "ours")
    assert plain["inputs_skipped"] or rule == "freeze"
    for key in ("weights_digest", "auc", "inputs_trained", "inputs_skipped"):
        assert ours[key] == plain[key]
    assert said(tmp_path / "ours") == said(tmp_path / "plain") != []
    assert (ours["transfers"]["oversized_steps"] > 0) == ("fast_memory" in setting)
    assert ours["skipping"]["loss_skipped"] == plain["skipping"]["loss_skipped"]


@pytest.mark.parametrize(("strategy", "rule"), [("fast", "movement"), ("slipstream", "published")])
def test_stopped_and_resumed_it_ends_where_an_uninterrupted_one_does(
    strategy, rule, tmp_path, monkeypatch
):
    wanted = keys(strategy, rule, "checkpoint.every_inputs=130")
    whole = train(data(), wanted, tmp_path / "whole")
    for number, stop in enumerate((12, 9)):
        with pytest.raises(StoppedError):
            train(data(), wanted, tmp_path / "r", hooks=stop_after(stop), resume=number > 0)
    again = train(data(), wanted, tmp_path / "r", resume=True)
    assert whole["inputs_skipped"] > 0
    for key in ("weights_digest", "inputs_trained", "inputs_skipped"):
        assert again[key] == whole[key]
    assert again["skipping"]["decisions"] == whole["skipping"]["decisions"]


def test_steps_that_stall_at_random_change_nothing(tmp_path, monkeypatch):
    wanted = keys("fast", "value")
    whole = train(data(), wanted, tmp_path / "whole")
    random = np.random.default_rng(1)

    def stalling(work):
        def stalled(*args, **named):
            time.sleep(random.choice([0, 0, 5e-3]))
            return work(*args, **named)

        return stalled

    for kind, name in ((Skipper, "update"), (DueSteps, "__call__"), (GraphEngine, "_run")):
        monkeypatch.setattr(kind, name, stalling(getattr(kind, name)))
    ours = train(data(), wanted, tmp_path / "ours")
    assert ours["weights_digest"] == whole["weights_digest"]
    assert said(tmp_path / "ours") == said(tmp_path / "whole")


@pytest.mark.parametrize("strategy", ["fast", "slipstream", "bagpipe", "hotline"])
def test_the_shortest_lag_with_which_threads_plan_is_enough(strategy, tmp_path):
    wanted = keys(strategy, "random")
    lag = next(
        lag
        for lag in range(1, 100)
        if plan_ahead.plans_ahead(wanted.with_settings([f"skip.lag={lag}"]), [])
    )
    wanted = wanted.with_settings([f"skip.lag={lag}"])
    ended = []
    training = threading.Thread(
        target=lambda: ended.append(train(data(), wanted, tmp_path / "run")), daemon=True
    )
    training.start()
    training.join(60)
    assert ended, "nobody waits for ever"
    assert ended[0]["inputs_skipped"] > 0


def test_with_a_shorter_lag_steps_are_planned_one_by_one(tmp_path):
    wanted, short = (keys("fast", "random", f"skip.lag={lag}") for lag in ("null", 11))
    assert plan_ahead.skip_lag(wanted, 10_000) > 11
    assert plan_ahead.plans_ahead(wanted, [])
    assert not plan_ahead.plans_ahead(short, [])
    assert train(data(), short, tmp_path / "run")["inputs_skipped"] > 0


def test_a_run_that_is_stopped_leaves_no_thread_that_waits_for_a_decision(tmp_path, monkeypatch):
    wait_for, waiting, ended = Decisions.wait_for, threading.Event(), []

    def noted(self, batch):
        waiting.set()
        wait_for(self, batch)

    def trained():
        hooks = Hooks(should_stop=lambda: waiting.wait(30))  # no step goes on meanwhile
        try:
            train(data(), keys("fast", "value"), tmp_path / "run", hooks=hooks)
        except StoppedError:
            ended.append(True)

    monkeypatch.setattr(Decisions, "wait_for", noted)
    training = threading.Thread(target=trained, daemon=True)
    training.start()
    training.join(60)
    assert ended
    ours = [one.name for one in threading.enumerate() if one.name.startswith("slipstream")]
    assert not [name for name in ours if not name.startswith("slipstream-kernels")]


@pytest.mark.parametrize("rule", ["value", "movement", "published", "random"])
def test_what_is_due_is_known_ahead_from_any_step_on(rule, tmp_path, monkeypatch):
    monkeypatch.setattr(plan_ahead, "kernels_for", lambda *_: "cpu")
    update, due_steps, due = Skipper.update, [], []

    def compared(self, steps):
        if not steps:
            return []
        ((_, _, plan, _, before),) = steps
        if plan.step % 7 == 1:
            due_steps.append(DueSteps(self))
        (ahead,) = {each(plan, before) for each in due_steps}
        after = type(self.rule).due
        seen = []
        with monkeypatch.context() as patch:
            note = lambda *args: seen.append(after(*args)) or seen[-1]  # noqa: E731
            patch.setattr(type(self.rule), "due", note)
            reported = update(self, steps)
        assert ahead == (seen[-1] != Due.NOTHING or self.control.due(before, plan.next_position))
        assert bool(reported) == (seen[-1] == Due.DECISION)
        due.append((ahead, seen[-1]))
        return reported

    monkeypatch.setattr(Skipper, "update", compared)
    wanted = keys("fast", rule).replace(device="cpu")
    train(data(n=800), wanted, tmp_path / "run")
    assert (True, Due.DECISION) in due
    assert (False, Due.NOTHING) in due
    assert ((True, Due.SNAPSHOT) in due) == (rule in ("movement", "published"))


def test_who_waits_for_a_decision_goes_on_when_it_is_taken_and_is_told_when_none_will_be():
    decisions, found = Decisions(lag=2), []

    def ask(batch):
        try:
            decisions.wait_for(batch)
            found.append(decisions.of(batch).number)
        except SlipstreamError as error:
            found.append(str(error))

    first = threading.Thread(target=ask, args=(8,), daemon=True)
    first.start()
    decisions.take(0.5, {}, step=5)
    first.join(0.05)
    assert not found, "the steps before it are not done"
    decisions.move_on(5)
    first.join(10)
    assert found == [1]
    second = threading.Thread(target=ask, args=(9,), daemon=True)
    second.start()
    decisions.close()
    second.join(10)
    assert found[1] == "The run has ended: batch 9 will not be decided."
