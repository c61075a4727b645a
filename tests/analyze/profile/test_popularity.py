import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.analyze.profile import pooled, top_share
from slipstream.pipeline.place.accesses import Popularity

counts = st.lists(st.integers(0, 9) | st.integers(0, 200_000), min_size=1, max_size=12)
table_groups = st.lists(st.tuples(counts, st.sampled_from([4, 12, 68])), min_size=1, max_size=3)


def _popularity(groups):
    return Popularity([np.array(counts) for counts, _ in groups], [size for _, size in groups])


def _one_by_one(groups):
    """Every row, best first, as (accesses, bytes); found without blocks."""
    rows = [(n, size, at) for at, (counts, size) in enumerate(groups) for n in counts]
    return [(n, size) for n, size, _ in sorted(rows, key=lambda row: (-row[0] / row[1], row[2]))]


@given(table_groups, st.integers(0, 1000))
def test_coverage_is_that_of_the_rows_put_in_one_by_one(groups, budget):
    accesses = left = 0
    for n, size in _one_by_one(groups):
        left += size
        if left > budget:
            break
        accesses += n
    total = sum(sum(counts) for counts, _ in groups)
    assert _popularity(groups).coverage(budget) == pytest.approx(accesses / total if total else 0)


@given(table_groups, st.floats(0, 1))
def test_no_fewer_bytes_cover_a_share(groups, share):
    rows = _popularity(groups)
    bytes_ = rows.bytes_for(share)
    assert bytes_ <= rows.bytes
    if rows.total:
        assert rows.coverage(bytes_) >= share - 1e-6
    if bytes_:
        assert rows.coverage(bytes_ - 1) < share + 1e-9


@given(table_groups, st.integers(0, 1000))
def test_the_hot_rows_fit_and_take_what_the_curve_says(groups, budget):
    rows = _popularity(groups)
    hot = rows.hot(budget)
    assert sum(mask.sum() * size for mask, size in zip(hot, rows.sizes, strict=True)) <= budget
    accesses = sum(int(counts[mask].sum()) for counts, mask in zip(rows.accesses, hot, strict=True))
    assert accesses == pytest.approx(rows.coverage(budget) * rows.total)


@given(table_groups, st.integers(0, 1000), st.integers(0, 1000))
def test_more_memory_never_covers_less(groups, budget, more):
    rows = _popularity(groups)
    assert rows.coverage(budget) <= rows.coverage(budget + more)


@given(counts)
def test_more_rows_never_take_less(counts):
    ordered = np.sort(np.array(counts))[::-1]
    shares = [top_share(ordered, share) for share in np.linspace(0.01, 1, 30)]
    assert np.all(np.diff(shares) >= 0)
    assert shares[-1] == (1 if ordered.sum() else 0)


def test_rows_left_out_are_in_no_hot_set():
    rows = Popularity([np.array([5, -1, 3])], [4])
    assert rows.hot(1000)[0].tolist() == [True, False, True]
    assert rows.total == 8


def test_the_share_of_the_top_rows_is_their_part_of_all_accesses():
    counts = np.array([50, 30, 10, 10])
    assert top_share(counts, 0.5) == 0.8
    assert top_share(counts, 0.001) == 0.5
    assert top_share(counts, 1) == 1
    assert top_share(np.zeros(3, dtype=int), 0.5) == 0


def test_pooled_counts_are_those_of_all_tables_most_accessed_first():
    assert pooled([np.array([5, 1]), np.array([9, 2])]).tolist() == [9, 5, 2, 1]
