"""Raw rows get the predictions that the packed inputs made of them get."""

import numpy as np
import polars as pl
import pytest
import torch
from raw_logs import avazu_rows, criteo_rows, prepare_table, schema_file, write
from trained import criteo_data, small_run

from slipstream import Dataset, Recipe, synthesize
from slipstream.data.formats import log_spec
from slipstream.data.prepare import Options, prepare
from slipstream.data.synthetic.raw import write_raw
from slipstream.errors import DataError
from slipstream.training.evaluation import predictions
from slipstream.training.load_run import open_run
from slipstream.training.predict import predict_rows


def packed(run, data, part="evaluation"):
    """The probabilities of a packed part."""
    opened = open_run(run, data)
    predictions_made = predictions(opened.engine, opened.placement, data.parts[part], 128)
    return torch.cat(
        [torch.sigmoid(logits[: batch.n_valid]) for batch, logits in predictions_made]
    ).numpy()


def predicted(run, spec, *files, **options):
    return np.concatenate(list(predict_rows(run, spec, files, **options)))


@pytest.fixture(scope="module")
def criteo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("criteo")
    data = criteo_data(folder)
    small_run(folder / "run", data)
    return folder, data, criteo_rows(1500)[-150:]


def test_criteo_rows_with_and_without_label_are_as_packed(criteo, tmp_path):
    folder, data, rows = criteo
    expected = packed(folder / "run", data)
    spec = log_spec("criteo", {})
    with_label = predicted(folder / "run", spec, write(tmp_path / "new.tsv", rows))
    np.testing.assert_allclose(with_label, expected, atol=1e-6)
    bare = write(tmp_path / "bare.tsv", [row[1:] for row in rows])
    np.testing.assert_array_equal(predicted(folder / "run", spec, bare), with_label)
    assert len(np.unique(expected)) > 100
    wrong = write(tmp_path / "wrong.tsv", [["no label", *row[1:]] for row in rows])
    np.testing.assert_array_equal(predicted(folder / "run", spec, wrong), with_label)


def test_several_files_come_one_after_the_other(criteo, tmp_path):
    folder, data, rows = criteo
    files = [write(tmp_path / "1.tsv", rows[:100]), write(tmp_path / "2.tsv", rows[100:])]
    predictions_made = predicted(folder / "run", log_spec("criteo", {}), *files, batch_size=33)
    np.testing.assert_allclose(predictions_made, packed(folder / "run", data), atol=1e-6)


def test_a_bad_row_is_an_error_with_its_place_or_nan_in_its_place(criteo, tmp_path):
    folder, data, rows = criteo
    rows = [list(row) for row in rows]
    rows[3][20], rows[7] = "XYZ", ["1", "2"]
    file = write(tmp_path / "bad.tsv", rows)
    spec = log_spec("criteo", {})
    with pytest.raises(DataError, match=r"bad\.tsv, line 4: column 'C7' has 'XYZ'"):
        predicted(folder / "run", spec, file)
    messages = []
    predictions_made = predicted(folder / "run", spec, file, bad_rows="skip", warn=messages.append)
    assert np.flatnonzero(np.isnan(predictions_made)).tolist() == [3, 7]
    good = ~np.isnan(predictions_made)
    np.testing.assert_allclose(
        predictions_made[good], packed(folder / "run", data)[good], atol=1e-6
    )
    assert messages[-1] == "2 rows could not be read: their predictions are nan."


def test_values_never_seen_and_missing_ones_are_predicted(criteo, tmp_path):
    folder = criteo[0]
    new = [["", *[""] * 39], ["", *[""] * 13, *["ffffffff"] * 26]]
    predictions_made = predicted(
        folder / "run", log_spec("criteo", {}), write(tmp_path / "new.tsv", new)
    )
    assert np.isfinite(predictions_made).all()
    assert predictions_made[0] != predictions_made[1]


def test_avazu_rows_with_and_without_the_click_column(tmp_path):
    log = write(tmp_path / "log.csv", avazu_rows(1000), ",")
    spec = log_spec("avazu", {})
    data = Dataset.open(prepare(spec, [log], tmp_path / "data", Options(evaluation=0.1)))
    small_run(tmp_path / "run", data)
    lines = [line.split(",") for line in log.read_text().splitlines()]
    new = write(tmp_path / "new.csv", [lines[0], *lines[-100:]], ",")
    expected = packed(tmp_path / "run", data)
    np.testing.assert_allclose(predicted(tmp_path / "run", spec, new), expected, atol=1e-6)
    bare = [[*line[:1], *line[2:]] for line in (lines[0], *lines[-100:])]
    predictions_made = predicted(tmp_path / "run", spec, write(tmp_path / "bare.csv", bare, ","))
    np.testing.assert_allclose(predictions_made, expected, atol=1e-6)


SCHEMA = {
    "label": "click",
    "time": "at",
    "weight": "weight",
    "dense": ["price", {"name": "age", "transform": "none", "missing": -1}],
    "categorical": ["user", {"name": "hour", "values": "hour"}],
    "lists": [{"name": "tags", "table": "tag", "kind": "sum", "split": "|"}],
    "sort": "time",
}


def table_rows(count):
    rng = np.random.default_rng(3)
    return pl.DataFrame(
        {
            "click": rng.integers(0, 2, count),
            "at": 1_700_000_000 + np.arange(count) * 600,
            "weight": rng.random(count),
            "price": rng.integers(0, 50, count),
            "age": [None if rng.random() < 0.3 else int(rng.integers(1, 9)) for _ in range(count)],
            "user": [f"u {n}, \u00e9" for n in rng.zipf(1.6, count) % 100],
            "tags": [
                "|".join(map(str, rng.integers(0, 9, rng.integers(0, 4)))) for _ in range(count)
            ],
        }
    )


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet"])
def test_tables_with_lists_text_and_hours_are_as_packed(ending, tmp_path):
    frame = table_rows(800)

    def save(part, name):
        path = tmp_path / f"{name}.{ending}"
        if ending == "parquet":
            part.write_parquet(path)
        else:
            part.write_csv(path, separator="\t" if ending == "tsv" else ",")
        return path

    data = prepare_table(tmp_path, [save(frame, "log")], SCHEMA, evaluation=0.2)
    small_run(tmp_path / "run", data)
    spec = log_spec("table", {"schema": schema_file(tmp_path, **SCHEMA)})
    without = frame[-160:].drop("click", "weight")
    predictions_made = predicted(tmp_path / "run", spec, save(without, "new"))
    np.testing.assert_allclose(predictions_made, packed(tmp_path / "run", data), atol=1e-6)
    # Rows keep their order, whatever their times are.
    again = predicted(tmp_path / "run", spec, save(without.reverse(), "turned"))
    np.testing.assert_allclose(again[::-1], predictions_made, atol=1e-6)


def test_another_transform_of_a_dense_value_is_an_error(tmp_path):
    frame = table_rows(300)
    frame.write_csv(tmp_path / "log.csv")
    data = prepare_table(tmp_path, [tmp_path / "log.csv"], SCHEMA)
    small_run(tmp_path / "run", data)
    other = {**SCHEMA, "dense": [{"name": "price", "transform": "sqrt"}, "age"]}
    spec = log_spec("table", {"schema": schema_file(tmp_path, **other)})
    with pytest.raises(DataError, match="transform 'log' of the dense value 'price'"):
        predicted(tmp_path / "run", spec, tmp_path / "log.csv")
    fewer = {key: value for key, value in SCHEMA.items() if key != "lists"}
    spec = log_spec("table", {"schema": schema_file(tmp_path, **fewer)})
    with pytest.raises(DataError, match="has a column 'tags', which table logs lack"):
        predicted(tmp_path / "run", spec, tmp_path / "log.csv")


def test_histories_cannot_be_made_of_one_row(tmp_path):
    log = write_raw(Recipe("taobao", rows=600), tmp_path / "log.csv")
    spec = log_spec("taobao", {})
    data = Dataset.open(prepare(spec, [log], tmp_path / "data", Options()))
    small_run(tmp_path / "run", data)
    with pytest.raises(DataError, match="'items' holds earlier rows of the same user"):
        predicted(tmp_path / "run", spec, log)


def test_a_data_set_that_was_moved_is_asked_for(criteo, tmp_path):
    _, data, rows = criteo
    moved = tmp_path / "elsewhere"
    small_run(tmp_path / "run", data.save(tmp_path / "data"))
    (tmp_path / "data").rename(moved)
    file = write(tmp_path / "new.tsv", rows)
    with pytest.raises(DataError, match=r"There is no folder .*data: pass the folder"):
        predicted(tmp_path / "run", log_spec("criteo", {}), file)
    assert len(predicted(tmp_path / "run", log_spec("criteo", {}), file, data=moved)) == 150


def test_rows_of_a_raw_log_of_built_in_data_are_as_packed(tmp_path):
    data = Dataset.open(synthesize(Recipe("criteo-kaggle", rows=500), tmp_path / "data"))
    log = write_raw(Recipe("criteo-kaggle", rows=500), tmp_path / "log.tsv")
    small_run(tmp_path / "run", data)
    predictions_made = predicted(tmp_path / "run", log_spec("criteo", {}), log)
    np.testing.assert_allclose(predictions_made[-50:], packed(tmp_path / "run", data), atol=1e-6)
