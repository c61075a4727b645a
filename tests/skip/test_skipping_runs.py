"""Runs that skip: bitwise resume, and no change where nothing is skipped."""

import pytest
from small_runs import config, lines, skip_rule, stop_after
from trained import SIZES

from slipstream import ConfigError, Dataset, Recipe, gpu, synthesize
from slipstream.config import Config
from slipstream.skip import RULES
from slipstream.skip.skipper import Skipper
from slipstream.training.estimate import estimate
from slipstream.training.loop import StoppedError, train

pytestmark = pytest.mark.usefixtures("segments_of_12_batches")
SHORT = (
    "skip.warmup=0.1",
    "skip.interval=0.1",
    "placement.fast_memory=60%",
)
RUNS = [
    ("plain", {}),
    ("fae", {}),
    ("hotline", {"compile": "off"}),
    ("fast", {}),
]


@pytest.fixture(scope="module")
def histories(tmp_path_factory):
    recipe = Recipe(rows=1500, shape="taobao")
    return Dataset.open(synthesize(recipe, tmp_path_factory.mktemp("data") / "histories"))


def run(data, out, rule, *settings, strategy="plain", hooks=None, resume=False, **keys):
    keys_of_run = config(*SHORT, *skip_rule(rule), *settings, strategy=strategy, **keys)
    return train(data, keys_of_run, out, hooks=hooks, resume=resume)


@pytest.mark.parametrize(("strategy", "keys"), RUNS)
def test_share_0_is_bitwise_a_run_without_skipping(data, tmp_path, strategy, keys, monkeypatch):
    plain = run(data, tmp_path / "plain", "none", strategy=strategy, **keys)
    skipped = run(data, tmp_path / "0", "value", "skip.target=0", strategy=strategy, **keys)
    assert skipped["weights_digest"] == plain["weights_digest"] or strategy == "fae"
    assert skipped["inputs_skipped"] == 0
    if strategy == "fae":  # a decision on its rate may come later, for what skipping might leave
        monkeypatch.setattr(gpu, "least_ordering_lag", lambda *_: 6)
        same = run(data, tmp_path / "f", "none", strategy=strategy, **keys)
        assert skipped["weights_digest"] == same["weights_digest"]


def test_a_threshold_is_searched_on_coming_examples_also_where_they_are_rearranged(data, tmp_path):
    settings = ("order.kind=cold-first", "skip.options.hot_memory=8%")
    late = ("skip.warmup=0.85", "skip.target=0.2", "skip.lag=5")  # only hot examples are left
    summary = run(data, tmp_path / "run", "random-hot", *settings, *late, batch_size=8)
    first = next(each for each in summary["skipping"]["decisions"] if "target" in each)
    assert first["reached"] == pytest.approx(0.2, abs=0.02)
    assert first["share"] == pytest.approx(0.2, abs=0.08)


CASES = [
    *(("plain", rule) for rule in ("movement", "value", "freeze", "random")),
    *(("slipstream", rule) for rule in ("published", "random-hot")),
    *(("fae", rule) for rule in ("value", "thin")),
    ("fast", "case-control"),
    ("hotline", "value"),
    ("hotline", "freeze"),
]


@pytest.mark.parametrize(("strategy", "rule"), CASES)
def test_a_run_that_was_stopped_ends_where_an_uninterrupted_one_does(
    data, tmp_path, rule, strategy
):
    keys = {"strategy": strategy, "epochs": 2}
    whole = run(data, tmp_path / "whole", rule, **keys)
    for stop in (0, 20, 90):
        with pytest.raises(StoppedError):
            more = {"hooks": stop_after(stop), "resume": stop > 0}
            run(data, tmp_path / "r", rule, **more, **keys)
    again = run(data, tmp_path / "r", rule, resume=True, **keys)
    assert whole["inputs_skipped"] or rule == "freeze"
    for key in ("weights_digest", "auc", "inputs_trained", "inputs_skipped"):
        assert again[key] == whole[key]
    for key in ("decisions", "row_updates_frozen", "loss_skipped"):
        assert again["skipping"].get(key) == whole["skipping"].get(key)


@pytest.mark.parametrize("rule", ["published", "random-hot", "value"])
def test_every_run_that_skips_reports_what_it_skipped(data, tmp_path, rule):
    hot = () if rule == "value" else ("skip.options.hot_memory=30%",)
    skipping = run(data, tmp_path / "run", rule, *hot, epochs=3)["skipping"]
    assert 0 < skipping["loss_skipped"] < 2
    assert 0 < skipping["label_rate_skipped"] < 1


@pytest.mark.parametrize("strategy", ["fae", "fast"])
def test_where_rows_live_does_not_change_what_is_skipped_or_learned(data, tmp_path, strategy):
    settings = ("order.kind=as-is", "skip.lag=30")
    plain = run(data, tmp_path / "plain", "value", "skip.lag=30")
    other = run(data, tmp_path / "other", "value", *settings, strategy=strategy)
    assert other["weights_digest"] == plain["weights_digest"]


def test_thinned_negatives_leave_predictions_calibrated(data, tmp_path):
    settings = ("skip.target=0.6", "dense.lr=0.05")
    thin = run(data, tmp_path / "thin", "thin", *settings, epochs=4)
    assert thin["skipping"]["label_rate_skipped"] == 0
    assert thin["skipping"]["label_rate_trained"] > 0.3
    assert 0.8 < thin["calibration"] < 1.25


def test_a_run_that_ends_before_a_decision_holds_has_that_reason(data, tmp_path):
    summary = run(data, tmp_path / "run", "random", "skip.lag=1000")
    assert summary["inputs_skipped"] == 0
    assert (
        "(the run ended before a decision took effect, skip.lag batches after it)"
        in summary["skipping"]["sentence"]
    )


def test_compensation_never_skips_all_examples(data, tmp_path):
    settings = ("skip.target=0.9", "skip.options.min_touches=50")
    run(data, tmp_path / "run", "movement", *settings)
    wanted = [line["wanted"] for line in lines(tmp_path / "run", "skipping")]
    assert max(wanted) == pytest.approx(0.95)


@pytest.mark.parametrize("rule", ["thin", "freeze"])
def test_an_option_that_a_rule_does_not_have_is_an_error_before_anything_is_written(
    data, tmp_path, rule
):
    with pytest.raises(ConfigError, match=f"The rule {rule} has no option skip.options.explore"):
        run(data, tmp_path / "run", rule, "skip.options.explore=0.1")
    assert not (tmp_path / "run").exists()


def test_the_targets_of_a_schedule_come_in_turn(data, tmp_path):
    run(data, tmp_path / "run", "random", "skip.target_schedule=[0.1, 0.5]")
    targets = [line["target"] for line in lines(tmp_path / "run", "skipping")]
    assert targets[:3] == [0.1, 0.5, 0.5]


@pytest.mark.parametrize("model", ["tbsm", "dcn", "deepfm", "wide_deep"])
@pytest.mark.parametrize("rule", ["published"])
def test_every_model_trains_with_examples_skipped(tmp_path, histories, model, rule):
    sizes = [each for each in SIZES[model] if not each.startswith("model.dim")]
    settings = [*SHORT, f"model.name={model}", *sizes, *skip_rule(rule, h_t=0.5)]
    keys_of_run = Config(batch_size=32).with_settings([*settings, "log.trackers=[]", "compile=off"])
    summary = train(histories, keys_of_run, tmp_path / "run")
    assert summary["inputs_skipped"] > 0
    assert summary["inputs_trained"] + summary["inputs_skipped"] == summary["inputs_total"]


def saved_bytes(monkeypatch, data, keys_of_run, out):
    """Train; returns the most bytes that skipping would save after a step."""
    update, sizes = Skipper.update, []

    def noted(self, *args):
        lines = update(self, *args)
        sizes.append(sum(tensor.nbytes for tensor in self.state_dict()[1].values()))
        return lines

    monkeypatch.setattr(Skipper, "update", noted)
    train(data, keys_of_run, out)
    return max(sizes)


@pytest.mark.parametrize("rule", RULES)
def test_the_estimate_holds_what_a_rule_keeps(data, tmp_path, rule, monkeypatch):
    keys_of_run = config(*SHORT, *skip_rule(rule), stop=600)
    nbytes = saved_bytes(monkeypatch, data, keys_of_run, tmp_path / "run")
    part = estimate(data, keys_of_run).host.get("skipping", 0)
    small = 4096  # a few numbers
    assert nbytes - small <= part <= 4 * nbytes + 16 * len(data.train)


def test_the_estimate_holds_decisions_that_wait_for_their_first_batch(data, tmp_path, monkeypatch):
    keys_of_run = config(*SHORT, *skip_rule("value"), "skip.lag=50", stop=600, epochs=3)
    few = estimate(data, keys_of_run.with_settings(["skip.interval=0.9"])).host["skipping"]
    nbytes = saved_bytes(monkeypatch, data, keys_of_run, tmp_path / "run")
    estimated = estimate(data, keys_of_run).host["skipping"]
    assert few < nbytes <= estimated / 2 + 4096, "it is saved as often"
