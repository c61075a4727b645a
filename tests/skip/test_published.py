"""The published rule beside a slow, literal transcription of the published steps."""

import numpy as np
import pytest
from small_runs import SIZES, lines, skewed

from slipstream import Recipe, synthesize
from slipstream.config import Config
from slipstream.data.dataset import Dataset
from slipstream.skip.chance import uniform
from slipstream.skip.skipper import Skipper
from slipstream.tables.tables import Embeddings
from slipstream.training import build
from slipstream.training.checkpoint import load, newest
from slipstream.training.example_order import hot_rows_of
from slipstream.training.loop import StoppedError, train
from slipstream.training.state import Hooks

SEED, SIZE, S, P, LAG = 3, 16, 4, 0.2, 6
KEYS = {
    "skip.options.warmup_batches": S,
    "skip.warmup": P,
    "skip.options.hot_memory": "60%",
    "skip.options.hot_sample": 0.5,
    "skip.options.sample_share": 0.4,
    "skip.lag": LAG,
    "placement.fast_memory": "90%",
    "embedding": "{optimizer: sgd, lr: 0.05}",
    "seed": SEED,
    "log.trackers": "[]",
    "compile": "off",
    "evaluate.at": "[]",
}


def config(*settings):
    keys = [f"{key}={value}" for key, value in KEYS.items()]
    return Config(batch_size=SIZE, strategy="slipstream").with_settings([*keys, *settings])


def accesses(part, number):
    """The rows of an example by table, one by one."""
    (each,) = part.runs(number, number + 1)
    rows = {table.name: [] for table in part.schema.tables}
    for place, column in enumerate(part.schema.singles):
        rows[column.table].append(int(each.ids[0, place]))
    for column in part.schema.lists:
        rows[column.table] += each.lists[column.name].values.tolist()
    return rows


def hot_rows(part, layout, budget):
    """Accesses in 5 % (here more) of the examples, with replacement; the H rows with most."""
    n = len(part)
    draws = (
        uniform(SEED, "hot", np.arange(round(KEYS["skip.options.hot_sample"] * n))) * n
    ).astype(int)
    counts = {}
    for number in np.minimum(draws, n - 1).tolist():
        for table, ids in accesses(part, number).items():
            for row in ids:
                counts[table, row] = counts.get((table, row), 0) + 1
    tables = [table.name for table in part.schema.tables]
    best = sorted(counts, key=lambda each: (-counts[each], tables.index(each[0]), each[1]))
    dim = layout.tables[0].dim
    return set(best[: budget // (4 * dim)])


def rows_after(data, folder, settings, steps):
    """All rows by table after so many steps of the same order, without any skipping."""
    calls = iter(range(steps + 1))
    hooks = Hooks(should_stop=lambda: next(calls, None) in (None, steps))
    settings = [setting for setting in settings if not setting.startswith("skip.options")]
    chosen = config(*settings, "skip.rule=none", "skip.options={hot_memory: 60%, hot_sample: 0.5}")
    with pytest.raises(StoppedError):
        train(data, chosen, folder, hooks=hooks)
    tables = Embeddings(build.model_of(chosen, data).layout, seed=None)
    checkpoint = newest(folder / "checkpoints")
    assert checkpoint.step == steps
    load(checkpoint, tables.stores)
    return {
        table.name: store.views["weight"][store.rows_of(table.name)].copy()
        for store in tables.stores
        for table in store.group.tables
    }


def literally(data, folder, settings, alpha, target):
    """The published steps, one after the other: the threshold, and the dropped examples."""
    layout = build.model_of(config(*settings), data).layout
    everything = sum(t.rows * 4 * t.dim for t in layout.tables)
    part = data.train
    budget = round(0.6 * everything)
    hot = hot_rows(part, layout, budget)
    rows = [accesses(part, n) for n in range(len(part))]
    is_hot = [all((t, r) in hot for t, ids in each.items() for r in ids) for each in rows]
    hot_examples = [n for n in range(len(part)) if is_hot[n]]
    cold_batches = -(-(len(part) - len(hot_examples)) // SIZE)
    e = round(P * -(-len(hot_examples) // SIZE)) + S
    a = rows_after(data, folder / "a", settings, cold_batches + S)
    b = rows_after(data, folder / "b", settings, cold_batches + e)

    def stale(table, row, threshold):
        pairs = zip(a[table][row], b[table][row], strict=True)
        return all(abs(x - y) < np.float32(threshold) for x, y in pairs)

    def dropped(number, threshold):
        return all(
            sum(stale(table, row, threshold) for row in ids) >= min(alpha, len(ids))
            for table, ids in rows[number].items()
        )

    left = hot_examples[e * SIZE :]
    is_drawn = uniform(SEED, "sample", np.array(left)) <= KEYS["skip.options.sample_share"]
    sample = np.array(left)[is_drawn].tolist()
    low, high, threshold = 0.0, 0.1, 0.0
    for _ in range(25):
        middle = (low + high) / 2
        share = sum(dropped(number, middle) for number in sample) / len(sample)
        if abs(share - target) <= 0.05:
            threshold = middle
            break
        if share > target:
            high = middle
        else:
            low = middle
    judged = hot_examples[(e + LAG) * SIZE :]
    return threshold, [number for number in judged if dropped(number, threshold)]


@pytest.mark.parametrize("model", ["dlrm", "tbsm"])
def test_published_gives_the_threshold_and_drops_the_examples_of_a_literal_transcription(
    model, tmp_path, monkeypatch
):
    if model == "dlrm":
        data, settings, alpha, target = skewed(2500), SIZES, 10**9, 0.3
    else:
        data = Dataset.open(synthesize(Recipe(rows=1500, shape="taobao"), tmp_path / "data"))
        sizes = ("model.dim=4", "model.top=[5]", "model.attention=[5]", "model.final=[6]")
        settings, alpha, target = ("model.name=tbsm", "embedding.lr=0.02", *sizes), 4, 0.85
    settings = (*settings, "skip.options.tolerance=0.05", f"skip.target={target}")
    threshold, wanted = literally(data, tmp_path, settings, alpha, target)
    seen, after = [], Skipper.update

    def noted(self, finished):
        for each in finished:
            seen.extend(each.plan.skipped.tolist())
        return after(self, finished)

    monkeypatch.setattr(Skipper, "update", noted)
    summary = train(data, config(*settings), tmp_path / "run")
    (decision,) = lines(tmp_path / "run", "skipping")
    assert decision["threshold"] == threshold > 0, str(decision)
    assert seen == wanted
    assert len(wanted) > 20
    assert summary["inputs_skipped"] == len(wanted)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.parametrize("model", ["dlrm", "deepfm"])
def test_a_share_of_rows_is_hot_whatever_state_they_have(model, optimizer):
    data, chosen = skewed(2500), config(f"embedding={{optimizer: {optimizer}}}")
    chosen = chosen.with_settings([f"model.name={model}", "skip.options.hot_memory=25%"])
    hot = hot_rows_of(chosen, build.model_of(chosen, data).layout, data)
    assert len(hot.rows) == len(hot.mask) // 4


def test_a_search_that_fails_skips_nothing_and_has_a_reason(tmp_path):
    settings = (*SIZES, "skip.options.max_movement=1e-9", "skip.options.max_search_steps=3")
    summary = train(skewed(2000), config(*settings), tmp_path / "run")
    (decision,) = lines(tmp_path / "run", "skipping")
    assert decision["threshold"] == 0
    assert "in 3 steps no threshold up to 1e-09" in decision["why"]
    assert decision["why"] in summary["skipping"]["sentence"]
    assert summary["inputs_skipped"] == 0


def test_a_run_that_is_too_short_is_reported_at_the_start(tmp_path):
    sentences = []
    settings = (*SIZES, "skip.options.warmup_batches=1000")
    train(
        skewed(400), config(*settings), tmp_path / "run", hooks=Hooks(on_message=sentences.append)
    )
    assert any(each.startswith("Nothing will be skipped: the published rule") for each in sentences)


def test_it_decides_once_unless_repeat_is_set(tmp_path):
    data = skewed(2500)
    train(data, config(*SIZES), tmp_path / "once")
    train(data, config(*SIZES, "skip.options.repeat=true"), tmp_path / "often")
    assert len(lines(tmp_path / "once", "skipping")) == 1
    assert len(lines(tmp_path / "often", "skipping")) > 3


def test_a_threshold_that_is_set_is_used(tmp_path):
    summary = train(skewed(2500), config(*SIZES, "skip.options.h_t=0.05"), tmp_path / "run")
    (decision,) = lines(tmp_path / "run", "skipping")
    assert decision["threshold"] == 0.05
    assert summary["inputs_skipped"] > 0


def test_fewer_tables_that_must_be_stale_drop_more(tmp_path):
    data = skewed(2500)
    all_of, two = (
        train(data, config(*SIZES, "skip.options.h_t=0.01", *more), tmp_path / name)[
            "inputs_skipped"
        ]
        for name, more in (("all", ()), ("two", ("skip.options.h_c=2",)))
    )
    assert two > all_of
