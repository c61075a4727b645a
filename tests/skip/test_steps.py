"""The results of steps, many at a time: the same run as one by one."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_runs import clicks, config, lines, reported, skip_rule

from slipstream.pipeline.engine import StepResult
from slipstream.skip import RULES
from slipstream.skip.skipper import Skipper
from slipstream.skip.steps import groups
from slipstream.training.loop import train

SETTINGS = (
    "shuffle=true",
    "skip.warmup=0.1",
    "skip.interval=0.2",
    "skip.lag=40",
)


@pytest.fixture(autouse=True)
def _few_reports(monkeypatch):
    reported(monkeypatch, 100_000)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 2), st.booleans()), max_size=40),
    st.integers(1, 60),
)
def test_a_group_has_one_decision_and_no_input_twice_and_ends_where_something_may_be_due(
    steps, per_epoch
):
    finished, position = [], 0
    for number, (inputs, decision, ends) in enumerate(steps):
        plan = SimpleNamespace(
            step=number, next_position=position + inputs, decision=decision, ends=ends
        )
        finished.append(StepResult(0.0, None, plan, before=position))
        position += inputs
    step_groups = list(groups(finished, lambda plan: plan.ends, per_epoch))
    assert [step for group in step_groups for step in group.steps] == finished
    for group in step_groups:
        assert {step.plan.decision for step in group.steps} == {group.decision}
        assert not any(step.plan.ends for step in group.steps[:-1])
        if len(group.steps) > 1:
            first, last = group.steps[0].before, group.last.plan.next_position - 1
            assert first // per_epoch == last // per_epoch


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule != "freeze"])
def test_results_that_come_late_and_together_make_the_same_run(rule, tmp_path, monkeypatch):
    random = np.random.default_rng(7)
    columns = {"user": (60 * random.random(500) ** 4).astype(int), "ad": random.integers(0, 9, 500)}
    data = clicks(500, labels=(random.random(500) < 0.3).astype(int), columns=columns)
    options = {"warmup_batches": 3, "tolerance": 0.2} if rule == "published" else {}
    wanted = config(
        *SETTINGS, *skip_rule(rule, **options), strategy="plain", batch_size=7, epochs=2
    )
    one_by_one = train(data, wanted, tmp_path / "one-by-one")
    update, due_steps, waiting, many = Skipper.update, [], [], []

    def late(self, steps):
        due_steps.extend([self.due_steps()] if not due_steps else [])
        due = [due_steps[0](step.plan, step.before) for step in steps]
        waiting.extend(steps)
        if steps and not any(due) and len(waiting) < 16:
            return []
        many.append(len(waiting))
        now = list(waiting)
        waiting.clear()
        return update(self, now, due_steps[0].includes)

    monkeypatch.setattr(Skipper, "update", late)
    together = train(data, wanted, tmp_path / "together")
    assert max(many) > 4
    assert together["inputs_skipped"] == one_by_one["inputs_skipped"] > 0
    assert together["weights_digest"] == one_by_one["weights_digest"]
    parts = [
        [step for step in lines(tmp_path / name) if step["kind"] == "skipping"]
        for name in ("one-by-one", "together")
    ]
    assert parts[0] == parts[1] != []
    for key in ("label_rate_skipped", "loss_trained", "loss_skipped"):
        assert together["skipping"][key] == one_by_one["skipping"][key]
