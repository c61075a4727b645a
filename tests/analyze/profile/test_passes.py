import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from random_datasets import datasets
from small_runs import config

from slipstream.analyze.profile.passes import add_accesses, count_all_hot, no_accesses
from slipstream.config import Config
from slipstream.pipeline.place.accesses import Popularity
from slipstream.training.build import model_of


@given(datasets(min_rows=1), st.floats(0, 1), st.booleans())
def test_an_example_is_all_hot_if_every_one_of_its_rows_is(dataset, share, wide):
    if not dataset.schema.columns or not len(dataset.train):
        return
    deepfm = Config().with_settings(["model.name=deepfm", "model.dim=2", "model.deep=[4]"])
    layout = model_of(deepfm if wide else config(), dataset).layout
    popularity = Popularity.of(layout, dataset.counts)
    masks = popularity.hot(round(share * popularity.bytes))
    hot = {table.name: np.ones(table.rows, bool) for table in dataset.schema.tables}
    for group, mask in zip(layout.groups, masks, strict=True):
        for table in group.tables:
            start = group.start(table.name)
            hot[table.name.removesuffix("/linear")] &= mask[start : start + table.rows]
    expected = 0
    for run in dataset.train.runs(0, len(dataset.train)):
        for number in range(len(run)):
            columns = run.slice(number, number + 1).ids_by_column(dataset.schema)
            expected += all(hot[column.table][ids].all() for column, ids, _ in columns)
    nothing = [np.zeros(len(mask), bool) for mask in masks]
    counted = count_all_hot(dataset.train, layout, [lambda: nothing, lambda: masks])
    assert counted[1] == expected


@given(datasets(), st.floats(0, 1))
def test_accesses_are_counted_as_the_data_set_did(dataset, share):
    part = dataset.train
    middle = int(share * len(part))
    counts = no_accesses(part)
    add_accesses(counts, part, 0, middle)
    add_accesses(counts, part, middle, len(part))
    for table in dataset.schema.tables:
        assert counts[table.name].tolist() == dataset.counts(table.name).tolist()
