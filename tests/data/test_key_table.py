"""Keys of text: the same for the same text, whatever lies beside it and however long it is."""

from __future__ import annotations

import time

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from slipstream.data.key_table import _LONG, keys_of_text

lengths = st.integers(0, 40) | st.sampled_from(
    [_LONG - 1, _LONG, _LONG + 1, 2 * _LONG, 2 * _LONG + 7, 200 * _LONG + 1]
)
texts = st.builds(
    lambda letter, n, end: letter * n + end, st.sampled_from("aé"), lengths, st.text()
)


@given(values=st.lists(texts, max_size=6))
def test_keys_are_equal_exactly_where_texts_are(values):
    keys = keys_of_text(values)
    alone = [int(keys_of_text([value])[0]) for value in values]
    assert keys.tolist() == alone
    assert len(set(alone)) == len(set(values))


def test_short_keys_are_those_of_every_version():
    assert keys_of_text(["", "mill", "a longer text than a word"]).tolist() == [
        16294208416658607535,
        1596410784542428120,
        9646943325073563891,
    ]


def test_a_long_text_is_not_its_pieces_keys_as_text():
    long = "x" * (8 * _LONG)
    pieces = keys_of_text(["x" * _LONG] * 8)
    from slipstream.data.key_table import text_keys

    as_text = text_keys(pieces.astype("<u8").tobytes(), np.array([64]))
    assert as_text[0] != keys_of_text([long])[0]


def test_one_long_text_takes_no_longer_than_many_short_ones():
    begun = time.perf_counter()
    keys_of_text(["x" * 20_000_000])
    assert time.perf_counter() - begun < 20  # word after word it takes minutes
