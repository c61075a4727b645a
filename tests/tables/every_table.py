"""Tables of every kind of column for tests, and ids to look up in them."""

import torch

from slipstream import EmbeddingTables, Feature, TableSpec

TABLES = (("user", 30, 4), ("item", 12, 4), ("word", 9, 3))
FEATURES = (
    Feature("user", "user"),
    Feature("item", "item"),
    Feature("other", "item"),
    Feature("words", "word", "sum"),
    Feature("topics", "word", "mean"),
    Feature("history", "item", "sequence", 3),
)


def made(optimizer=None, storage="fp64", **options):
    specs = [TableSpec(name, rows, dim, storage=storage) for name, rows, dim in TABLES]
    return EmbeddingTables(specs, FEATURES, optimizer=optimizer, **options)


def ids_of(seed, n=8):
    generator = torch.Generator().manual_seed(seed)
    rows = {name: rows for name, rows, _ in TABLES}
    ids = {}
    for feature in FEATURES:
        size, shape = rows[feature.table], (n,)
        if feature.kind != "single":
            lengths = torch.randint(0, 6, (n,), generator=generator)
            offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
            shape = (int(offsets[-1]),)
        ids[feature.column] = torch.randint(0, size, shape, generator=generator)
        if feature.kind != "single":
            ids[feature.column] = (ids[feature.column], offsets)
    return ids


def loss_of(vectors, seed):
    """Some loss in which every element has a weight of its own."""
    generator = torch.Generator().manual_seed(seed)
    total = 0
    for one in vectors.values():
        weight = torch.randn(one.shape, generator=generator, dtype=one.dtype)
        total = total + (one * weight).sum() + (one * one).sum()
    return total
