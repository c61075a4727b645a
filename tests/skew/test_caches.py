from collections import OrderedDict
from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slipstream.skew.caches import best_misses, lru_distances

traces = st.lists(st.integers(0, 5), max_size=9)


def _lru(trace, slots):
    cache, hits = OrderedDict(), []
    for row in trace:
        hits.append(row in cache)
        cache[row] = True
        cache.move_to_end(row)
        if len(cache) > slots:
            cache.popitem(last=False)
    return hits


def _fewest(trace, slots):
    """Every choice tried: what is in it at the start, and what goes at each miss."""
    rows = sorted(set(trace))
    states = {frozenset(s): 0 for n in range(slots + 1) for s in combinations(rows, n)}
    for row in trace:
        after = {}
        for held, misses in states.items():
            if row in held:
                choices = [(held, misses)]
            elif len(held) < slots:
                choices = [(held | {row}, misses + 1)]
            else:
                choices = [((held - {old}) | {row}, misses + 1) for old in held]
            for state, cost in choices:
                after[state] = min(cost, after.get(state, cost))
        states = after
    return min(states.values())


@given(st.lists(st.integers(-3, 30), max_size=80), st.integers(1, 12))
def test_one_pass_gives_the_hits_of_a_cache_of_any_size(trace, slots):
    distances = lru_distances(np.array(trace, dtype=np.int64))
    assert ((distances >= 0) & (distances < slots)).tolist() == _lru(trace, slots)


@given(traces, st.integers(1, 4))
def test_no_choice_of_rows_misses_less_than_the_best(trace, slots):
    assert best_misses(np.array(trace, dtype=np.int64), slots) == _fewest(trace, slots)


@given(st.lists(st.integers(0, 30), max_size=100))
def test_more_slots_never_miss_more(trace):
    misses = [best_misses(np.array(trace, dtype=np.int64), slots) for slots in range(8)]
    assert misses[0] == len(trace)
    assert misses == sorted(misses, reverse=True)
