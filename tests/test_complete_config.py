"""A complete configuration: defaults that depend on other keys, and names of plug-ins."""

import pytest

from slipstream import ConfigError
from slipstream.config import Config
from slipstream.config.sections import DenseSettings, EmbeddingSettings, TableSettings
from slipstream.pipeline.dense import OPTIMIZERS as DENSE_OPTIMIZERS
from slipstream.pipeline.dense import learning_rate
from slipstream.pipeline.strategies import strategy_of
from slipstream.tables.optimizers import OPTIMIZERS, Adam, Sgd
from slipstream.training.complete_config import complete


def by_flag(device):
    from slipstream.cli.config_options import ConfigOptions

    return ConfigOptions(None, {"device": device}, []).config()


def by_file(device, folder):
    (folder / "run.yaml").write_text(f"device: {device}\n")
    return Config.read(folder / "run.yaml")


@pytest.mark.parametrize(
    ("device", "name"), [("cpu", "plain"), ("cuda", "fast"), ("cuda:1", "fast")]
)
def test_however_the_device_is_chosen_the_strategy_is_the_fast_one_for_it(device, name, tmp_path):
    for config in (
        by_flag(device),
        by_file(device, tmp_path),
        Config().with_settings([f"device={device}"]),
        Config(device=device),
    ):
        assert complete(config).strategy == name
        assert strategy_of(config) == strategy_of(Config(strategy=name))
        named = config.with_settings(["strategy=bagpipe"])
        assert complete(named).strategy == "bagpipe"


def test_a_complete_configuration_has_the_learning_rates():
    for name, optimizer in OPTIMIZERS.items():
        config = complete(Config(embedding={"optimizer": name}))
        assert config.embedding.lr == optimizer().lr > 0
        assert config.embedding.settings() == EmbeddingSettings(optimizer=name).settings()
    for name in DENSE_OPTIMIZERS:
        config = complete(Config(dense={"optimizer": name}))
        assert config.dense.lr == learning_rate(DenseSettings(optimizer=name)) > 0
    assert complete(config) == config


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ("strategy=fats", "strategy is 'fats'; it must be plain, fae,"),
        ("model.name=dlmr", "model.name is 'dlmr'; it must be dlrm, tbsm,"),
        ("skip.rule=valeu", "Did you mean value?"),
        ("order.kind=cold", "order.kind is 'cold'; it must be as-is, apart, cold-first or split"),
        ("dense.optimizer=adm", "it must be sgd, adagrad or adam. Did you mean adam?"),
        ("embedding.tables.ad.storage=fp31", "embedding.tables.ad.storage is 'fp31'; it must be"),
        (
            "embedding.options.beta1=1",
            "options.beta1 is 1, but rowwise_adagrad has no beta1",
        ),
        (
            "embedding.tables.ad.options.b=1",
            "embedding.tables.ad.options.b is 1, but rowwise",
        ),
    ],
)
def test_names_of_plug_ins_are_checked_when_a_run_begins(setting, sentence):
    with pytest.raises(ConfigError) as error:
        complete(Config().with_settings([setting]))
    assert sentence in str(error.value)


def test_a_table_takes_what_holds_for_all_unless_its_optimizer_is_another():
    embedding = EmbeddingSettings(
        optimizer="sgd",
        lr=0.5,
        options={"weight_decay": 0.1},
        storage="bf16",
        tables={
            "ad": TableSettings(dim=4, lr=0.2),
            "user": TableSettings(optimizer="adam", options={"beta1": 0.5}, storage="fp32"),
        },
    )
    everywhere, tables = embedding.settings()
    assert everywhere == {"optimizer": Sgd(0.5, 0.1), "storage": "bf16"}
    assert tables == {
        "ad": {"dim": 4, "optimizer": Sgd(0.2, 0.1)},
        "user": {"optimizer": Adam(beta1=0.5), "storage": "fp32"},
    }
    assert EmbeddingSettings(optimizer="sgd").settings() == (
        {"optimizer": Sgd(0.1), "storage": "fp32"},
        {},
    )
