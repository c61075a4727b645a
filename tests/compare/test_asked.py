import pytest

from slipstream.compare.asked import asked
from slipstream.errors import ConfigError
from slipstream.pipeline.strategies import STRATEGIES


def test_without_a_word_all_strategies_are_compared_with_five_seeds():
    config, choices, named = asked(None, {"data": "clicks"}, [], {})
    assert list(choices.strategies) == [*STRATEGIES, "plain+random"]  # slipstream skips
    assert (choices.seeds, named, config.data) == (5, False, "clicks")
    assert config.placement.fast_memory == "auto"
    assert not config.log.tensorboard


def test_what_is_asked_for_goes_before_the_defaults(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("placement:\n  fast_memory: 20%\nbatch_size: 64\n")
    config, _, _ = asked(file, {"batch_size": 128}, ["evaluate.at=[0.5]"], {})
    assert config.placement.fast_memory == "20%"
    assert (config.batch_size, config.evaluate.at) == (128, (0.5,))


def test_a_file_says_what_to_compare_and_flags_go_before_it(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text(
        "batch_size: 64\ncompare:\n  strategies: [plain, fast]\n  seeds: 2\n"
        "  grid:\n    placement.fast_memory: [5%, 10%]\n"
    )
    config, choices, named = asked(file, {}, [], {"seeds": 3})
    assert (list(choices.strategies), choices.seeds, named) == (["plain", "fast"], 3, True)
    assert choices.grid == {"placement.fast_memory": ["5%", "10%"]}
    assert config.batch_size == 64


@pytest.mark.parametrize(
    ("section", "problem"),
    [
        ("strategie: [plain]", r"no key 'strategie'. Did you mean strategies\?"),
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
        asked(file, {}, [], {})


def test_a_wrong_key_beside_the_section_is_named_with_its_line(tmp_path):
    file = tmp_path / "c.yaml"
    file.write_text("compare:\n  seeds: 2\nbatch_sise: 64\n")
    with pytest.raises(ConfigError, match=r"c.yaml, line 3: There is no key batch_sise"):
        asked(file, {}, [], {})
