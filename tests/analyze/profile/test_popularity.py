import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.analyze.profile import top_share
from slipstream.pipeline.place.accesses import Popularity

counts = st.lists(st.integers(0, 9) | st.integers(0, 200_000), min_size=1, max_size=12)
groups = st.lists(st.tuples(counts, st.sampled_from([4, 12, 68])), min_size=1, max_size=3)


def _popularity(draws):
    return Popularity([np.array(item) for item, _ in draws], [size for _, size in draws])


def _one_by_one(draws):
    """Every row, best first, as (accesses, bytes); found without blocks."""
    rows = [(n, size, at) for at, (item, size) in enumerate(draws) for n in item]
    return [(n, size) for n, size, _ in sorted(rows, key=lambda row: (-row[0] / row[1], row[2]))]


@given(groups, st.integers(0, 1000))
def test_coverage_is_that_of_the_rows_put_in_one_by_one(draws, budget):
    covered = left = 0
    for n, size in _one_by_one(draws):
        left += size
        if left > budget:
            break
        covered += n
    total = sum(sum(item) for item, _ in draws)
    assert _popularity(draws).coverage(budget) == pytest.approx(covered / total if total else 0)


@given(groups, st.floats(0, 1))
def test_no_fewer_bytes_cover_a_share(draws, share):
    rows = _popularity(draws)
    bytes_ = rows.bytes_for(share)
    assert bytes_ <= rows.bytes
    if rows.total:
        assert rows.coverage(bytes_) >= share - 1e-6
    if bytes_:
        assert rows.coverage(bytes_ - 1) < share + 1e-9


@given(groups, st.integers(0, 1000))
def test_the_hot_rows_fit_and_take_what_the_curve_says(draws, budget):
    rows = _popularity(draws)
    hot = rows.hot(budget)
    assert sum(mask.sum() * size for mask, size in zip(hot, rows.sizes, strict=True)) <= budget
    covered = sum(int(item[mask].sum()) for item, mask in zip(rows.accesses, hot, strict=True))
    assert covered == pytest.approx(rows.coverage(budget) * rows.total)


@given(groups)
def test_more_memory_never_covers_less(draws):
    bytes_, shares = _popularity(draws).points(50)
    assert np.all(np.diff(bytes_) > 0)
    assert np.all(np.diff(shares) >= 0)


@given(counts)
def test_more_rows_never_take_less(draws):
    ordered = np.sort(np.array(draws))[::-1]
    shares = [top_share(ordered, share) for share in np.linspace(0.01, 1, 30)]
    assert np.all(np.diff(shares) >= 0)
    assert shares[-1] == (1 if ordered.sum() else 0)


def test_rows_left_out_are_in_no_hot_set():
    rows = Popularity([np.array([5, -1, 3])], [4])
    assert rows.hot(1000)[0].tolist() == [True, False, True]
    assert rows.total == 8
