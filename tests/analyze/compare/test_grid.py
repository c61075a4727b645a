import pytest

from slipstream.analyze.compare.grid import Choices, parse_grid, planned_runs
from slipstream.config import Config
from slipstream.errors import ConfigError


def names(choices, base=None):
    return [run.name for run in planned_runs(base or Config(), choices)]


def test_seeds_are_interleaved_and_each_round_begins_with_another():
    assert names(Choices(strategies=["plain", "fae", "fast"], seeds=3)) == [
        *("plain-seed0", "fae-seed0", "fast-seed0"),
        *("fae-seed1", "fast-seed1", "plain-seed1"),
        *("fast-seed2", "plain-seed2", "fae-seed2"),
    ]


def test_seeds_begin_with_the_one_that_is_configured():
    runs = planned_runs(Config(seed=7), Choices(strategies=["plain"], seeds=2))
    assert [(run.name, run.config.seed) for run in runs] == [("plain-seed7", 7), ("plain-seed8", 8)]


def test_models_and_a_grid_are_combined_with_every_strategy():
    grid = {"placement.fast_memory": ["5%", "10%"]}
    runs = planned_runs(
        Config(), Choices(strategies=["plain", "fast"], models=["dlrm", "dcn"], seeds=1, grid=grid)
    )
    assert len(runs) == 8
    assert {run.setting for run in runs} >= {
        "dlrm, fast, fast_memory 5%",
        "dcn, plain, fast_memory 10%",
    }
    fast = next(run for run in runs if run.setting == "dcn, fast, fast_memory 10%")
    assert (fast.config.model.name, fast.config.placement.fast_memory) == ("dcn", "10%")
    assert len({run.name for run in runs}) == 8


def test_rules_of_skipping_come_with_every_strategy_or_with_one():
    runs = planned_runs(
        Config(), Choices(strategies=["plain", "fast+value"], skip=["random"], seeds=1)
    )
    assert [run.setting for run in runs] == ["plain", "fast, skip value", "plain, skip random"]
    assert [run.config.skip.rule for run in runs] == [None, "value", "random"]


def test_names_are_fit_for_files():
    grid = {"model.top": [[8, 4]]}
    (run,) = planned_runs(Config(), Choices(strategies=["plain"], seeds=1, grid=grid))
    assert run.name == "plain-top-8-4-seed0"


def test_a_typo_is_named_before_anything_is_trained():
    with pytest.raises(ConfigError, match=r"no strategy 'fats'. Did you mean fast\?"):
        names(Choices(strategies=["plain", "fats"]))
    with pytest.raises(ConfigError, match=r"no key placement.fast_memori"):
        names(Choices(strategies=["plain"], grid={"placement.fast_memori": ["5%"]}))
    with pytest.raises(ConfigError, match="plain stands twice"):
        names(Choices(strategies=["plain", "plain"]))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("batch_size", "write KEY=VALUE"),
        ("seed=1,2", "--seeds"),
        ("strategy=plain,fast", "--strategies"),
        ("batch_size=[]", "no list of values"),
    ],
)
def test_a_grid_that_cannot_be_is_an_error(text, problem):
    with pytest.raises(ConfigError, match=problem):
        Choices(grid=parse_grid([text]))


def test_values_of_a_grid_are_read_as_in_a_configuration():
    assert parse_grid(["batch_size=64,128"]) == {"batch_size": [64, 128]}
    assert parse_grid(["dense.lr=1e-3"]) == {"dense.lr": [0.001]}
    with pytest.raises(ConfigError, match="stands twice"):
        parse_grid(["batch_size=64", "batch_size=128"])
