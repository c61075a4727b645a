"""Layouts and batches of ids for tests: any that Hypothesis can think of."""

import numpy as np
import torch
from hypothesis import strategies as st

from slipstream.data.batch import ListBatch
from slipstream.tables.no_cache import NoCache
from slipstream.tables.optimizers import Adagrad, Adam, RowwiseAdagrad, Sgd
from slipstream.tables.spec import Feature, Layout, TableSpec

OPTIMIZERS = (
    Sgd(0.1),
    Sgd(0.1, weight_decay=0.01),
    Adagrad(0.1),
    Adagrad(0.1, weight_decay=0.01),
    RowwiseAdagrad(0.1),
    RowwiseAdagrad(0.1, weight_decay=0.01),
    Adam(0.01),
)

ON_GPU = ("single", "single", "sum", "mean", "sequence")


@st.composite
def layouts(draw: st.DrawFn, storages=("fp64",), optimizers=OPTIMIZERS, kinds=ON_GPU) -> Layout:
    """Up to four tables of any size and kind, each with one to three features."""
    tables, features = [], []
    storage = draw(st.sampled_from(storages))
    for number in range(draw(st.integers(1, 4))):
        tables.append(
            TableSpec(
                f"t{number}",
                rows=draw(st.integers(1, 9)),
                dim=draw(st.sampled_from([1, 3, 4, 8])),
                optimizer=draw(st.sampled_from(optimizers)),
                storage=storage,
            )
        )
        for column in range(draw(st.integers(1, 3))):
            kind = draw(st.sampled_from(kinds))
            length = draw(st.integers(1, 4)) if kind == "sequence" else 0
            features.append(Feature(f"c{number}{column}", f"t{number}", kind, length))
    return Layout(tuple(tables), tuple(features))


def batch_of(layout: Layout, capacity: int, n_valid: int, seed: int):
    """Random ids of a batch: the block of single ids, and the lists."""
    rng = np.random.default_rng(seed)
    singles = [f for f in layout.features if f.kind == "single"]
    ids = np.zeros((capacity, len(singles)), dtype=np.int32)
    for place, feature in enumerate(singles):
        ids[:n_valid, place] = rng.integers(0, layout.table(feature.table).rows, n_valid)
    lists = {}
    for feature in layout.features:
        if feature.kind != "single":
            lengths = np.zeros(capacity, dtype=np.int64)
            lengths[:n_valid] = rng.integers(0, 6, n_valid)
            offsets = np.concatenate([[0], np.cumsum(lengths)])
            values = rng.integers(0, layout.table(feature.table).rows, offsets[-1])
            lists[feature.column] = ListBatch(torch.from_numpy(values), torch.from_numpy(offsets))
    return torch.from_numpy(ids), lists


def placement_of(layout: Layout) -> NoCache:
    return NoCache(layout, [f.column for f in layout.features if f.kind == "single"])
