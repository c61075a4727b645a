import hashlib

import numpy as np
import pytest

from slipstream.data.synthetic.draws import PowerLaw, distinct_words32, key, random_words

DRAWS = 400_000


@pytest.mark.parametrize(("rows", "exponent"), [(1, 1.0), (3, 0.8), (5000, 1.0), (10**7, 1.1)])
def test_rows_are_drawn_in_proportion_to_the_power_law(rows, exponent):
    law = PowerLaw.over(rows, exponent)
    draws = law.draw(random_words(key(17), np.arange(DRAWS)))
    assert draws.min() >= 0
    assert draws.max() < rows
    edges = np.unique(np.geomspace(1, rows + 1, 25).astype(np.int64)) - 1
    weights = (np.arange(rows) + 1.0) ** -exponent
    expected = np.add.reduceat(weights, edges[:-1]) / weights.sum() * DRAWS
    actual = np.histogram(draws, bins=edges)[0] if len(edges) > 1 else np.array([DRAWS])
    assert np.all(np.abs(actual - expected) < 5 * np.sqrt(expected) + 2)


def test_random_words_are_even_in_every_bit():
    bits = random_words(key(3), np.arange(100_000))
    for bit in range(64):
        share = np.mean((bits >> np.uint64(bit)) & np.uint64(1))
        assert abs(share - 0.5) < 0.01


def test_scrambled_numbers_are_distinct():
    numbers = np.arange(200_000)
    assert len(np.unique(distinct_words32(numbers, key(1)))) == 200_000


def test_the_tables_of_a_law_are_those_of_every_machine():
    law = PowerLaw.over(10_131_227, 1.1)
    tables = np.stack([law.starts, law.widths]).astype("<f8")
    assert hashlib.sha256(tables.tobytes()).hexdigest()[:16] == "e435821e328e3710"
