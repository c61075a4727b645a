"""The preset `skipping` compares every rule, each beside random skipping."""

import pytest

from slipstream import Config, Dataset, Recipe, synthesize
from slipstream.analyze.compare.comparison import Comparison
from slipstream.analyze.compare.grid import Choices
from slipstream.analyze.compare.presets import preset_settings, scaled_to, with_own_options
from slipstream.skip import RULES


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return synthesize(Recipe(rows=3000), tmp_path_factory.mktemp("data") / "clicks")


def test_it_has_every_rule_full_training_and_random_controls():
    settings = preset_settings("skipping")
    assert {keys.get("skip.rule", "none") for keys in settings} == {"none", *RULES}
    targets = {keys.get("skip.target") for keys in settings if keys.get("skip.rule") == "random"}
    assert targets >= {0.1, 0.3, 0.5}


def test_every_setting_can_be_trained_and_has_a_label_of_its_own(data, tmp_path):
    base = Config(data=str(data), batch_size=8)
    choices = Choices(preset="skipping", models=["dlrm", "deepfm"], seeds=1)
    comparison = Comparison(base, choices, tmp_path / "compared")
    comparison.check(leave_out=False, warn=pytest.fail)
    assert len({run.name for run in comparison.runs}) == 2 * len(preset_settings("skipping"))


def test_published_counts_are_scaled_to_the_data(data):
    dataset = Dataset.open(data)
    options = scaled_to(Config(batch_size=10, strategy="slipstream"), dataset).skip.options
    # 6 of 255 batches are as 1,000 of 44,766.
    assert options == {"warmup_batches": 6, "hot_memory": "12%", "sample_share": 1.0}
    assert scaled_to(Config(batch_size=10), dataset).skip.options == {}


def test_an_option_of_a_rule_is_left_out_where_another_rule_or_none_is_used():
    option = {"skip.options.warmup_batches": 4, "skip.options.typo": 1}
    settings = [f"{key}={value}" for key, value in option.items()]
    base = Config().with_settings(settings)
    plain, slipstream = with_own_options(
        [base.replace(strategy="plain"), base.replace(strategy="slipstream")]
    )
    assert plain.skip.options == {"typo": 1}, "it is an error when the run is checked"
    assert slipstream.skip.options == {"warmup_batches": 4, "typo": 1}
