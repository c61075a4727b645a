"""A budget is shared out as it should: what is kept, room for what comes, never more bytes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.errors import ConfigError
from slipstream.pipeline.place.accesses import Popularity
from slipstream.pipeline.place.budget import divide_budget, lookups_beside, rows_beside
from slipstream.tables.optimizers import Adam, Sgd
from slipstream.tables.sizes import budget_bytes, row_bytes
from slipstream.tables.spec import Feature, Layout, TableSpec

LAYOUT = Layout(
    (TableSpec("a", 1000, 8, Sgd()), TableSpec("b", 50, 8, Sgd()), TableSpec("a/linear", 1000, 1)),
    (Feature("a", "a"), Feature("b", "b"), Feature("a", "a/linear")),
)


def counts(name):
    rows = LAYOUT.table(name).rows
    return (1e5 / np.arange(1, rows + 1)).astype(np.int64)


def shared_out(budget, keep=True, batch_size=64, window=2):
    inputs = int(counts("a").sum())
    options = {"keep": keep, "batch_size": batch_size, "window": window}
    return divide_budget(LAYOUT, counts, inputs, budget, **options)


@given(st.integers(0, 60_000), st.booleans())
def test_what_is_given_out_never_exceeds_the_budget_but_for_a_slot_each(budget, keep):
    tier_sizes = shared_out(budget, keep)
    sizes = row_bytes(LAYOUT)
    used_bytes = sum(
        tier_size.slots * size for tier_size, size in zip(tier_sizes, sizes, strict=True)
    )
    assert used_bytes <= max(budget, 0) + sum(sizes)
    for tier_size, group in zip(tier_sizes, LAYOUT.groups, strict=True):
        assert 1 <= tier_size.slots <= group.rows
        assert len(tier_size.keep) <= tier_size.slots


def test_the_rows_with_the_most_accesses_a_byte_stay():
    wide, narrow = shared_out(20_000)
    assert 0 < len(wide.keep) < len(narrow.keep), "a narrow row costs less"
    assert set(range(10)) <= set(wide.keep.tolist())
    assert narrow.keep.tolist() == list(range(len(narrow.keep)))


def test_beside_what_stays_there_is_room_for_more_than_a_window_needs():
    random = np.random.default_rng(0)
    wide, _ = shared_out(20_000)
    kept_rows = set(wide.keep.tolist())
    chance = {name: counts(name) / counts(name).sum() for name in ("a", "b")}
    for _ in range(200):
        rows = set(random.choice(1000, 128, p=chance["a"]).tolist())
        rows |= {1000 + row for row in random.choice(50, 128, p=chance["b"]).tolist()}
        assert len(rows - kept_rows) <= wide.slots - len(wide.keep)


def test_as_many_rows_that_do_not_stay_are_expected_as_come_on_average():
    random, inputs = np.random.default_rng(0), int(counts("a").sum())
    tier_sizes = shared_out(20_000)
    expected, _ = rows_beside(Popularity.of(LAYOUT, counts), tier_sizes, inputs, 128)
    kept_rows, beside = set(tier_sizes[0].keep.tolist()), []
    share = {name: counts(name) / counts("a").sum() for name in ("a", "b")}
    for _ in range(400):
        rows = set(random.choice(1000, 128, p=share["a"]).tolist())
        rows |= {
            1000 + row for row in np.flatnonzero(random.random(50) < 1 - (1 - share["b"]) ** 128)
        }
        beside.append(len(rows - kept_rows))
    assert expected == pytest.approx(np.mean(beside), abs=4 * np.std(beside) / 20)
    all_of_it = shared_out(budget_bytes("100%", LAYOUT))
    assert rows_beside(Popularity.of(LAYOUT, counts), all_of_it, inputs, 128) == [0, 0]


def test_lookups_of_rows_that_do_not_stay_are_expected_as_often_as_they_are_counted():
    popularity, inputs = Popularity.of(LAYOUT, counts), int(counts("a").sum())
    tier_sizes = shared_out(20_000)
    lookups = lookups_beside(popularity, tier_sizes, inputs, 128)
    for tier_size, accesses, expected in zip(tier_sizes, popularity.accesses, lookups, strict=True):
        others = np.delete(accesses, tier_size.keep)
        assert expected == pytest.approx(others.sum() / inputs * 128)
    assert lookups[0] > rows_beside(popularity, tier_sizes, inputs, 128)[0], "some rows come twice"
    nothing = shared_out(20_000, keep=False)
    assert lookups_beside(popularity, nothing, inputs, inputs)[0] == popularity.accesses[0].sum()


def test_everything_fits_in_a_budget_of_everything():
    whole = budget_bytes("100%", LAYOUT)
    assert [len(tier_size.keep) for tier_size in shared_out(whole)] == [1050, 1000]
    assert [tier_size.slots for tier_size in shared_out(10 * whole, keep=False)] == [1050, 1000]


def test_a_budget_is_a_size_or_a_share_optimizer_state_counted():
    layout = Layout((TableSpec("a", 1000, 8, Adam()),), (Feature("a", "a"),))
    assert budget_bytes("50%", layout) == 500 * 8 * 3 * 4
    for text, size in (("4k", 4096), ("1.5 MiB", 3 << 19), ("2GB", 2 << 30), ("77", 77)):
        assert budget_bytes(text, layout) == size
    with pytest.raises(ConfigError, match="such as 256MiB"):
        budget_bytes("many", layout)
