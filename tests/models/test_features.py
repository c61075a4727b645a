import torch
from lookups import EVERYTHING, of_column, random_embedded

from slipstream.models import build_model
from slipstream.models.features import pick, width
from slipstream.tables.optimizers import Adagrad

NAMES = [column.name for column in EVERYTHING.columns]


def layout_with(tables, **options):
    return build_model("dlrm", EVERYTHING, dim=4, tables=tables, **options).layout


def picked(layout, embedded, **options):
    generator = torch.Generator().manual_seed(0)
    parts = pick(layout, range(len(layout.features)), generator, **options).double()
    return parts, [part(embedded.vectors) for part in parts]


def test_one_group_is_handed_on_as_it_is():
    layout = layout_with({})
    embedded = random_embedded(layout, 3)
    _, (vectors,) = picked(layout, embedded, dim=4)
    assert vectors is embedded.vectors[0]


def test_columns_keep_their_order_across_groups():
    layout = layout_with({"item": {"optimizer": Adagrad()}})
    embedded = random_embedded(layout, 3)
    _, (vectors,) = picked(layout, embedded, dim=4)
    for place, name in enumerate(NAMES):
        torch.testing.assert_close(vectors[:, place], of_column(layout, embedded, name))


def test_other_dimensions_are_projected_each_feature_by_its_own_matrix():
    layout = layout_with({"tag": {"dim": 3}})
    embedded = random_embedded(layout, 3)
    parts, (same, other) = picked(layout, embedded, dim=4)
    assert (same.shape, other.shape) == ((3, 3, 4), (3, 2, 4))
    for place, name in enumerate(NAMES[3:]):
        own = of_column(layout, embedded, name)
        matrix = parts[1].adapt.project[place]
        torch.testing.assert_close(other[:, place], own @ matrix)


def test_without_a_dimension_asked_for_each_keeps_its_own():
    layout = layout_with({"tag": {"dim": 3}})
    parts, vectors = picked(layout, random_embedded(layout, 3))
    assert [vector.shape for vector in vectors] == [(3, 3, 4), (3, 2, 3)]
    assert list(parts.parameters()) == []
    assert width(layout, range(5)) == 3 * 4 + 2 * 3


def test_normalized_vectors_have_mean_0_and_deviation_1_whatever_the_batch():
    layout = layout_with({"tag": {"dim": 3}})
    embedded = random_embedded(layout, 3)
    parts, vectors = picked(layout, embedded, normalize=True)
    for vector in vectors:
        zeros, deviations = torch.zeros_like(vector[..., 0]), torch.ones_like(vector[..., 0])
        torch.testing.assert_close(vector.mean(2), zeros)
        torch.testing.assert_close(vector.std(2, correction=0), deviations, rtol=1e-3, atol=1e-3)
    alone = [part(tuple(vector[:1] for vector in embedded.vectors)) for part in parts]
    torch.testing.assert_close(alone, [vector[:1] for vector in vectors])
