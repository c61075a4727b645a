"""The results of steps, many at a time: the same run as one by one."""

import numpy as np
import pytest
from small_runs import clicks, config, lines, reported, skip_rule

from slipstream.skip import RULES
from slipstream.skip.skipper import DueSteps, Skipper
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


def test_a_group_has_one_decision_and_no_example_twice_and_ends_where_something_is_due(
    tmp_path, monkeypatch
):
    learn, groups = Skipper._learn, []

    def noted(self, results, **named):
        groups.append((results[0].before, [result.plan for result in results]))
        learn(self, results, **named)

    monkeypatch.setattr(Skipper, "_learn", noted)
    data, due = clicks(500), set()
    many_at_once(monkeypatch, due)
    train(data, config(*SETTINGS, "skip.rule=value", batch_size=7, epochs=2), tmp_path / "run")
    assert max(len(plans) for _, plans in groups) > 4
    assert len({plans[0].decision for _, plans in groups}) > 2
    for begin, plans in groups:
        assert len({plan.decision for plan in plans}) == 1
        assert not due & {plan.step for plan in plans[:-1]}
        if len(plans) > 1:
            per_epoch = len(data.train)
            assert begin // per_epoch == (plans[-1].next_position - 1) // per_epoch


def many_at_once(monkeypatch, due):
    """Let skipping learn from many steps at once, and note after which something is due."""
    update, due_steps, waiting, sizes = Skipper.update, [], [], []

    def late(self, steps):
        due_steps.extend([] if due_steps else [DueSteps(self)])
        now_due = {step.plan.step for step in steps if due_steps[0](step.plan, step.before)}
        due.update(now_due)
        waiting.extend(steps)
        if steps and not now_due and len(waiting) < 16:
            return []
        sizes.append(len(waiting))
        now = list(waiting)
        waiting.clear()
        return update(self, now)

    monkeypatch.setattr(Skipper, "update", late)
    return sizes


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
    many = many_at_once(monkeypatch, set())
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
