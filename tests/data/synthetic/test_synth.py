import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from slipstream import ConfigError, DataError, Dataset, Recipe, synthesize, verify
from slipstream.data.synthetic import generator
from slipstream.data.synthetic.shapes import SHAPES
from slipstream.data.synthetic.teacher import CHANCES, OracleScores, Teacher


def _digest(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }


def _make(tmp_path: Path, name: str = "set", **recipe) -> Dataset:
    return Dataset.open(synthesize(Recipe(**recipe), tmp_path / name))


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_makes_a_whole_data_set_with_ranks_for_ids(tmp_path, shape):
    dataset = _make(tmp_path, shape=shape, rows=3000, seed=1)
    assert verify(tmp_path / "set") == []
    assert [len(part) for part in dataset.parts.values()] == [2550, 150, 300]
    for table in dataset.schema.tables:
        counts = dataset.counts(table.name)
        assert np.all(np.diff(counts) <= 0)
        others = np.delete(counts, table.unseen)
        assert np.all(others >= 2)
    lists = {column.name for column in dataset.schema.lists}
    assert lists == {"small": {"tags"}, "taobao": {"items", "categories"}}.get(shape, set())


@pytest.mark.parametrize("drift", ["none", "gradual", "sudden@0.5"])
def test_same_seed_same_bytes_whatever_the_threads_and_chunks(tmp_path, monkeypatch, drift):
    recipe = {"shape": "small", "rows": 120_000, "seed": 5, "drift": drift}
    monkeypatch.setattr(generator, "THREADS", 1)
    item = _digest(_make(tmp_path, "one", **recipe).folder)
    monkeypatch.setattr(generator, "THREADS", 2)
    monkeypatch.setattr(generator, "CHUNK_VALUES", 25_011)
    two = _digest(_make(tmp_path, "two", **recipe).folder)
    assert item == two
    assert item != _digest(_make(tmp_path, "three", **{**recipe, "seed": 6}).folder)


def test_the_bytes_are_those_of_every_machine(tmp_path):
    dataset = _make(tmp_path, shape="small", rows=5000, seed=3, drift="gradual")
    ids = dataset.manifest.files["train/00000.ids"].sha256
    labels = dataset.manifest.files["train/00000.labels"].sha256
    assert (ids[:16], labels[:16]) == ("8a2ef30065910156", "830b05fd7848415e")


@pytest.mark.parametrize("positives", [0.03, 0.25, 0.5])
def test_the_share_of_positives_is_the_one_asked_for(tmp_path, positives):
    dataset = _make(tmp_path, rows=60_000, positives=positives)
    rate = dataset.manifest.parts["train"].label_rate
    assert abs(rate - positives) < 4 * (positives / 51_000) ** 0.5


def test_a_model_that_sees_only_single_rows_learns_and_stays_below_the_oracle(tmp_path):
    dataset = _make(tmp_path, rows=200_000, seed=2)
    train, test = dataset.train.shards[0], dataset.evaluation.shards[0]
    score = np.zeros(len(test))
    base = train.labels.mean()
    for column, _ in enumerate(dataset.schema.singles):
        rows = dataset.schema.table(dataset.schema.singles[column].table).rows
        clicks = np.bincount(train.ids[:, column], weights=train.labels, minlength=rows)
        seen = np.bincount(train.ids[:, column], minlength=rows)
        rate = (clicks + 20 * base) / (seen + 20)
        score += np.log(rate / (1 - rate))[test.ids[:, column]]
    auc = _auc(score, test.labels)
    oracle = dataset.manifest.oracle["evaluation"]["auc"]
    assert 0.65 < auc < oracle < 0.9


def _auc(scores: np.ndarray, labels: np.ndarray) -> float:
    order = np.argsort(scores, kind="stable")
    ranks = np.empty(len(scores))
    ranks[order] = np.arange(1, len(scores) + 1)
    positives = labels > 0.5
    n, p = len(scores), positives.sum()
    return float((ranks[positives].sum() - p * (p + 1) / 2) / (p * (n - p)))


def test_the_oracles_scores_are_those_of_its_probabilities():
    recipe = Recipe(rows=20_000, seed=4)
    examples = recipe.generator()
    labels, bins = Teacher(examples, recipe.share).label(examples.draw(np.arange(20_000)))
    oracle = OracleScores()
    oracle.add(bins[:7000], labels[:7000])
    oracle.add(bins[7000:], labels[7000:])
    chance, truth = CHANCES[bins], labels
    wins = (chance[truth == 1][:, None] > chance[truth == 0]).mean()
    ties = (chance[truth == 1][:, None] == chance[truth == 0]).mean()
    loss = -np.where(truth == 1, np.log(chance), np.log1p(-chance)).mean()
    assert oracle.scores()["auc"] == pytest.approx(wins + ties / 2, abs=1e-12)
    assert oracle.scores()["logloss"] == pytest.approx(loss, abs=1e-12)


def _overlap(dataset: Dataset) -> float:
    """How many of the twenty most frequent devices of the first fifth are so in the last too."""
    shard = dataset.train.shards[0]
    place = [column.name for column in dataset.schema.singles].index("device")
    ids, fifth = shard.ids[:, place], len(shard) // 5
    top = [set(np.argsort(-np.bincount(i))[:20].tolist()) for i in (ids[:fifth], ids[-fifth:])]
    return len(top[0] & top[1]) / 20


def test_popularity_drift_changes_which_rows_are_popular(tmp_path):
    still = _make(tmp_path, "still", rows=60_000)
    drifting = _make(tmp_path, "drifting", rows=60_000, drift="gradual")
    assert _overlap(still) > 0.7
    assert _overlap(drifting) < 0.5


def test_teacher_drift_changes_what_rows_mean_at_the_stated_share(tmp_path):
    def change(drift: str, share: float) -> float:
        recipe = {"rows": 200_000, "seed": 1, "drift": drift}
        dataset = _make(tmp_path, f"{drift}{share}", **recipe)
        shard = dataset.train.shards[0]
        cut = round(share * 200_000)
        ids, labels = shard.ids[:, 0], shard.labels
        rates = [
            [labels[piece][ids[piece] == row].mean() for row in range(30)]
            for piece in (slice(0, cut), slice(cut, None))
        ]
        return float(np.corrcoef(rates)[0, 1])

    assert change("none", 0.5) > 0.8
    assert change("sudden@0.5", 0.5) < 0.5


def test_min_count_zero_keeps_every_row_of_the_shape(tmp_path):
    dataset = _make(tmp_path, rows=1000, min_count=0)
    sizes = {table.name: table.rows for table in SHAPES["small"].tables}
    assert {t.name: t.rows - 1 for t in dataset.schema.tables} == sizes


def test_a_higher_exponent_is_more_skewed(tmp_path):
    from slipstream.analyze.profile import pooled, top_share

    shares = []
    for exponent in (0.5, 1.0, 1.5):
        dataset = _make(tmp_path, f"e{exponent}", rows=20_000, exponent=exponent, min_count=0)
        counts = pooled(dataset.counts(table.name) for table in dataset.schema.tables)
        shares.append(top_share(counts, 0.01))
    assert shares[0] < shares[1] < shares[2]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"shape": "criteo"}, "Did you mean criteo-kaggle"),
        ({"rows": 0}, "rows is 0"),
        ({"positives": 1.5}, "positives is 1.5"),
        ({"drift": "sudden@2"}, "sudden@SHARE"),
        ({"drift": "labels"}, "sudden@SHARE"),
        ({"exponent": -1}, "exponent is -1"),
        ({"min_count": -1}, "min_count is -1"),
    ],
)
def test_wrong_recipes_are_errors_that_say_what_to_write(wrong, words):
    with pytest.raises(ConfigError, match=words):
        Recipe(**wrong)


def test_a_folder_that_is_taken_is_noticed_before_any_work(tmp_path):
    synthesize(Recipe(rows=1000), tmp_path / "set")
    done = []
    with pytest.raises(DataError, match="already holds a data set"):
        synthesize(Recipe(rows=1000), tmp_path / "set", progress=done.append)
    assert done == []


def test_a_failure_half_way_leaves_nothing(tmp_path):
    calls = []

    def stop(rows: int) -> None:
        calls.append(rows)
        if len(calls) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        synthesize(Recipe(rows=1000), tmp_path / "set", progress=stop)
    assert list(tmp_path.iterdir()) == []


PEAK = """
import resource, sys, slipstream
slipstream.synthesize(slipstream.Recipe("criteo-kaggle", int(sys.argv[1])), sys.argv[2])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.process
def test_memory_does_not_grow_with_the_number_of_inputs(tmp_path):
    peaks = []
    for rows in (2_000_000, 12_000_000):
        words = [sys.executable, "-c", PEAK, str(rows), str(tmp_path / str(rows))]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout))
        shutil.rmtree(tmp_path / str(rows))
    assert peaks[1] < 1.15 * peaks[0]
