"""Claims that hold for every model and data set."""

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from lookups import EVERYTHING, LENGTHS, dense_values, random_embedded, schemas

from slipstream import ConfigError
from slipstream.models import MODELS, build_model
from slipstream.tables.optimizers import Adagrad
from slipstream.tables.spec import Embedded

SMALL = {
    "dlrm": {"bottom": (5,), "top": (6,)},
    "tbsm": {"top": (6, 5), "attention": (4,), "final": (6,)},
    "dcn": {"cross": 2, "deep": (6,)},
    "deepfm": {"deep": (6,)},
    "wide_deep": {"deep": (6,)},
}
every_model = pytest.mark.parametrize("name", MODELS)


def small(name, schema=EVERYTHING, lengths=LENGTHS, dim=4, **options):
    return build_model(name, schema, lengths=lengths, dim=dim, **SMALL.get(name, {}), **options)


def build_or_leave(name, schema, **options):
    lengths = {column.name: 3 for column in schema.columns if column.kind == "sequence"}
    try:
        return small(name, schema, lengths, **options).double()
    except ConfigError as error:
        assume("tbsm needs a" not in str(error))
        raise


@every_model
@settings(suppress_health_check=list(HealthCheck))  # most schemas have no history for tbsm
@given(
    schema=schemas(),
    batch=st.integers(1, 4),
    dims=st.lists(st.integers(2, 5), min_size=3, max_size=3),
    shared=st.lists(st.booleans(), min_size=3, max_size=3),
    normalize=st.booleans(),
)
def test_logits_are_finite_and_lanes_keep_apart(name, schema, batch, dims, shared, normalize):
    table_settings = {
        f"t.{n}": {"dim": dims[n], **({} if shared[n] else {"optimizer": Adagrad()})}
        for n in range(len(schema.tables))
    }
    statistics = ([0.5] * len(schema.dense), [2.0] * len(schema.dense))
    options = {"normalize_dense": True, "normalize_embedded": True, "statistics": statistics}
    model = build_or_leave(name, schema, tables=table_settings, **(options if normalize else {}))
    dense, embedded = dense_values(schema, batch), random_embedded(model.layout, batch)
    logits = model(dense, embedded)
    assert logits.shape == (batch,)
    assert logits.isfinite().all()
    logits.sum().backward()
    for leaf in (*embedded.vectors, *embedded.sequences, *model.parameters()):
        if leaf.numel():
            assert leaf.grad is not None
            assert leaf.grad.isfinite().all()

    lane = batch - 1
    spoiled = [[leaf.detach().clone() for leaf in some] for some in embedded]
    dense = dense.clone()
    for leaf in (dense, *spoiled[0], *spoiled[1]):
        leaf[lane] = float("nan")
    again = model(dense, Embedded(*map(tuple, spoiled)))
    torch.testing.assert_close(again[:lane], logits[:lane], rtol=1e-12, atol=1e-12)


@every_model
def test_every_embedding_vector_moves(name):
    model = build_model(name, EVERYTHING, lengths=LENGTHS).double()
    embedded = random_embedded(model.layout, 32)
    model(dense_values(EVERYTHING, 32), embedded).sum().backward()
    for vectors in embedded.vectors:
        assert (vectors.grad != 0).any(dim=(0, 2)).all()


@every_model
def test_same_seed_same_weights_whatever_else_is_drawn(name):
    first = small(name, seed=7).state_dict()
    torch.rand(3)
    before = torch.get_rng_state()
    again, other = small(name, seed=7).state_dict(), small(name, seed=8).state_dict()
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)


@every_model
def test_dense_weights_mean_the_same_when_a_table_is_grouped_otherwise(name):
    model = small(name).double()
    other = small(name, tables={"user": {"optimizer": Adagrad()}}, seed=1).double()
    assert len(other.layout.groups) > len(model.layout.groups)
    other.load_state_dict(model.state_dict())
    embedded = random_embedded(model.layout, 3)
    by_number = {
        feature: embedded.vectors[group][:, place]
        for feature in range(len(model.layout.features))
        if model.layout.features[feature].kind != "sequence"
        for group, place in [model.layout.place(feature)]
    }
    groups = other.layout.groups
    vectors = tuple(torch.stack([by_number[n] for n in group.features], 1) for group in groups)
    dense = dense_values(EVERYTHING, 3)
    regrouped = other(dense, embedded._replace(vectors=vectors))
    torch.testing.assert_close(regrouped, model(dense, embedded), rtol=1e-12, atol=1e-12)


@every_model
def test_can_be_exported_for_any_batch(name):
    model = small(name).double()
    dense, embedded = dense_values(EVERYTHING, 4), random_embedded(model.layout, 4)
    shapes = torch.utils._pytree.tree_map(lambda _: {0: torch.export.Dim("batch")}, embedded)
    with torch.no_grad():
        program = torch.export.export(
            model, (dense, embedded), dynamic_shapes=({0: torch.export.Dim("batch")}, shapes)
        )
    dense, embedded = dense_values(EVERYTHING, 7), random_embedded(model.layout, 7)
    torch.testing.assert_close(program.module()(dense, embedded), model(dense, embedded))


@every_model
def test_compiles_without_a_break_and_with_the_same_gradients(name):
    torch.compiler.reset()
    tables = {"user": {"dim": 3}, "tag": {"optimizer": Adagrad()}}
    model = small(name, tables=tables).double()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    dense, embedded = dense_values(EVERYTHING, 4), random_embedded(model.layout, 4)
    leaves = [*embedded.vectors, *model.parameters()]
    gradients, compiled_gradients = (
        torch.autograd.grad(network(dense, embedded).sum(), leaves) for network in (model, compiled)
    )
    for gradient, other in zip(gradients, compiled_gradients, strict=True):
        torch.testing.assert_close(gradient, other)


@every_model
def test_runs_under_bf16_autocast_close_to_fp32(name):
    tables = {"user": {"dim": 3}}
    model = small(name, tables=tables)
    dense = dense_values(EVERYTHING, 16).float()
    embedded = random_embedded(model.layout, 16, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(dense, embedded)
    logits.float().sum().backward()
    assert all(leaf.grad.dtype == torch.float32 for leaf in embedded.vectors)
    torch.testing.assert_close(logits.float(), model(dense, embedded), rtol=0.1, atol=0.1)


@every_model
def test_dense_statistics_travel_with_the_weights(name):
    statistics = ([1.0, 2.0], [3.0, 0.0])
    model = small(name, normalize_dense=True, statistics=statistics).double()
    plain = small(name).double()
    embedded = random_embedded(model.layout, 3)
    dense = torch.tensor([[4.0, 2.0], [1.0, 2.0], [-2.0, 2.0]], dtype=torch.float64)
    normalized = torch.tensor([[1.0, 0.0], [0.0, 0.0], [-1.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(model(dense, embedded), plain(normalized, embedded))
    assert {key.split(".")[-1] for key in model.state_dict()} >= {"mean", "std"}
