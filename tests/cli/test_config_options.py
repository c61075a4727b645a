"""The configuration from a file, flags and settings of a command."""

import pytest

from slipstream.cli.config_options import FLAGS, ConfigOptions
from slipstream.models import MODELS
from slipstream.pipeline.strategies import ORDERS, PLACEMENTS, STRATEGIES, default_strategy
from slipstream.skip.registry import RULES


@pytest.mark.parametrize(
    ("flags", "settings", "strategy"),
    [
        ({}, [], "plain"),
        ({"device": "cuda"}, [], "fast"),
        ({}, ["device=cuda:1"], "fast"),
        ({"device": "cuda", "strategy": "plain"}, [], "plain"),
        ({"device": "cuda"}, ["strategy=bagpipe"], "bagpipe"),
    ],
)
def test_on_a_gpu_the_strategy_is_fast_unless_another_is_named(flags, settings, strategy):
    config = ConfigOptions(None, flags, settings).config()
    assert (config.strategy or default_strategy(config.device)) == strategy


def test_flags_go_over_the_file_and_settings_over_flags(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("seed: 1\nepochs: 2\nbatch_size: 64\n")
    flags = {"epochs": 3, "batch_size": 32, "seed": None}
    config = ConfigOptions(file, flags, ["batch_size=16"]).config()
    assert (config.seed, config.epochs, config.batch_size) == (1, 3, 16)


@pytest.mark.parametrize(
    ("flag", "names"),
    [
        ("model", MODELS),
        ("strategy", STRATEGIES),
        ("ordering", ORDERS),
        ("placement", PLACEMENTS),
        ("skip", RULES),
    ],
)
def test_the_help_of_a_flag_lists_its_values(flag, names):
    assert [name for name in names if name not in FLAGS[flag].help] == []
