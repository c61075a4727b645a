import pytest
import torch
from lookups import (
    EVERYTHING,
    LENGTHS,
    assert_same_gradients,
    dense_values,
    layer_by_layer,
    of_column,
    random_embedded,
)

from slipstream import Column, ConfigError, Schema, Table
from slipstream.models import build_model

SIZES = {"dim": 4, "bottom": (3,), "top": (6, 5), "attention": (7,), "final": (8,)}
TAOBAO = Schema(
    (Table("user", 9, 0), Table("item", 20, 0), Table("category", 5, 0)),
    (
        Column("user", "user"),
        Column("item", "item"),
        Column("category", "category"),
        Column("items", "item", "sequence"),
        Column("categories", "category", "sequence"),
    ),
)


def plain_tbsm(model, length, dense, same, steps, targets, lengths):
    """One input, one step at a time. `same`, `steps[t]` and `targets` are lists of vectors."""

    def tower(vectors, time):
        x = layer_by_layer(torch.cat([dense, dense.new_tensor([time])]), model.bottom)
        vectors = [x, *vectors]
        dots = [vectors[i] @ vectors[j] for i in range(len(vectors)) for j in range(i)]
        z = layer_by_layer(torch.cat([x, torch.stack(dots)]), model.top)
        return z / torch.linalg.vector_norm(z).clamp(min=1e-12)

    target = tower([*same, *targets], length / (length + 1))
    turned = model.inner.T @ (model.inner @ target)
    history = [torch.zeros_like(target)] * (length - lengths)
    for t in range(lengths):
        time = (length - lengths + t) / (length + 1)
        history.append(tower([*same, *steps[t]], time))
    likeness = torch.stack([turned @ step for step in history])
    shares = layer_by_layer(likeness, model.attention)
    context = sum(share * step for share, step in zip(shares, history, strict=True))
    return layer_by_layer(torch.cat([context, target]), model.final)[0]


def test_equals_the_formula_step_by_step():
    model = build_model("tbsm", EVERYTHING, lengths=LENGTHS, **SIZES).double()
    dense, embedded = dense_values(EVERYTHING, 5), random_embedded(model.layout, 5)

    def of(name):
        return of_column(model.layout, embedded, name)

    plain = torch.stack(
        [
            plain_tbsm(
                model,
                6,
                dense[b],
                [of(name)[b] for name in ("user", "tags", "more tags")],
                [[of("items")[b, t]] for t in range(6)],
                [of("item")[b]],
                int(embedded.lengths[0][b]),
            )
            for b in range(5)
        ]
    )
    leaves = [*embedded.vectors, *embedded.sequences, *model.parameters()]
    assert_same_gradients(model(dense, embedded), plain, leaves)


def test_what_stands_in_steps_after_the_last_does_not_matter():
    model = build_model("tbsm", EVERYTHING, lengths=LENGTHS, **SIZES).double()
    dense, embedded = dense_values(EVERYTHING, 8), random_embedded(model.layout, 8)
    padding = torch.arange(6) >= embedded.lengths[0][:, None]
    assert padding.any()
    other = torch.where(padding[..., None], 5.0, embedded.sequences[0])
    changed = model(dense, embedded._replace(sequences=(other,)))
    torch.testing.assert_close(changed, model(dense, embedded))


def test_two_histories_go_step_by_step_together():
    lengths = {"items": 4, "categories": 4}
    model = build_model("tbsm", TAOBAO, lengths=lengths, dim=3)
    assert [feature.kind for feature in model.layout.features][-2:] == ["sequence"] * 2
    assert model.interaction.pairs == 4 * 3 // 2  # dense, user, item, category
    logits = model.double()(torch.zeros(2, 0).double(), random_embedded(model.layout, 2))
    assert logits.shape == (2,)


def test_sequences_without_a_target_are_means_beside_the_history():
    tables = (*TAOBAO.tables, Table("shop", 4, 0))
    columns = (*TAOBAO.columns[:4], Column("shops", "shop", "sequence"))
    model = build_model("tbsm", Schema(tables, columns), lengths={"items": 4}, dim=3)
    assert [feature.kind for feature in model.layout.features][-2:] == ["sequence", "mean"]


def test_sizes_are_those_published_for_taobao():
    lengths = {"items": 20, "categories": 20}
    model = build_model("tbsm", TAOBAO, lengths=lengths)
    shapes = [tuple(p.shape) for p in model.parameters() if p.dim() == 2]
    tower, attention = [(15, 16 + 6), (15, 15)], [(15, 20), (15, 15), (20, 15)]
    assert shapes == [(15, 15), (16, 1), *tower, *attention, (60, 30), (1, 60)]


@pytest.mark.parametrize(
    ("columns", "lengths", "message"),
    [
        (TAOBAO.columns[:3], {}, "needs a sequence column"),
        ((*TAOBAO.columns[:1], *TAOBAO.columns[2:4]), {"items": 3}, "needs a target.*'items'"),
        (TAOBAO.columns, {"items": 3}, "the length of the sequence 'categories'"),
        (TAOBAO.columns, {"items": 3, "categories": 4}, "'items' has length 3.*needs one length"),
    ],
)
def test_data_sets_it_cannot_work_with_are_told_so(columns, lengths, message):
    with pytest.raises(ConfigError, match=message):
        build_model("tbsm", Schema(TAOBAO.tables, columns), lengths=lengths)


def test_a_tower_without_layers_is_refused():
    with pytest.raises(ConfigError, match="at least one layer"):
        build_model("tbsm", EVERYTHING, lengths=LENGTHS, top=())
