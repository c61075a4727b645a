import pytest

from slipstream.analyze.compare.grid import planned_runs
from slipstream.analyze.compare.options import read_options
from slipstream.errors import ConfigError
from slipstream.pipeline.strategies import STRATEGIES


def test_without_options_all_strategies_are_compared_with_five_seeds():
    config, choices = read_options(None, {"data": "clicks"}, [], {})
    assert [run.setting for run in planned_runs(config, choices)][: len(STRATEGIES) + 1] == [
        *STRATEGIES,
        "plain, skip random",  # slipstream skips
    ]
    assert (choices.seeds, choices.all, config.data) == (5, True, "clicks")
    assert config.placement.fast_memory == "auto"
    assert not config.log.trackers


def test_options_override_the_defaults(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("placement:\n  fast_memory: 20%\nbatch_size: 64\n")
    config, _ = read_options(file, {"batch_size": 128}, ["evaluate.at=[0.5]"], {})
    assert config.placement.fast_memory == "20%"
    assert (config.batch_size, config.evaluate.at) == (128, (0.5,))


def test_flags_override_the_section_of_the_file(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(
        "batch_size: 64\ncompare:\n  strategies: [plain, fast]\n  seeds: 2\n"
        "  grid:\n    placement.fast_memory: [5%, 10%]\n"
    )
    config, choices = read_options(file, {}, [], {"seeds": 3})
    assert (choices.strategies, choices.seeds, choices.all) == (("plain", "fast"), 3, False)
    assert choices.grid == {"placement.fast_memory": ["5%", "10%"]}
    assert config.batch_size == 64


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        (
            "strategie: [plain]",
            r"line 2: There is no key compare.strategie. .*compare.strategies\?",
        ),
        ("seeds: many", "seeds is 'many'"),
        ("strategies: plain", "must be a list of names"),
        ("grid: [1]", "grid is"),
        ("grid: {batch_size: 64}", "batch_size has no list of values"),
    ],
)
def test_a_wrong_section_is_named_with_the_file(tmp_path, section, problem):
    file = tmp_path / "c.yaml"
    file.write_text(f"compare:\n  {section}\n")
    with pytest.raises(ConfigError, match=problem):
        read_options(file, {}, [], {})


def test_a_wrong_key_beside_the_section_is_named_with_its_line(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("compare:\n  seeds: 2\nbatch_sise: 64\n")
    with pytest.raises(ConfigError, match=r"c.yaml, line 3: There is no key batch_sise"):
        read_options(file, {}, [], {})


def test_a_preset_replaces_the_strategies():
    _, choices = read_options(None, {}, [], {"preset": "skipping"})
    assert choices.preset == "skipping"
    with pytest.raises(ConfigError, match="leave --strategies and --skip out"):
        read_options(None, {}, [], {"preset": "skipping", "strategies": "plain"})
