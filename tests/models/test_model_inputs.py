import pytest
from lookups import EVERYTHING, LENGTHS

from slipstream import ConfigError, Schema
from slipstream.models import build_model
from slipstream.tables.optimizers import Adagrad, RowwiseAdagrad, Sgd
from slipstream.tables.spec import Init


def test_a_table_takes_its_own_settings_then_those_of_all_then_the_models():
    layout = build_model(
        "dlrm",
        EVERYTHING,
        dim=8,
        table_settings={"optimizer": Adagrad(lr=0.5), "storage": "bf16"},
        tables={"item": {"dim": 4, "storage": "fp32", "init": Init("zeros")}},
    ).layout
    user, item = layout.table("user"), layout.table("item")
    assert (user.dim, user.optimizer, user.storage, user.init) == (
        8,
        Adagrad(lr=0.5),
        "bf16",
        Init(),
    )
    assert (item.dim, item.optimizer, item.storage) == (4, Adagrad(lr=0.5), "fp32")
    assert item.init == Init("zeros")


def test_linear_weights_have_their_own_settings_and_keep_dim_and_init():
    layout = build_model(
        "deepfm",
        EVERYTHING,
        table_settings={"optimizer": Adagrad(), "init": Init("normal", 0.5), "dim": 6},
        tables={"item/linear": {"optimizer": RowwiseAdagrad()}, "user": {"optimizer": Sgd()}},
    ).layout
    linear = [layout.table(f"{name}/linear") for name in ("user", "item", "tag")]
    assert [table.optimizer for table in linear] == [Adagrad(), RowwiseAdagrad(), Adagrad()]
    assert {(table.dim, table.init) for table in linear} == {(1, Init("zeros"))}
    assert layout.table("user").init == Init("normal", 0.5)
    assert layout.table("user").dim == 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tables": {"itme": {}}}, "no table 'itme'. Did you mean item"),
        ({"tables": {"item/linear": {}}}, "no table 'item/linear'"),
        ({"tables": {"item": {"dims": 3}}}, "no setting 'dims' for table 'item'. Did you mean dim"),
        ({"tables": {"item": {"dim": 0}}}, "dim of table 'item' is 0"),
        ({"table_settings": {"lr": 3}}, "no setting 'lr' for all tables"),
        ({"table_settings": {"optimizer": "sgd"}}, "optimizer of all tables is 'sgd'"),
        ({"table_settings": {"storage": "fp8"}}, "storage 'fp8'"),
        ({"lengths": {"itms": 3}}, "'itms', which is no sequence.*Did you mean items"),
        ({"lengths": {"items": 0}}, "length of 'items' is 0"),
        ({"normalize_dense": True}, "normalize_dense needs statistics"),
        ({"statistics": ([0, 0], [1, 1])}, "normalize_dense is off"),
        ({"normalize_dense": True, "statistics": ([0], [1])}, "2 dense values, but not as many"),
        (
            {"normalize_dense": True, "statistics": ([0, 0], [1, -1])},
            "'age' has mean 0.0 and deviation -1.0",
        ),
        ({"normalize_embedded": True, "tables": {"tag": {"dim": 1}}}, "vector of dim 1"),
    ],
)
def test_what_cannot_be_meant_is_an_error(options, message):
    with pytest.raises(ConfigError, match=message):
        build_model("dlrm", EVERYTHING, **options)


def test_linear_weights_are_single():
    with pytest.raises(ConfigError, match="its dim is always 1"):
        build_model("deepfm", EVERYTHING, tables={"item/linear": {"dim": 2}})


def test_a_data_set_without_columns_is_refused():
    with pytest.raises(ConfigError, match="nothing to embed"):
        build_model("dlrm", Schema((), (), ("price",)))


def test_lengths_may_be_given_to_models_that_pool_sequences():
    layout = build_model("dlrm", EVERYTHING, lengths=LENGTHS).layout
    assert layout.features[1].kind == "mean"
    assert layout.sequences == ()
