import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slipstream.data.ranking import rank

counts = st.lists(st.integers(0, 6), max_size=30).map(lambda values: np.array(values, dtype=int))


@given(counts=counts, min_count=st.integers(0, 4))
def test_ranks_are_ranks(counts, min_count):
    ranking = rank(counts, min_count=min_count)
    assert np.all(np.diff(ranking.counts) <= 0)
    keep = counts >= min_count
    assert np.all(ranking.ids[~keep] == ranking.unseen)
    assert sorted([*ranking.ids[keep], ranking.unseen]) == list(range(keep.sum() + 1))
    again = np.zeros(len(ranking.counts), dtype=int)
    np.add.at(again, ranking.ids, counts)
    np.testing.assert_array_equal(again, ranking.counts)
    for value in np.flatnonzero(keep):
        assert ranking.values[ranking.ids[value]] == value
    assert ranking.values[ranking.unseen] == -1


@given(counts=counts, seed=st.integers(0, 9))
def test_equal_counts_are_ordered_by_their_tie_keys(counts, seed):
    keys = np.random.default_rng(seed).permutation(len(counts))
    ranking = rank(counts, min_count=0, ties=lambda values: keys[values])
    values = ranking.values[ranking.values >= 0]
    ordered = sorted(range(len(counts)), key=lambda value: (-counts[value], keys[value]))
    assert values.tolist() == ordered


def test_counts_beyond_32_bits_are_ranked():
    huge = np.array([1, 2**40, 2**40 + 1])
    assert rank(huge, min_count=0, ties=lambda v: v).ids.tolist() == [2, 1, 0]


def test_the_unseen_id_stands_where_its_count_puts_it():
    ranking = rank(np.array([1, 1, 1, 2]))
    assert ranking.unseen == 0
    assert ranking.counts.tolist() == [3, 2]
