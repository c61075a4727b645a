"""Snapshots: how far each row has moved since the one before."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_runs import config, lines, skewed, skip_rule, stop_after

from slipstream.skip.snapshot import Snapshot
from slipstream.tables.spec import Layout, TableSpec
from slipstream.tables.tables import Embeddings
from slipstream.training.loop import StoppedError, train

ROWS, DIM = 40, 3


def snapshot_of(tables, rows):
    """A snapshot of rows of both tables, which lie behind each other in one group."""
    rows = np.asarray(rows)
    places = [(0, np.flatnonzero(rows // ROWS == k), rows[rows // ROWS == k]) for k in range(2)]
    some = [place for place in places if len(place[1])]
    return Snapshot(SimpleNamespace(tables=tables, places=lambda _: some), rows)


writes = st.lists(st.integers(0, 2 * ROWS - 1), max_size=12)


@given(rows=st.sets(st.integers(0, 2 * ROWS - 1), min_size=1), first=writes, second=writes)
def test_it_has_the_largest_change_of_each_row_and_continues_from_its_state(rows, first, second):
    tables, rows = (
        Embeddings(Layout((TableSpec("a", ROWS, DIM), TableSpec("b", ROWS, DIM)), ()), seed=1),
        sorted(rows),
    )
    snapshot, weights = snapshot_of(tables, rows), tables.stores[0].views["weight"]
    snapshot.take()
    before = weights[rows].copy()
    weights[first] += 2
    copied = weights[rows].copy()
    moved, spread = snapshot.take()
    assert np.array_equal(moved, np.abs(copied - before).max(axis=1))
    table = np.asarray(rows) // ROWS
    assert np.allclose(spread, [np.sqrt(np.square(before[table == k]).mean()) for k in table])
    other = snapshot_of(tables, rows)
    other.load_state_dict({name: array.copy() for name, array in snapshot.state_dict().items()})
    weights[second, 1] -= 0.5
    moved, spread = snapshot.take()
    assert np.array_equal(moved, np.abs(weights[rows] - copied).max(axis=1))
    for array, same in zip(other.take(), (moved, spread), strict=True):
        assert np.array_equal(array, same)


SHORT = ("skip.warmup=0.1", "skip.interval=0.2", "placement.fast_memory=60%", "compile=off")


@pytest.mark.parametrize(
    ("strategy", "rule"),
    [("fast", "movement"), ("slipstream", "published"), ("plain", "freeze")],
)
def test_a_run_that_is_stopped_between_snapshots_ends_as_if_it_had_not_been(
    tmp_path, strategy, rule
):
    data = skewed(2000, labels=(np.random.default_rng(5).random(2000) < 0.2).astype(int))
    options = {"warmup_batches": 3, "repeat": "true"} if rule == "published" else {}
    keys = config(*SHORT, *skip_rule(rule, **options), strategy=strategy)
    whole = train(data, keys, tmp_path / "whole")
    for number, stop in enumerate((17, 9, 23, 30)):
        with pytest.raises(StoppedError):
            train(data, keys, tmp_path / "r", hooks=stop_after(stop), resume=number > 0)
    again = train(data, keys, tmp_path / "r", resume=True)
    assert again["weights_digest"] == whole["weights_digest"]
    assert again["skipping"]["decisions"] == whole["skipping"]["decisions"]
    assert len(lines(tmp_path / "whole", "skipping")) > 1


def test_where_rows_live_does_not_change_a_snapshot(tmp_path):
    data = skewed(1500)
    keys = (*skip_rule("movement"), "skip.lag=30", "order.kind=as-is", "placement.window=4")
    summaries = [
        train(data, config(*SHORT, *keys, strategy=name), tmp_path / name)
        for name in ("plain", "fast", "bagpipe")
    ]
    assert len({summary["weights_digest"] for summary in summaries}) == 1
    assert summaries[0]["inputs_skipped"] > 0
    decisions = [summary["skipping"]["decisions"] for summary in summaries]
    assert decisions[0] == decisions[1] == decisions[2]
