import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tables.layouts import batch_of, layouts, placement_of

from slipstream.data.batch import ListBatch
from slipstream.errors import DataError
from slipstream.tables.kernels import threads as threads_of_kernels
from slipstream.tables.spec import Feature, Layout, TableSpec


def lookups(layout, group, ids, lists, n):
    """(row, gradient vector) of every lookup of a group, in input order, the plain way."""
    singles = [f.column for f in layout.features if f.kind == "single"]
    width, capacity = len(group.features), len(ids)
    first, end = {}, capacity * width
    for number in group.sequences:
        first[number] = end
        end += capacity * layout.features[number].length
    for i in range(n):
        for table in group.tables:
            for number in (*group.features, *group.sequences):
                feature = layout.features[number]
                if feature.table != table.name:
                    continue
                start = group.start(feature.table)
                if feature.kind == "single":
                    row = start + int(ids[i, singles.index(feature.column)])
                    yield row, i * width + group.features.index(number)
                    continue
                column = lists[feature.column]
                values = column.values[column.offsets[i] : column.offsets[i + 1]].tolist()
                if feature.kind == "sequence":
                    for at, value in enumerate(values[-feature.length :]):
                        yield start + value, first[number] + i * feature.length + at
                else:
                    for value in values:
                        yield start + value, i * width + group.features.index(number)


@given(layouts(), st.integers(1, 8), st.data())
def test_touched_rows_are_distinct_and_have_their_gradients_in_input_order(layout, capacity, data):
    n = data.draw(st.integers(0, capacity))
    ids, lists = batch_of(layout, capacity, n, data.draw(st.integers(0, 99)))
    for group, plan in zip(layout.groups, placement_of(layout).plan(ids, lists, n), strict=True):
        wanted: dict[int, list[int]] = {}
        for row, source in lookups(layout, group, ids, lists, n):
            wanted.setdefault(row, []).append(source)
        rows, starts = plan.touched.rows.tolist(), plan.touched.starts.tolist()
        sources = plan.touched.sources.tolist()
        sources_of = {row: sources[starts[u] : starts[u + 1]] for u, row in enumerate(rows)}
        assert len(sources_of) == len(rows)
        assert sources_of == wanted


def test_a_row_that_must_not_move_is_absent():
    layout = Layout((TableSpec("a", 5, 2),), (Feature("a", "a"),))
    ids = torch.tensor([[1], [3], [1], [4]], dtype=torch.int32)
    mask = torch.tensor([True, False, True, True, True])
    (plan,) = placement_of(layout).plan(ids, {}, 4, masks=[mask])
    assert plan.touched.rows.tolist() == [3, 4]
    assert plan.slots.tolist() == [[1, 3, 1, 4]], "it is still looked up"


def test_a_batch_that_is_only_looked_up_plans_no_update():
    layout = Layout((TableSpec("a", 5, 2),), (Feature("a", "a"),))
    (plan,) = placement_of(layout).plan(torch.zeros(3, 1, dtype=torch.int32), {}, 3, update=False)
    assert plan.touched is None


@pytest.mark.parametrize("rows", [0, 3])
def test_a_batch_of_no_inputs_and_a_table_that_no_column_uses_touch_nothing(rows):
    layout = Layout((TableSpec("a", 5, 2), TableSpec("b", 5, 3)), (Feature("a", "a"),))
    used, unused = placement_of(layout).plan(torch.zeros(rows, 1, dtype=torch.int32), {}, rows)
    assert used.touched.rows.tolist() == [0][:rows]
    assert unused.touched.rows.tolist() == []
    assert unused.slots.shape == (0, rows)


@pytest.mark.parametrize("bad", [-1, 5, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_an_id_out_of_range_is_an_error_with_column_value_and_place(bad, dtype):
    layout = Layout(
        (TableSpec("a", 9, 2), TableSpec("b", 5, 2)), (Feature("x", "a"), Feature("y", "b"))
    )
    ids = torch.zeros(7, 2, dtype=dtype)
    ids[4, 1] = bad
    with pytest.raises(DataError, match=rf"'y' has the id {bad} in example 4 .* 5 rows"):
        placement_of(layout).plan(ids, {}, 7)
    placement_of(layout).plan(ids, {}, 4)  # padding is not looked at


def test_an_id_out_of_range_in_a_list_is_an_error_with_column_value_and_place():
    layout = Layout((TableSpec("a", 9, 2),), (Feature("l", "a", "sum"),))
    lists = {"l": ListBatch(torch.tensor([1, 2, 11]), torch.tensor([0, 1, 1, 3]))}
    with pytest.raises(DataError, match=r"'l' has the id 11 in example 2 .* 9 rows"):
        placement_of(layout).plan(torch.zeros(3, 0, dtype=torch.int32), lists, 3)


@pytest.mark.parametrize("lists", [False, True])
def test_the_number_of_threads_does_not_change_the_plan(lists, monkeypatch):
    monkeypatch.setattr(threads_of_kernels, "SHARE", 1 << 8)
    kinds = [("a", 5), ("b", 3000), ("c", 1), ("d", 70)]
    tables = tuple(TableSpec(name, rows, 4) for name, rows in kinds)
    features = [Feature(name, name) for name, _ in kinds]
    if lists:
        features.append(Feature("l", "b", "sum"))
    layout = Layout(tables, tuple(features))
    batch = batch_of(layout, 3000, 2990, 0)
    before, plans = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 9):
            torch.set_num_threads(threads)
            (plan,) = placement_of(layout).plan(*batch, 2990)
            plans.append(plan.touched)
    finally:
        torch.set_num_threads(before)
    for other in plans[1:]:
        for name in ("rows", "starts", "sources"):
            assert torch.equal(getattr(plans[0], name), getattr(other, name)), name
