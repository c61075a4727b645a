"""The benchmark of skipping: scored against the truth, paired, judged, and gone on with."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream import Dataset, Recipe, synthesize

FOLDER = Path(__file__).parents[2] / "benchmarks"
NAMES = ("skipping", "skipping_points", "skipping_verdicts", "ledger", "truth")


@pytest.fixture(scope="module")
def modules():
    sys.path.insert(0, str(FOLDER))
    before = set(sys.modules)
    yield {name: importlib.import_module(name) for name in NAMES}
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(FOLDER)):
            del sys.modules[name]
    sys.path.remove(str(FOLDER))


@given(st.lists(st.tuples(st.integers(-3, 3), st.floats(0.01, 0.99)), min_size=2, max_size=12))
def test_the_expected_auc_is_that_of_all_pairs_by_their_chances(modules, inputs):
    scores, chances = (np.array(one, dtype=np.float64) for one in zip(*inputs, strict=True))
    won = weight = 0.0
    for i in range(len(inputs)):
        for j in range(len(inputs)):
            if i != j:
                pair = chances[i] * (1 - chances[j])
                weight += pair
                won += pair * (1.0 if scores[i] > scores[j] else 0.5 * (scores[i] == scores[j]))
    found = modules["truth"].expected(scores, chances)
    assert found.auc == pytest.approx(won / weight)


def test_true_chances_are_those_by_which_the_labels_were_drawn(modules, tmp_path):
    recipe = Recipe(rows=40_000, positives=0.2, exponent=1.3, drift="gradual")
    dataset = Dataset.open(synthesize(recipe, tmp_path / "set"))
    labels = np.concatenate([np.asarray(run.labels) for run in dataset.evaluation.runs(0, 4000)])
    chances = modules["truth"].true_chances(recipe)
    assert len(chances) == len(labels) == 4000
    logits = np.log(chances / (1 - chances))
    oracle = dataset.manifest.oracle["evaluation"]
    losses = -np.log(np.where(labels > 0, chances, 1 - chances))
    assert losses.mean() == pytest.approx(oracle["logloss"])
    assert modules["truth"].expected(logits, chances).calibration == pytest.approx(1)


def outcome(auc, skipped, seconds=1.0, spent=0.0):
    skipping = {"overhead_seconds": {"search": spent}} if skipped else None
    return {
        "auc": auc,
        "skip_share": skipped,
        "train_seconds": seconds,
        "calibration": 1.0,
        "skipping": skipping,
        "oracle_auc": 0.9,
        "inputs_total": 8500,
    }


def made(rule, share, seed, auc, part="curves", setting="25 % positive, stationary", spent=0.0):
    task = {"part": part, "setting": setting, "rule": rule, "share": share, "seed": seed}
    return {**task, "settings": {}}, outcome(auc, share, spent=spent)


def test_a_rule_is_compared_with_random_at_the_share_that_it_reached_seed_by_seed(modules):
    runs = [made("none", 0.0, seed, 0.8 + seed / 10) for seed in (0, 1)]
    runs += [made("random", 0.2, seed, 0.798 + seed / 10) for seed in (0, 1)]
    runs += [made("random", 0.4, seed, 0.790 + seed / 10) for seed in (0, 1)]
    runs += [made("value", 0.3, seed, 0.797 + seed / 10) for seed in (0, 1)]
    runs += [made("value", 0.3, 2, 0.5)]  # without full training beside it: left out
    points = modules["skipping_points"]
    found = points.points_of(runs)["curves", "25 % positive, stationary"]
    value = found["value", 0.3]
    assert value.loss == pytest.approx({0: 0.003, 1: 0.003})
    control = points.control_at(found, "random", value.skipped)
    assert control == pytest.approx({0: 0.006, 1: 0.006})
    assert points.ratio(value.loss, control) == pytest.approx(0.5)


def sudden(seen_at):
    """Runs with a change at input 5,000 of 8,500, of which 2 % of the rest are 70."""
    skipping = {
        "guard": {"alarms": [{"position": seen_at, "why": ""}]},
        "decisions": [
            {"position": 0, "inputs": 1000},
            {"position": 900, "inputs": seen_at - 960},
            {"position": seen_at, "inputs": 3000},
        ],
    }
    task, found = made("value", 0.3, 0, 0.7995, "sudden")
    return [made("none", 0.0, 0, 0.8, "sudden"), (task, found | {"skipping": skipping})]


@pytest.mark.parametrize(
    ("value", "thin", "spent", "seen_at", "missed"),
    [
        (0.797, 0.7996, 0.02, 5030, None),
        (0.796, 0.7996, 0.02, 5030, "value at 30 %"),
        (0.797, 0.7990, 0.02, 5030, "thin or case-control"),
        (0.797, 0.7996, 0.04, 5030, "classifier, snapshots and search"),
        (0.797, 0.7996, 0.02, 5040, "guard after a sudden change"),
        (0.797, 0.7996, 0.02, 4990, "guard after a sudden change"),
    ],
)
def test_a_goal_that_is_missed_is_told_and_is_the_exit_status(
    modules, capsys, value, thin, spent, seen_at, missed
):
    runs = [made("none", 0.0, 0, 0.8), made("random", 0.3, 0, 0.794)]
    runs += [made("value", 0.3, 0, value), made("published", 0.3, 0, 0.795)]
    rare = "3 % positive, stationary"
    runs += [made("none", 0.0, 0, 0.8, setting=rare), made("thin", 0.52, 0, thin, setting=rare)]
    runs += [made("none", 0.0, 0, 0.8, "overhead")]
    runs += [made("value", 0.3, 0, 0.8, "overhead", spent=spent), *sudden(seen_at)]
    points = modules["skipping_points"].points_of(runs)
    assert modules["skipping_verdicts"].say(points) == (missed is not None)
    for line in capsys.readouterr().out.strip().splitlines():
        goal = "MISSED" if missed is not None and missed in line else "reached"
        assert line.endswith(goal)


def test_measurements_are_gone_on_with_and_those_of_other_code_do_not_count(modules, tmp_path):
    ledger = modules["ledger"]
    tasks = [{"n": n} for n in range(4)]
    seen = []

    def measure(task):
        seen.append(task["n"])
        return {"twice": 2 * task["n"]}

    path = tmp_path / "results.jsonl"
    ledger.work_off(ledger.Ledger(path, "a"), tasks[:2], measure)
    path.write_text(path.read_text() + '{"code": "a", "ta')  # killed while it wrote
    first = ledger.Ledger(path, "a")
    assert ledger.work_off(first, tasks, measure, wanted=lambda task: task["n"] != 2) == 0
    assert seen == [0, 1, 3]
    assert [outcome["twice"] for _, outcome in first.all()] == [0, 2, 6]
    assert ledger.Ledger(path, "b").aside == 3


def test_what_fails_is_told_and_the_others_go_on(modules, tmp_path, capsys):
    ledger = modules["ledger"]
    made = ledger.Ledger(tmp_path / "results.jsonl", "a")
    ledger.work_off(made, [{"n": 0}, {"n": 2}], lambda task: {"half": 1 / task["n"]})
    assert [outcome for _, outcome in made.all()] == [{"half": 0.5}]
    assert "failed: division by zero" in capsys.readouterr().err


def test_nothing_begins_when_the_time_is_up(modules, tmp_path):
    ledger = modules["ledger"]
    made = ledger.Ledger(tmp_path / "results.jsonl", "a")
    assert ledger.work_off(made, [{"n": 1}], lambda _: {}, until=0.0) == 1


def test_it_measures_prints_draws_and_does_nothing_twice(modules, monkeypatch, capsys, tmp_path):
    words = "skipping.py curves --rows 4000 --seeds 1 --most-seeds 1 --shares 0.3 --rules random"
    monkeypatch.setattr(sys, "argv", [*words.split(), "--out", str(tmp_path)])
    assert modules["skipping"].main() == 2
    printed = capsys.readouterr()
    assert "| random | 30 % |" in printed.out
    assert len(printed.err.splitlines()) == 8
    lines = (tmp_path / "results.jsonl").read_text().splitlines()
    assert len(lines) == len({json.dumps(json.loads(one)["task"]) for one in lines}) == 8
    assert len(list(tmp_path.glob("*.svg"))) == 4
    assert modules["skipping"].main() == 2
    assert capsys.readouterr() == (printed.out, "")
