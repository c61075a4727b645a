"""The benchmark of skipping: scored against the truth, paired, judged, and gone on with."""

from __future__ import annotations

import argparse
import functools
import importlib
import json
import statistics
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream import Dataset, Recipe, synthesize
from slipstream.config import Config
from slipstream.training import trainer
from slipstream.training.loop import train

ROOT = Path(__file__).parents[2]
NAMES = ("__main__", "points", "verdicts", "ledger", "truth", "settled", "tail", "docs")


@pytest.fixture(scope="module")
def modules():
    sys.path.insert(0, str(ROOT))
    yield {name: importlib.import_module(f"benchmarks.skipping.{name}") for name in NAMES}
    for name in [one for one in sys.modules if one.split(".")[0] == "benchmarks"]:
        del sys.modules[name]
    sys.path.remove(str(ROOT))


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
        "core_seconds": seconds,
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
    points = modules["points"]
    found = points.points_of(runs)["curves", "25 % positive, stationary"]
    value = found["value", 0.3]
    assert value.loss == pytest.approx({0: 0.003, 1: 0.003})
    control = points.control_at(found, "random", value.skipped)
    assert control == pytest.approx({0: 0.006, 1: 0.006})
    assert points.ratio(value.loss, control)[:3] == pytest.approx((0.5, 0.5, 0.5))


def test_the_luck_that_a_rule_and_its_control_share_does_not_widen_their_ratio(modules):
    ratio = modules["points"].ratio
    control = {0: 0.004, 1: 0.008, 2: 0.012}
    half = ratio({seed: loss / 2 for seed, loss in control.items()}, control)
    assert half[:3] == pytest.approx((0.5, 0.5, 0.5))
    apart = ratio({0: 0.006, 1: 0.004, 2: 0.002}, control)
    assert apart.mean == pytest.approx(0.5)
    assert apart.low < 0 < 1 < apart.high
    assert ratio({0: 0.1}, {0: 0.0}) is None


LOSSES = st.lists(st.floats(-0.01, 0.01), min_size=3, max_size=9)


@given(LOSSES)
def test_a_loss_is_settled_by_its_own_size_or_by_being_next_to_nothing(modules, losses):
    found = modules["settled"].standing(dict(enumerate(losses)))
    mean, error = statistics.fmean(losses), statistics.stdev(losses) / len(losses) ** 0.5
    assert found.narrow == (error <= abs(mean) / 10)
    if found.under is not None:
        assert abs(mean) <= found.under <= 0.0002
    assert found.settled == (found.narrow or found.under is not None)
    assert found.settled == (found.needed == len(losses))
    assert found.fewest <= found.needed


def test_two_seeds_settle_nothing_and_say_how_many_would(modules):
    standing = modules["settled"].standing
    assert standing({0: 0.01, 1: 0.01}) == (False, None, 3, 3)
    assert standing({0: 0.01, 1: 0.01}).words == "NO (3 seeds)"
    assert standing({0: 0.01}).words == "NO"


def test_seeds_are_added_where_they_can_settle_something_and_nowhere_else(modules, tmp_path):
    ledger = modules["ledger"].Ledger(tmp_path / "results.jsonl", "a")
    lost = {"random": (0.010, 0.010, 0.010), "value": (0.010, 0.012, 0.007)}
    lost["thin"] = (0.02, -0.02, 0.0)  # hopeless, whatever the mean is
    lost["movement"] = (0.0006, -0.0002, 0.0001)  # it may be next to nothing
    for seed in range(3):
        ledger.add(*made("none", 0.0, seed, 0.8))
        for rule, losses in lost.items():
            ledger.add(*made(rule, 0.3, seed, 0.8 - losses[seed]))
    options = argparse.Namespace(seeds=3, most_seeds=12)
    helps = functools.partial(modules["__main__"].more_seeds_help, ledger, options)
    wanted = {rule: helps(made(rule, 0.3, 3, 0.0)[0]) for rule in lost}
    assert wanted == {"random": False, "value": True, "thin": False, "movement": True}
    assert helps(made("none", 0.0, 3, 0.0)[0])
    assert not helps(made("none", 0.0, 3, 0.0, setting="another")[0])
    assert helps(made("thin", 0.3, 2, 0.0)[0])


@pytest.mark.parametrize(
    ("value", "thin", "spent", "missed"),
    [
        (0.797, 0.7996, 0.02, None),
        (0.796, 0.7996, 0.02, "value at 30 %"),
        (0.797, 0.7990, 0.02, "thin or case-control"),
        (0.797, 0.7996, 0.04, "classifier, snapshots and search"),
    ],
)
def test_a_goal_that_is_missed_is_told_and_is_the_exit_status(
    modules, capsys, value, thin, spent, missed
):
    runs, rare = [], "3 % positive, stationary"
    for seed in range(3):
        off = seed * 1e-6
        runs += [made("none", 0.0, seed, 0.8), made("random", 0.3, seed, 0.794 + off)]
        runs += [made("value", 0.3, seed, value + off), made("published", 0.3, seed, 0.795 + off)]
        runs += [made("none", 0.0, seed, 0.8, setting=rare)]
        runs += [made("thin", 0.52, seed, thin + off, setting=rare)]
    runs += [made("none", 0.0, 0, 0.8, "overhead")]
    runs += [made("value", 0.3, 0, 0.8, "overhead", spent=spent)]
    points = modules["points"].points_of(runs)
    assert modules["verdicts"].say(points) == (missed is not None)
    for line in capsys.readouterr().out.strip().splitlines()[2:]:
        goal = "MISSED" if missed is not None and missed in line else "reached"
        assert line.endswith(goal)


def test_a_goal_inside_the_interval_is_undecided(modules, capsys):
    runs = []
    for seed, loss in enumerate((0.003, 0.0035, 0.004)):
        runs += [made("none", 0.0, seed, 0.8), made("random", 0.3, seed, 0.794)]
        runs += [made("value", 0.3, seed, 0.8 - loss)]
    points = modules["points"].points_of(runs)
    modules["verdicts"].say(points)
    (line,) = [one for one in capsys.readouterr().out.splitlines() if "- value at" in one]
    assert line.endswith("0.58 ± 0.21 of it: undecided")


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


def test_a_tail_is_scored_on_the_same_unseen_inputs_whatever_was_skipped(
    modules, tmp_path, monkeypatch
):
    monkeypatch.setattr(trainer, "CHECKPOINTS", modules["tail"].POINTS)
    recipe = Recipe(rows=20_000, drift="gradual")
    dataset = Dataset.open(synthesize(recipe, tmp_path / "set"))
    tail, truth = modules["tail"], modules["truth"]
    chances = np.concatenate([truth.true_chances(recipe, part) for part in truth.PARTS])
    keys = {"batch_size": 128, "compile": "off", "log.trackers": [], "model.top": [4]}
    keys |= {"model.bottom": [4], "evaluate.at": [], **tail.tail_keys(len(dataset.train))}
    asked = []

    class Asked(np.ndarray):
        def __getitem__(self, inputs):
            asked.append((inputs.start, inputs.stop))
            return np.asarray(super().__getitem__(inputs))

    for rule in ("none", "random"):
        config = Config().with_settings(f"{k}={json.dumps(v)}" for k, v in keys.items())
        config = config.with_settings([f"skip.rule={rule}"])
        train(dataset, config, tmp_path / rule)
        found = tail.scores_of_tail(tmp_path / rule, dataset, chances.view(Asked))
        assert 0.4 < found["auc"] < found["oracle_auc"]
    moments = [17_000 * k // 20 for k in range(20, 11, -1)]
    assert asked == 2 * [(at + 512, at + 512 + 850) for at in moments]


def test_the_docs_take_their_tables_and_pictures_from_the_results(modules, tmp_path):
    runs = []
    for positives in (25, 3):
        setting = f"{positives} % positive, stationary"
        for seed in range(3):
            runs += [made("none", 0.0, seed, 0.8, setting=setting)]
            runs += [made("value", 0.3, seed, 0.79 + seed / 1e5, setting=setting)]
    page = tmp_path / "skipping.md"
    for seed in range(3):
        runs += [made("none", 0.0, seed, 0.8, "log", "clicks")]
        runs += [made("random", 0.3, seed, 0.79, "log", "clicks")]
        runs += [made("thin", 0.3, seed, 0.795, "log", "clicks")]
    blocks = [f"<!-- measured: {name} -->\nold\n<!-- end -->\n" for name in ("stationary", "log")]
    page.write_text("a\n" + "".join(blocks) + "z\n", encoding="utf-8")
    modules["docs"].write_docs(modules["points"].points_of(runs), tmp_path)
    text = page.read_text(encoding="utf-8")
    assert "| `value` | 0.00999 ± 0.00002 |  | 0.00999 ± 0.00002 |  |" in text
    assert "| `thin` | 30 % | 0.00500 ± 0.00000 | 0.50 ± 0.00 | yes | 3 |" in text
    assert "old" not in text
    assert text.startswith("a\n<!-- measured: stationary -->\n")
    assert text.endswith("<!-- end -->\nz\n")
    assert len(list(tmp_path.glob("skipping-*-positive.svg"))) == 2


def test_it_measures_prints_draws_and_does_nothing_twice(modules, monkeypatch, capsys, tmp_path):
    words = "skipping curves --rows 4000 --drifting-rows 4000 --seeds 1 --most-seeds 1"
    words += " --shares 0.3 --rules random"
    monkeypatch.setattr(sys, "argv", [*words.split(), "--out", str(tmp_path)])
    main = modules["__main__"].main
    assert main() == 2
    printed = capsys.readouterr()
    assert "| random | 30 % | 0.0 % | 0.00000 |  | nothing skipped | 1 |" in printed.out
    assert len(printed.err.splitlines()) == 8
    lines = (tmp_path / "results.jsonl").read_text().splitlines()
    assert len(lines) == len({json.dumps(json.loads(one)["task"]) for one in lines}) == 8
    assert len(list(tmp_path.glob("*.svg"))) == 4
    assert main() == 2
    assert capsys.readouterr() == (printed.out, "")
    monkeypatch.setattr(sys, "argv", ["skipping", "--show", "--out", str(tmp_path)])
    assert main() == 2
    assert capsys.readouterr() == (printed.out, "")
