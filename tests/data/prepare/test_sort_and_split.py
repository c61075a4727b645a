from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from raw_logs import criteo_rows, prepare_criteo, prepare_table, write

from slipstream import DataError, verify
from slipstream.data.prepare.order import stable_order

DAY = 86_400


@given(
    values=st.lists(st.integers(-5, 5) | st.integers(-(2**62), 2**62), max_size=300),
    limit=st.sampled_from([5, 30, 1000]),
    data=st.data(),
)
def test_the_external_sort_is_numpys_stable_sort(values, limit, data):
    array = np.array(values, dtype=np.int64)
    order = None
    if data.draw(st.booleans()):
        order = np.array(data.draw(st.permutations(range(len(array)))), dtype=np.int64)
    with tempfile.TemporaryDirectory() as folder:
        result = stable_order(array, Path(folder) / "order", limit, order)
        came = np.arange(len(array)) if order is None else order
        np.testing.assert_array_equal(result, came[np.argsort(array[came], kind="stable")])


def test_a_sort_of_many_parts_opens_few_files_at_once(tmp_path):
    resource = pytest.importorskip("resource")
    values = np.random.default_rng(0).integers(0, 10**9, 1000)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, hard))
    try:
        result = stable_order(values, tmp_path / "order", 2)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    np.testing.assert_array_equal(result, np.argsort(values, kind="stable"))


def table(folder: Path, times: list[int], **options):
    file = folder / "log.csv"
    file.write_text("click,row,time\n" + "".join(f"1,{i},{t}\n" for i, t in enumerate(times)))
    schema = {
        "label": "click",
        "categorical": [{"name": "row", "values": "int"}],
        "time": "time",
        "sort": "time",
    }
    return prepare_table(folder, [file], schema, **options)


def times_of(part) -> list[int]:
    return [time for run in part.runs(0, len(part)) for time in run.times.tolist()]


def test_the_last_day_is_the_evaluation_part_and_the_one_before_it_the_validation_part(tmp_path):
    times = [DAY * day + hour * 3600 for day in range(4) for hour in (1, 5, 23)]
    shuffled = np.random.default_rng(0).permutation(times).tolist()
    result = table(tmp_path, shuffled, evaluation="day", validation="day")
    assert times_of(result.train) == times[:6]
    assert times_of(result.validation) == times[6:9]
    assert times_of(result.evaluation) == times[9:]


def test_the_last_share_is_the_evaluation_part(tmp_path):
    result = table(tmp_path, list(range(100)))
    assert [len(part) for part in result.parts.values()] == [85, 5, 10]
    assert times_of(result.evaluation) == list(range(90, 100))


def test_without_times_a_day_is_a_file(tmp_path):
    files = [write(tmp_path / f"day_{d}", criteo_rows(10 + d, seed=d)) for d in range(3)]
    result = prepare_criteo(files, tmp_path / "out", evaluation="day", validation=0.1)
    assert [len(part) for part in result.parts.values()] == [18, 3, 12]


def test_a_random_split_is_the_same_for_a_seed_and_another_for_another(tmp_path):
    parts = []
    for seed in (1, 1, 2):
        result = table(tmp_path, list(range(2000)), split="random", seed=seed, evaluation=0.2)
        parts.append([times_of(part) for part in result.parts.values()])
        assert verify(tmp_path / "out") == []
    assert parts[0] == parts[1] != parts[2]
    assert sorted(time for part in parts[0] for time in part) == list(range(2000))
    assert 300 < len(parts[0][2]) < 500
    assert parts[0][2] == sorted(parts[0][2])


def test_parts_that_leave_nothing_to_train_on_are_an_error(tmp_path):
    with pytest.raises(DataError, match="Nothing is left to train on"):
        table(tmp_path, [1, 2, 3], evaluation="day")
