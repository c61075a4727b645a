"""Quotes in text files: where they belong, and where they stray."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from unittest.mock import PropertyMock, patch

import pytest
from raw_logs import WHOLE, decoded, prepare_table

from slipstream import DataError
from slipstream.data.prepare import lines, records, streams
from slipstream.data.prepare.resource_limits import Memory

SCHEMA = {"label": "click", "categorical": ["shop"]}
KEPT_ROWS = {"bad_rows": "skip", "min_count": 1, **WHOLE}


def read(folder: Path, text: str, block: int = 1 << 20) -> tuple[list[str], list[int]]:
    """The shops of the rows that were kept, and the lines that were set aside."""
    (folder / "log.csv").write_bytes(b"click,shop\n" + text.encode())
    with patch.object(Memory, "block", new_callable=PropertyMock, return_value=block):
        result = prepare_table(folder, [folder / "log.csv"], SCHEMA, **KEPT_ROWS)
    listed = folder / "out" / "bad_rows.tsv"
    skipped_rows = listed.read_text().splitlines()[1:] if listed.exists() else []
    return decoded(result)["shop"], [int(line.split("\t")[1]) for line in skipped_rows]


@pytest.mark.parametrize("block", [32, 1000, 1 << 20])
def test_a_quote_in_the_middle_of_a_field_is_a_letter_like_any_other(tmp_path, block):
    lines = ['1,5" pipe', *["1,good"] * 500, '0,6"', *["0,fine"] * 50]
    shops, skipped_rows = read(tmp_path, "\n".join(lines) + "\n", block)
    assert shops == [line[2:] for line in lines]
    assert skipped_rows == []


@pytest.mark.parametrize("block", [32, 1000, 1 << 20])
@pytest.mark.parametrize("second", ['0,"fine" or not', '0,"6 inch', '0,"x"', "0,x"])
def test_a_quote_that_is_never_closed_costs_its_own_line_only(tmp_path, block, second):
    lines = ['1,"5 inch', *["1,good"] * 500, second, *["0,fine"] * 50]
    shops, skipped_rows = read(tmp_path, "\n".join(lines) + "\n", block)
    bad = [0, 501] if second.startswith('0,"') and second != '0,"x"' else [0]
    assert skipped_rows == [place + 2 for place in bad]
    keep = [line[2:].strip('"') for place, line in enumerate(lines) if place not in bad]
    assert shops == keep


def test_a_quote_that_is_never_closed_is_an_error_with_its_line(tmp_path):
    (tmp_path / "log.csv").write_text('click,shop\n1,mill\n1,"open\n0,mill\n')
    with pytest.raises(DataError, match="line 3: its double quotes do not enclose whole fields"):
        prepare_table(tmp_path, [tmp_path / "log.csv"], SCHEMA)


@pytest.mark.parametrize("block", [100, 5000])
def test_how_far_a_row_may_reach_does_not_depend_on_the_block(tmp_path, monkeypatch, block):
    monkeypatch.setattr(records, "LONGEST", 300)
    monkeypatch.setattr(streams, "LONGEST", 300)
    short, long = '1,"' + "x\n" * 100 + 'end"\n', '1,"' + "x\n" * 200 + 'end"\n'
    shops, skipped_rows = read(tmp_path, "1,a\n" + short + "1,b\n" + long + "1,c\n", block)
    assert shops == ["a", "x\n" * 100 + "end", "b", "c"]
    assert skipped_rows == list(range(105, 306))


def test_line_ends_inside_quotes_stay_as_they_are(tmp_path):
    values = ["a\r\nb", "a\nb", "\r\n", 'q"\r\n"', "plain"]
    for ending in ("\n", "\r\n"):
        text = io.StringIO()
        csv.writer(text, lineterminator=ending).writerows(["1", value] for value in values)
        assert read(tmp_path, text.getvalue()) == (values, [])


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("block", [200, 1 << 20])
def test_rows_whose_quotes_stand_right_are_read_all_at_once(tmp_path, monkeypatch, ending, block):
    values = ["a,b", "", 'a "word"', "two\nlines", '"', "plain", "\r", "é"] * 20
    text = io.StringIO()
    csv.writer(text, lineterminator=ending, quoting=csv.QUOTE_ALL).writerows(
        ["1", value] for value in values
    )
    monkeypatch.setattr(lines, "_one_by_one", None)
    shops, skipped_rows = read(tmp_path, text.getvalue(), block)
    assert shops == [value or "(missing)" for value in values]
    assert skipped_rows == []


@pytest.mark.parametrize("block", [16, 1 << 20])
def test_a_mark_of_byte_order_is_no_letter_before_a_quote(tmp_path, block):
    schema = {"categorical": ["a", "b"], "names": ["a", "b"]}
    (tmp_path / "log.csv").write_bytes(b'\xef\xbb\xbf"x\ny",1\n"z",2\n' + b"w,3\n" * 20)
    with patch.object(Memory, "block", new_callable=PropertyMock, return_value=block):
        result = prepare_table(tmp_path, [tmp_path / "log.csv"], schema, **KEPT_ROWS)
    assert decoded(result)["a"] == ["x\ny", "z", *["w"] * 20]


@pytest.mark.parametrize("value", ["\ufeffword", "word\r", "\rword"])
def test_letters_that_parsers_take_for_marks_stay_in_their_values(tmp_path, value):
    lines = [f"1,{value}\r\n"] * 3 + [f"{value},1\r\n"] * 3
    (tmp_path / "log.csv").write_bytes("".join(["a,b\n", *lines]).encode())
    with patch.object(Memory, "block", new_callable=PropertyMock, return_value=16):
        result = prepare_table(
            tmp_path, [tmp_path / "log.csv"], {"categorical": ["a", "b"]}, min_count=1, **WHOLE
        )
    assert decoded(result) == {"a": ["1"] * 3 + [value] * 3, "b": [value] * 3 + ["1"] * 3}


def test_many_stray_quotes_take_no_longer_than_their_lines(tmp_path):
    """Each row runs on into the next one: every line would be looked at once for each line."""
    line = b'a",b,"c\n'
    actual = list(records.records(line * 30_000, b",", 3))
    assert len(actual) == 30_000
    assert all(record.fields is None for record in actual)
