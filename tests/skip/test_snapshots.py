"""Snapshots beside training: every row as it was at one step, whatever changes meanwhile."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_runs import config, lines, skewed, stop_after

from slipstream.skip import snapshots
from slipstream.skip.snapshots import Snapshot
from slipstream.tables.spec import Layout, TableSpec
from slipstream.tables.tables import Embeddings
from slipstream.training.loop import StoppedError, train

ROWS, DIM = 40, 3
SMALL = 96  # bytes of a slice: 8 rows


def tables():
    return Embeddings(Layout((TableSpec("a", ROWS, DIM), TableSpec("b", ROWS, DIM)), ()), seed=1)


def snapshot_of(made, rows):
    """Of the rows of both tables, which stand behind each other in one group."""
    rows = np.asarray(rows)
    places = [(0, np.flatnonzero(rows // ROWS == k), rows[rows // ROWS == k]) for k in range(2)]
    context = SimpleNamespace(tables=made, places=lambda _: [one for one in places if len(one[1])])
    return Snapshot(context, rows)


def change(made, rows, by):
    made.before_write(0, np.array(rows, dtype=np.int64))
    rows = [row for row in rows if row >= 0]
    made.stores[0].views["weight"][rows] += by


writes = st.lists(st.lists(st.integers(-1, 2 * ROWS - 1), max_size=12), max_size=12)


@given(rows=st.sets(st.integers(0, 2 * ROWS - 1), min_size=1), first=writes, second=writes)
def test_a_pass_takes_every_row_as_it_was_when_it_began(rows, first, second):
    made, rows = tables(), sorted(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshots, "SLICE", SMALL)
        snapshot = snapshot_of(made, rows)
    weights = made.stores[0].views["weight"]
    before = weights[rows].copy()
    snapshot.begin()
    for number, some in enumerate(first):
        change(made, some, 1 + number)
        snapshot.go_on()
    snapshot.finish()
    now = weights[rows].copy()
    snapshot.begin()
    for some in second:
        change(made, some, 0.5)
        snapshot.go_on()
    snapshot.finish()
    assert np.array_equal(snapshot.moved(), np.abs(now - before).max(axis=1))
    table = np.asarray(rows) // ROWS
    size = [np.sqrt(np.square(before[table == k]).mean()) for k in table]
    assert np.allclose(snapshot.spread(), size)
    snapshot.begin(renew=False)
    snapshot.finish()
    assert np.array_equal(snapshot.moved(), np.abs(weights[rows] - now).max(axis=1))


@given(some=writes, stop=st.integers(0, 6))
def test_a_pass_goes_on_from_its_state_to_the_same_copy(some, stop):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(snapshots, "SLICE", SMALL)
        one_of, other_of = tables(), tables()
        one, other = (snapshot_of(made, range(0, 2 * ROWS, 2)) for made in (one_of, other_of))
    one.begin()
    one.finish()
    one.begin()
    for number, rows in enumerate(some):
        change(one_of, rows, 2)
        one.go_on()
        if number == stop:
            inside = one.under_way
            other.load_state_dict({k: v.copy() for k, v in one.state_dict().items()})
            other_of.stores[0].records[:] = one_of.stores[0].records
        elif number > stop:
            change(other_of, rows, 2)
            other.go_on()
    if len(some) <= stop:
        return
    one.finish()
    other.finish()
    for name, array in one.state_dict().items():
        assert np.array_equal(array, other.state_dict()[name]), name
    assert not inside or np.array_equal(one.moved(), other.moved())


def test_no_slice_is_larger_than_stated_and_together_they_are_all_rows(monkeypatch):
    monkeypatch.setattr(snapshots, "SLICE", SMALL)
    snapshot = snapshot_of(tables(), range(2 * ROWS))
    sizes = [
        sum(4 * DIM * (piece.rows.stop - piece.rows.start) for piece in one)
        for one in snapshot._slices
    ]
    assert max(sizes) <= SMALL
    assert sum(sizes) == 4 * DIM * 2 * ROWS


SHORT = (
    *("skip.warmup=0.1", "skip.interval=0.2", "skip.warmup_batches=3", "skip.sample_share=0.5"),
    *("skip.most_movement=1", "skip.least_touches=2", "skip.hot_sample=1"),
    *("placement.fast_memory=60%", "compile=off", "skip.repeat=true"),
)


@pytest.mark.parametrize(
    ("strategy", "rule"),
    [("plain", "movement"), ("fast", "movement"), ("slipstream", "published"), ("plain", "freeze")],
)
def test_a_run_that_is_stopped_inside_a_snapshot_ends_as_if_it_had_not_been(
    tmp_path, monkeypatch, strategy, rule
):
    monkeypatch.setattr(snapshots, "SLICE", 128)  # a pass takes about 25 steps
    data = skewed(2000, labels=(np.random.default_rng(5).random(2000) < 0.2).astype(int))
    keys = config(*SHORT, f"skip.rule={rule}", strategy=strategy)
    whole = train(data, keys, tmp_path / "whole")
    inside, load = [], Snapshot.load_state_dict
    spy = lambda self, state: (inside.append("pass" in state), load(self, state))  # noqa: E731
    monkeypatch.setattr(Snapshot, "load_state_dict", spy)
    asked, resume = [17, 9, 23, 30], False
    for stop in asked:
        with pytest.raises(StoppedError):
            train(data, keys, tmp_path / "r", hooks=stop_after(stop), resume=resume)
        resume = True
    again = train(data, keys, tmp_path / "r", resume=True)
    assert again["weights_digest"] == whole["weights_digest"]
    assert json.dumps(again["skipping"]["decisions"]) == json.dumps(whole["skipping"]["decisions"])
    assert len(lines(tmp_path / "whole", "skipping")) > 1
    assert any(inside), "some stop was inside a pass"


def test_where_rows_live_does_not_change_a_snapshot_that_takes_many_steps(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "SLICE", 128)
    data = skewed(1500)
    keys = ("skip.rule=movement", "skip.lag=30", "order.kind=as-is", "placement.window=4")
    made = [
        train(data, config(*SHORT, *keys, strategy=name), tmp_path / name)
        for name in ("plain", "fast", "bagpipe")
    ]
    assert len({one["weights_digest"] for one in made}) == 1
    assert made[0]["inputs_skipped"] > 0
    assert len({json.dumps(one["skipping"]["decisions"]) for one in made}) == 1
