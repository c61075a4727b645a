import numpy as np

from slipstream.analyze.profile import access_curve, pooled, top_share


def test_the_share_of_the_top_rows_is_their_part_of_all_accesses():
    counts = np.array([50, 30, 10, 10])
    assert top_share(counts, 0.5) == 0.8
    assert top_share(counts, 0.001) == 0.5
    assert top_share(counts, 1) == 1
    assert top_share(np.zeros(3, dtype=int), 0.5) == 0


def test_pooled_counts_are_those_of_all_tables_most_accessed_first():
    assert pooled([np.array([5, 1]), np.array([9, 2])]).tolist() == [9, 5, 2, 1]


def test_an_access_curve_rises_to_one():
    rows, accesses = access_curve(np.sort(np.random.default_rng(0).zipf(1.5, 1000))[::-1])
    assert np.all(np.diff(rows) > 0)
    assert np.all(np.diff(accesses) >= 0)
    assert rows[-1] == accesses[-1] == 1
