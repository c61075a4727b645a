"""Ranks, buckets, hashes and dictionaries of prepared tables, against the plain rules."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from raw_logs import WHOLE, decoded, prepare_table

from slipstream import DataError, Dataset, verify
from slipstream.data.key_table import KeyTable
from slipstream.data.prepare.count import KeyCounts, run_of
from slipstream.data.prepare.rank import rank_table
from slipstream.data.prepare.vocabulary import Vocabulary
from slipstream.data.ranking import rank


@given(
    pieces=st.lists(st.lists(st.integers(-9, 9) | st.integers(-(2**63), 2**63 - 1)), max_size=12),
    limit=st.sampled_from([2, 20, 1000]),
)
def test_counting_with_spills_counts_every_key(pieces, limit):
    with tempfile.TemporaryDirectory() as folder:
        counts = KeyCounts(Path(folder), np.dtype("<i8"), limit)
        counts.add(run_of(np.array(piece, dtype=np.int64)) for piece in pieces)
        keys, times = counts.finish()
        expected = Counter(key for piece in pieces for key in piece)
        assert dict(zip(keys.tolist(), times.tolist(), strict=True)) == expected
        assert keys.tolist() == sorted(expected)


@given(counts=st.lists(st.integers(0, 6), max_size=60), least=st.integers(1, 3))
def test_ranking_on_disk_is_ranking_in_memory(counts, least):
    plain = rank(np.array(counts, dtype=np.int64), min_count=least)
    keep = [number for number, count in enumerate(counts) if count >= least]
    keys = np.array(keep, dtype=np.int64)
    with tempfile.TemporaryDirectory() as folder:
        rest = sum(count for count in counts if count < least)
        of_kept = Vocabulary(keys, np.array([counts[k] for k in keep], dtype=np.int64))
        result = rank_table(Path(folder), of_kept, rest, None, None, limit=7)
        ids = np.fromfile(Path(folder) / "ids", dtype=np.int64)
        np.testing.assert_array_equal(ids, plain.ids[keys])
        id_counts = np.fromfile(Path(folder) / "id_counts", dtype=np.int64)
        np.testing.assert_array_equal(id_counts, plain.counts)
        assert (result.unseen, result.rows) == (plain.unseen, len(plain.counts))


@given(
    keys=st.sets(st.integers(0, 2**64 - 1) | st.integers(0, 40), max_size=200),
    requests=st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 60)),
    shared=st.sampled_from([1, 3, 1000]),
)
def test_a_key_table_finds_what_was_added_and_nothing_else(keys, requests, shared):
    added = np.array(sorted(keys), dtype=np.uint64)
    ids = np.arange(len(added))[::-1] // shared
    requests = np.array(requests + sorted(keys), dtype=np.uint64)
    known = dict(zip(added.tolist(), ids.tolist(), strict=True))
    for narrow in (False, True):
        if narrow and len(added) and int(added.max()) >= 2**32:
            continue
        table = KeyTable(len(added), narrow=narrow)
        table.add(added, ids)
        expected = [known.get(key, -7) for key in requests.tolist()]
        assert table.find(requests, -7).tolist() == expected


def log_of(folder: Path, values: list[str], name: str = "log.csv") -> Path:
    file = folder / name
    file.write_text("click,word\n" + "".join(f"1,{value}\n" for value in values))
    return file


SCHEMA = {"label": "click", "categorical": ["word"]}


def powerlaw(count: int, seed: int = 0) -> list[str]:
    return [f"w{value}" for value in np.random.default_rng(seed).zipf(1.3, count) % 10_000]


def test_a_cap_sends_the_tail_to_buckets_and_ids_are_ranks_all_the_same(tmp_path):
    values = powerlaw(5000)
    result = prepare_table(tmp_path, [log_of(tmp_path, values)], SCHEMA, max_rows=64, **WHOLE)
    (table,) = result.schema.tables
    assert (table.rows, table.buckets) == (64, 8)
    assert verify(tmp_path / "out") == []
    counts = Counter(values)
    popular = [v for v, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    own = popular[: 64 - 8 - 1]
    rare = {value for value in values if counts[value] < 2}
    for value, shown in zip(values, decoded(result)["word"], strict=True):
        expected = value if value in own else "(unseen)" if value in rare else "(shared)"
        assert shown == expected
    again = result.encoder("word").encode([*values, "new", None])
    assert again.tolist() == [
        *result.train.shards[0].ids[:, 0].tolist(),
        table.unseen,
        table.unseen,
    ]


@pytest.mark.parametrize("kind", ["text", "int"])
def test_hashing_needs_no_dictionary_and_is_the_same_later(tmp_path, kind):
    values = [value[1:] for value in powerlaw(3000)]
    schema = {"label": "click", "categorical": [{"name": "word", "values": kind}]}
    result = prepare_table(tmp_path, [log_of(tmp_path, values)], schema, hash=50, **WHOLE)
    (table,) = result.schema.tables
    assert result.dictionary("word") is None
    assert table.rows <= 52
    assert verify(tmp_path / "out") == []
    ids = result.train.shards[0].ids[:, 0].tolist()
    assert len(set(zip(values, ids, strict=True))) == len(set(values))
    assert result.encoder("word").encode(values).tolist() == ids
    saved = result.save(tmp_path / "saved")
    assert saved.encoder("word").encode(values).tolist() == ids


def test_missing_is_a_value_like_any_other(tmp_path):
    values = ["a"] * 3 + [""] * 5 + ["b"] * 2 + ["once"]
    result = prepare_table(tmp_path, [log_of(tmp_path, values)], SCHEMA, **WHOLE)
    (table,) = result.schema.tables
    assert (table.missing, table.unseen) == (0, 3)
    assert result.counts("word").tolist() == [5, 3, 2, 1]
    rare = prepare_table(tmp_path, [log_of(tmp_path, ["a", "a", ""])], SCHEMA, **WHOLE)
    assert rare.schema.tables[0].missing is None
    assert rare.train.shards[0].ids[:, 0].tolist() == [0, 0, 1]


@pytest.mark.parametrize("options", [{}, {"max_rows": 40}])
@pytest.mark.parametrize("kind", ["text", "int"])
def test_a_later_log_is_encoded_the_same_way_and_extended_without_moving_ids(
    tmp_path, options, kind
):
    first, second = ([v[1:] for v in powerlaw(2000, seed)] for seed in (1, 2))
    second += ["", "", "990001", "990001", "990002", "990001", "990002", "990003"]
    schema = {"label": "click", "categorical": [{"name": "word", "values": kind}]}
    base = prepare_table(tmp_path, [log_of(tmp_path, first)], schema, **options, **WHOLE)
    base.save(tmp_path / "base")
    base = Dataset.open(tmp_path / "base")
    encoder = base.encoder("word")
    later = log_of(tmp_path, second, "later.csv")
    expected = encoder.encode([value or None for value in second]).tolist()

    same = prepare_table(tmp_path, [later], schema, dictionary=tmp_path / "base", **WHOLE)
    assert verify(tmp_path / "out") == []
    assert same.train.shards[0].ids[:, 0].tolist() == expected
    assert same.schema.table("word").rows == base.schema.table("word").rows

    more = prepare_table(
        tmp_path, [later], schema, dictionary=tmp_path / "base", extend=True, **WHOLE
    )
    assert verify(tmp_path / "out") == []
    table, old = more.schema.table("word"), base.schema.table("word")
    ids = more.train.shards[0].ids[:, 0].tolist()
    for value, new, before in zip(second, ids, expected, strict=True):
        if before != old.unseen:
            assert new == before, value
    dictionary = more.dictionary("word")
    for row in range(old.rows):
        assert dictionary.raw(row) == base.dictionary("word").raw(row)
    assert dictionary.raw(ids[-2]) == "990002"
    assert ids[-1] == old.unseen  # seen once only
    assert table.missing is not None
    assert ids[2000] == table.missing >= old.rows
    assert more.encoder("word").encode([v or None for v in second]).tolist() == ids
    shown = decoded(more)["word"]
    assert shown[-4:-1] == ["990002", "990001", "990002"]


def test_ids_of_a_data_set_with_other_columns_are_refused(tmp_path):
    prepare_table(tmp_path, [log_of(tmp_path, ["a", "b"])], SCHEMA, **WHOLE).save(tmp_path / "base")
    file = tmp_path / "other.csv"
    file.write_text("click,user\n1,a\n")
    schema = {"label": "click", "categorical": ["user"]}
    with pytest.raises(DataError, match="differ in column 'user'"):
        prepare_table(tmp_path, [file], schema, dictionary=tmp_path / "base", **WHOLE)


def test_a_hashed_data_set_cannot_be_extended_and_says_so_before_it_reads(tmp_path):
    base = prepare_table(tmp_path, [log_of(tmp_path, powerlaw(50))], SCHEMA, hash=8, **WHOLE)
    base.save(tmp_path / "base")
    file = log_of(tmp_path, ["a", "b,too many fields"])
    with pytest.raises(DataError, match=r"'word' has no dictionary.* Leave out --extend"):
        prepare_table(tmp_path, [file], SCHEMA, dictionary=tmp_path / "base", extend=True, **WHOLE)
    file = log_of(tmp_path, ["a", "a"])
    result = prepare_table(tmp_path, [file], SCHEMA, dictionary=tmp_path / "base", **WHOLE)
    assert result.train.shards[0].ids[:, 0].tolist() == base.encoder("word").encode("aa").tolist()


def test_values_in_raw_order_break_ties_also_where_text_is_sorted_in_ranges(tmp_path, monkeypatch):
    from slipstream.data.prepare.resource_limits import Memory

    values = [f"w{value:05d}" for value in np.random.default_rng(0).permutation(3000)] * 2
    monkeypatch.setattr(Memory, "work", 40_000)  # far less than the text
    result = prepare_table(tmp_path, [log_of(tmp_path, values)], SCHEMA, **WHOLE)
    dictionary = result.dictionary("word")
    table = result.schema.table("word")
    raw = [dictionary.raw(row) for row in range(table.rows) if row != table.unseen]
    assert raw == sorted(values[:3000])
