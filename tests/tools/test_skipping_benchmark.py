"""The benchmark of skipping: scored against the truth, paired by seed, and continued."""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream import Config, Dataset, Recipe, synthesize
from slipstream.training.loop import train

ROOT = Path(__file__).parents[2]
NAMES = ("__main__", "ledger", "table", "tail", "truth")


@pytest.fixture(scope="module")
def modules():
    sys.path.insert(0, str(ROOT))
    yield {name: importlib.import_module(f"benchmarks.skipping.{name}") for name in NAMES}
    for name in [name for name in sys.modules if name.split(".")[0] == "benchmarks"]:
        del sys.modules[name]
    sys.path.remove(str(ROOT))


@given(st.lists(st.tuples(st.integers(-3, 3), st.floats(0.01, 0.99)), min_size=2, max_size=12))
def test_the_expected_auc_is_that_of_all_pairs_by_their_chances(modules, examples):
    scores, chances = (np.array(each, dtype=np.float64) for each in zip(*examples, strict=True))
    won = weight = 0.0
    for i in range(len(examples)):
        for j in range(len(examples)):
            if i != j:
                pair = chances[i] * (1 - chances[j])
                weight += pair
                won += pair * (1.0 if scores[i] > scores[j] else 0.5 * (scores[i] == scores[j]))
    assert modules["truth"].expected_auc(scores, chances) == pytest.approx(won / weight)


def test_true_chances_are_those_by_which_the_labels_were_drawn(modules, tmp_path):
    recipe = Recipe(rows=40_000, positives=0.2, exponent=1.3, drift="gradual")
    dataset = Dataset.open(synthesize(recipe, tmp_path / "set"))
    labels = np.concatenate([np.asarray(run.labels) for run in dataset.evaluation.runs(0, 4000)])
    chances = modules["truth"].true_chances(recipe)
    losses = -np.log(np.where(labels > 0, chances, 1 - chances))
    assert losses.mean() == pytest.approx(dataset.manifest.oracle["evaluation"]["logloss"])


def test_a_tail_is_scored_on_the_same_unseen_examples_whatever_was_skipped(modules, tmp_path):
    recipe = Recipe(rows=20_000, drift="gradual")
    dataset = Dataset.open(synthesize(recipe, tmp_path / "set"))
    tail, truth = modules["tail"], modules["truth"]
    chances = np.concatenate([truth.true_chances(recipe, part) for part in truth.PARTS])
    keys = {"batch_size": 128, "compile": "off", "log.trackers": [], "model.top": [4]}
    keys |= {"model.bottom": [4], "evaluate.at": [], **tail.tail_keys(len(dataset.train))}
    slices = []

    class Noted(np.ndarray):
        def __getitem__(self, examples):
            slices.append((examples.start, examples.stop))
            return np.asarray(super().__getitem__(examples))

    for rule in ("none", "random"):
        config = Config().with_settings(f"{key}={json.dumps(keys[key])}" for key in keys)
        train(dataset, config.with_settings([f"skip.rule={rule}"]), tmp_path / rule)
        assert 0.4 < tail.auc_of_tail(tmp_path / rule, dataset, chances.view(Noted)) < 0.9
    half = len(slices) // 2
    assert slices[:half] == slices[half:]
    assert all(stop - start == 850 for start, stop in slices)


def test_a_table_has_the_loss_of_each_rule_paired_by_seed(modules, tmp_path):
    results = []
    for seed in range(3):
        for rule, lost, share in (("none", 0, 0.0), ("value", 0.01, 0.3), ("thin", 0.02, 0.1)):
            task = {"setting": "3 % positive", "rule": rule, "seed": seed}
            results.append((task, {"auc": 0.8 + seed / 10 - lost, "share": share}))
    text = modules["table"].table(results, 0.3)
    assert "| `value` | 0.01000 ± 0.00000 |" in text
    assert "| `thin` | 0.02000 ± 0.00000 (10 %) |" in text
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- measured -->\nold\n<!-- end -->\nz\n")
    modules["table"].write_table(text, page)
    assert page.read_text() == f"a\n<!-- measured -->\n\n{text}\n\n<!-- end -->\nz\n"


def test_results_are_kept_and_half_a_line_is_left_out(modules, tmp_path):
    path = tmp_path / "results.jsonl"
    ledger = modules["ledger"].Ledger(path)
    ledger.add({"n": 1}, {"auc": 0.5})
    path.write_text(path.read_text() + '\n[{"n": 2}, {"a')  # killed while it wrote
    again = modules["ledger"].Ledger(path)
    again.add({"n": 3}, {"auc": 0.6})
    assert {"n": 1} in again
    assert {"n": 2} not in again
    assert modules["ledger"].Ledger(path).results() == again.results()


def test_it_measures_prints_and_does_nothing_twice(modules, monkeypatch, capfd, tmp_path):
    words = "skipping --rows 4000 --seeds 1 --settings drifting --rules random"
    monkeypatch.setattr(sys, "argv", [*words.split(), "--out", str(tmp_path)])
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{ROOT / 'src'}")
    modules["__main__"].main()
    first = capfd.readouterr()
    assert "| rule | 25 % positive, drifting |" in first.out
    assert first.err.count("left") == 2
    modules["__main__"].main()
    assert capfd.readouterr() == (first.out, "")
