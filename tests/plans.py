"""Plans of batches made by hand, and engines in float64 to run them."""

import numpy as np
import torch

from slipstream import Column, Schema, Table
from slipstream.config.sections import DenseSettings
from slipstream.data.batch import ListBatch
from slipstream.models import build_model
from slipstream.pipeline.dense import DensePart
from slipstream.pipeline.engine import Engine
from slipstream.tables.no_cache import NoCache
from slipstream.tables.plan import Plan
from slipstream.tables.tables import Embeddings

ROWS = (40, 3, 11, 25)
SCHEMA = Schema(
    tuple(Table(f"t{n}", rows, 0) for n, rows in enumerate(ROWS)),
    (*(Column(f"c{n}", f"t{n}") for n in range(3)), Column("c3", "t3", "sum")),
    ("d0", "d1", "d2"),
)
SIZES = {"dim": 4, "bottom": (8, 6), "top": (7, 5)}


def engine_of(
    optimizer, dense=None, tables="cpu", schema=SCHEMA, model="dlrm", **options
) -> Engine:
    """A model and its rows in float64; the same for the same arguments."""
    settings = {"optimizer": optimizer, "storage": "fp64"}
    sizes = SIZES if model == "dlrm" else {}
    network = build_model(model, schema, seed=1, table_settings=settings, **sizes, **options)
    rows = Embeddings(network.layout, seed=2, kernels=tables)
    return Engine(
        rows, DensePart(network.double(), dense or DenseSettings(optimizer="sgd", lr=0.1))
    )


class Batches:
    """Random inputs of a schema, as many as wanted."""

    def __init__(self, seed=0, schema=SCHEMA):
        self.random = np.random.default_rng(seed)
        self.schema = schema

    def inputs(self, n):
        """Ids of single columns, lists, dense values and labels of n inputs."""
        draw, schema = self.random, self.schema
        singles = [schema.table(c.table).rows for c in schema.singles]
        ids = np.stack([draw.integers(0, rows, n) for rows in singles], 1)
        lists = {
            c.name: [
                draw.integers(0, schema.table(c.table).rows, draw.integers(0, 4)).tolist()
                for _ in range(n)
            ]
            for c in schema.lists
        }
        return ids, lists, draw.normal(size=(n, len(schema.dense))), draw.integers(0, 2, n)


def take(inputs, numbers):
    """Some of the inputs, by number, also twice."""
    ids, lists, dense, labels = inputs
    chosen = {name: [column[i] for i in numbers] for name, column in lists.items()}
    return ids[numbers], chosen, dense[numbers], labels[numbers]


def plan_of(
    engine, inputs, *, step=1, capacity=None, weight=1.0, offset=None, masks=None, schema=SCHEMA
) -> Plan:
    """The plan of these inputs in a batch of that capacity."""
    ids, lists, dense, labels = inputs
    n, capacity = len(labels), capacity or len(labels)

    def padded(values, fill=0.0):
        values = np.broadcast_to(values, (n, *np.shape(values)[1:]))
        room = np.full((capacity, *values.shape[1:]), fill, dtype=values.dtype)
        room[:n] = values
        return torch.from_numpy(room)

    listed = {}
    for name, column in lists.items():
        lengths = [len(values) for values in column] + [0] * (capacity - n)
        values = np.array([value for values in column for value in values], dtype=np.int32)
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        listed[name] = ListBatch(torch.from_numpy(values), torch.from_numpy(offsets))
    placement = NoCache(engine.tables.layout, [c.name for c in schema.singles])
    groups = placement.plan(padded(ids.astype(np.int32)), listed, n, masks=masks)
    return Plan(
        step=step,
        example_numbers=padded(np.arange(n), -1),
        n_valid=n,
        next_position=n,
        labels=padded(labels.astype(np.float64)),
        dense=padded(dense),
        weight=padded(np.asarray(weight, dtype=np.float64)),
        logit_offset=None if offset is None else padded(np.asarray(offset, dtype=np.float64)),
        groups=groups,
    )


def step(engine, plan, factor=1.0):
    """Make one step and return its result."""
    stepped = engine.forward(plan)
    engine.update(plan, factor)
    return stepped


def values_of(engine) -> dict[str, torch.Tensor]:
    """Every row with its state, and every dense weight, by name."""
    rows = {
        f"{number} {name}": torch.from_numpy(values.copy())
        for number, store in enumerate(engine.tables.stores)
        for name, values in store.views.items()
    }
    return rows | {name: value.clone() for name, value in engine.dense.model.state_dict().items()}


def assert_close(actual, expected, tolerance=1e-12) -> None:
    left, right = actual, expected
    if not isinstance(actual, dict):
        left, right = values_of(actual), values_of(expected)
    assert left.keys() == right.keys()
    for name, value in left.items():
        torch.testing.assert_close(
            value,
            right[name],
            rtol=tolerance,
            atol=tolerance,
            msg=lambda text, n=name: f"{n}: {text}",
        )
