"""Kept rows that are chosen anew on the way: plans stay whole, and batches fall in two parts."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from slipstream.data.batch import Batch
from slipstream.pipeline.place.popularity import Popular, Refresh
from slipstream.pipeline.place.tier import TierSize
from slipstream.pipeline.place.tiered import Tiered
from slipstream.tables.spec import Feature, Layout, TableSpec

ROWS = (30, 12)
LAYOUT = Layout(
    tuple(TableSpec(f"t{n}", rows, 2) for n, rows in enumerate(ROWS)),
    tuple(Feature(f"c{n}", f"t{n}") for n in range(2)),
)
SINGLES = ["c0", "c1"]


def batches(count, size, seed, drift=0):
    """Batches with skewed ids; which ids are popular moves on."""
    random = np.random.default_rng(seed)
    for number in range(count):
        ids = np.stack([(rows * random.random(size) ** 3).astype(int) for rows in ROWS], 1)
        ids = (ids + drift * number // 4) % np.array(ROWS)
        yield Batch(
            example_numbers=torch.arange(size) + number * size,
            labels=torch.zeros(size),
            weights=torch.ones(size),
            dense=torch.zeros(size, 0),
            ids=torch.from_numpy(ids.astype(np.int32)),
            n_valid=size,
            next_position=(number + 1) * size,
        )


@given(
    size=st.integers(1, 6),
    window=st.integers(1, 5),
    kept_share=st.integers(0, 12),
    every=st.integers(1, 4),
    first=st.integers(0, 5),
    decay=st.sampled_from([0.0, 0.5, 1.0]),
    split=st.booleans(),
    seed=st.integers(0, 9),
)
def test_plans_hold_whatever_is_chosen(size, window, kept_share, every, first, decay, split, seed):
    tier_size = TierSize(kept_share + 2 * size + 1, np.arange(kept_share, dtype=np.int64))
    refresh = Refresh(first, every, [kept_share], decay)
    tiered = Tiered(LAYOUT, SINGLES, [tier_size], window, refresh=refresh, split=split)
    (moves,) = tiered.resident_rows()
    row_of = dict(zip(moves.slots.tolist(), moves.rows.tolist(), strict=True))
    left_after: dict[int, int] = {}
    given_batches = list(batches(25, size, seed, drift=2))
    placed = list(tiered.place(given_batches, 1, update=True))
    assert len(placed) == 25
    for step, (plan, batch) in enumerate(zip(placed, given_batches, strict=True), start=1):
        (group,) = plan.groups
        slots = group.slots.T.tolist()
        wanted = (plan.batch.ids + torch.tensor([0, ROWS[0]])).tolist()
        if plan.parts:  # the first part has everything before anything comes
            (popular,) = plan.parts
            assert 0 < popular < size
            assert [[row_of[s] for s in some] for some in slots[:popular]] == wanted[:popular]
        assert sorted(plan.batch.example_numbers.tolist()) == batch.example_numbers.tolist()
        for row, slot in zip(group.fill.rows.tolist(), group.fill.slots.tolist(), strict=True):
            assert slot not in row_of, "a slot is free before it is filled"
            assert row not in row_of.values(), "a row has one place"
            assert left_after.get(row, 0) <= plan.after, "no read overtakes its write"
            row_of[slot] = row
        assert len(row_of) <= tier_size.slots
        assert [[row_of[slot] for slot in some] for some in slots] == wanted
        for row, slot in zip(group.evict.rows.tolist(), group.evict.slots.tolist(), strict=True):
            assert row_of.pop(slot) == row
            left_after[row] = step
    again = Tiered(LAYOUT, SINGLES, [tier_size], window, refresh=refresh, split=split)
    for plan, repeated in zip(placed, again.place(given_batches, 1, update=True), strict=True):
        assert torch.equal(plan.groups[0].slots, repeated.groups[0].slots)
        assert np.array_equal(plan.groups[0].evict.rows, repeated.groups[0].evict.rows)


def test_kept_rows_follow_what_is_popular():
    def misses(refresh):
        tier_size = TierSize(24, np.arange(8, dtype=np.int64))
        placed = Tiered(LAYOUT, SINGLES, [tier_size], 1, refresh=refresh).place(
            batches(400, 6, 0, drift=0.1), 1, update=True
        )
        return sum(len(plan.groups[0].fill.rows) for plan in placed)

    assert misses(Refresh(5, 5, [8], 0.8)) < 0.8 * misses(None)


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.9, 1.0])
def test_a_choice_is_that_of_two_memories_among_chosen_and_seen_rows(decay):
    random = np.random.default_rng(3)
    popular = Popular(50, np.arange(0), 7, decay)
    counts, batches = np.zeros((2, 50)), np.zeros((2, 1))
    decays = np.array([[decay], [decay ** (1 / 8)]])
    chosen: set[int] = set()
    for _ in range(30):
        seen = set(chosen)
        for _ in range(3):
            rows = np.unique((50 * random.random(12) ** 3).astype(int))
            popular.count(rows)
            counts[:, rows] += 1
            batches += 1
            seen |= set(rows.tolist())
        expected = counts[1] * batches[0] / batches[1]
        usual = np.abs(counts[0] - expected) <= 2 * np.sqrt(expected / 2 + 0.25)
        worth = np.where(usual, expected, counts[0])
        np.testing.assert_allclose(popular.worth(np.arange(50)), worth, rtol=1e-4, atol=1e-6)
        dropped = popular.choose()
        now = set(np.flatnonzero(popular.chosen).tolist())
        assert set(dropped.tolist()) == chosen - now
        assert len(now) == min(7, len(seen))
        left = worth[sorted(seen - now)]
        assert now <= seen
        assert worth[sorted(now)].min() >= left.max(initial=0) - 1e-3 * worth.max()
        chosen = now
        counts, batches = counts * decays, batches * decays


def test_a_row_whose_popularity_has_changed_is_judged_by_its_recent_accesses():
    popular = Popular(4, np.arange(0), 1, 0.8)
    always, dropped, new = np.array([0]), np.array([1]), np.array([2])
    for number in range(200):
        for _ in range(10):
            popular.count(always)
        for _ in range(20):
            popular.count(dropped if number < 150 else new)
        popular.choose()
    worth = popular.worth(np.arange(4))
    assert worth[2] > 1.5 * worth[0]
    assert worth[0] > 100 * worth[1]
