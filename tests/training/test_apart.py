"""Training with hot and cold batches apart, and going on with it."""

import shutil

import pytest
from kills import outcome
from small_runs import clicks, config, lines, short_segments, skewed, stop_after

from slipstream.errors import ConfigError
from slipstream.pipeline.strategies import STRATEGIES
from slipstream.training import build
from slipstream.training.loop import StoppedError, train
from slipstream.training.placement import tier_sizes_of

SETTINGS = ("placement.fast_memory=60%", "evaluate.at=[]")


@pytest.fixture(autouse=True)
def _short_segments(monkeypatch):
    short_segments(monkeypatch, 5)


def fae(*settings, **keys):
    return config(*SETTINGS, *settings, strategy="fae", **keys)


def apart_from_counts(run):
    """What a run leaves; transfers are counted from where this process began."""
    left = outcome(run)
    for name in ("transfers", "hot_access_share"):
        del left["summary"][name]
    return left


def files_of(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_it_equals_the_same_batches_with_all_rows_in_one_place_bitwise(tmp_path):
    dataset = skewed()
    tiers = train(dataset, fae(epochs=2), tmp_path / "tiers")
    slow = train(dataset, fae("placement.kind=slow", epochs=2), tmp_path / "slow")
    window = ("placement.kind=lookahead", "placement.window=1")
    ahead = train(dataset, fae(*window, epochs=2), tmp_path / "ahead")
    assert tiers["hot_rows"] > 0
    assert tiers["weights_digest"] == slow["weights_digest"] == ahead["weights_digest"]
    plain = train(dataset, config(epochs=2), tmp_path / "plain")
    assert plain["weights_digest"] != slow["weights_digest"], "the order is another one"
    assert tiers["inputs_trained"] == plain["inputs_trained"]


def test_no_batch_mixes_hot_and_cold_inputs():
    dataset, keys = skewed(), fae()
    model = build.model_of(keys, dataset)
    tier_sizes = tier_sizes_of(keys, model.layout, dataset)
    order = build.run_order(keys, model.layout, dataset, tier_sizes)
    hot = order.hot
    kinds = [hot(cut.example_numbers) for cut in iter(order.cuts(0, 16).__next__, None)]
    assert any(kind.all() for kind in kinds)
    assert any(not kind.any() for kind in kinds)
    assert all(kind.all() or not kind.any() for kind in kinds)


def test_the_rate_follows_losses_of_the_validation_part(tmp_path):
    train(skewed(), fae(), tmp_path)
    reported = lines(tmp_path, "ordering")
    # 480 inputs are six segments of 80; after the last one nothing is to be decided.
    assert [line["position"] for line in reported] == [80, 160, 240, 320, 400]
    assert [line["decision"] for line in reported] == [0, 1, 2, 3, 4]


def test_stopped_whenever_it_asks_it_ends_the_same(tmp_path):
    dataset, keys = skewed(300), fae("checkpoint.every_inputs=64", epochs=2)
    train(dataset, keys, tmp_path / "whole")
    wanted = apart_from_counts(tmp_path / "whole")
    for stop in range(0, 36, 5):
        run = tmp_path / "stopped"
        with pytest.raises(StoppedError):
            train(dataset, keys, run, hooks=stop_after(stop))
        train(dataset, keys, run, resume=True)
        assert apart_from_counts(run) == wanted, stop
        shutil.rmtree(run)


def test_more_epochs_are_those_of_a_longer_run(tmp_path):
    dataset = skewed(300)
    longer = train(dataset, fae(epochs=2), tmp_path / "whole")
    train(dataset, fae(), tmp_path / "run")
    again = train(dataset, fae(epochs=2), tmp_path / "run", resume=True)
    assert again["weights_digest"] == longer["weights_digest"]


def test_where_a_segment_ends_a_run_goes_on_with_any_strategy(tmp_path):
    dataset = skewed()
    train(dataset, fae("checkpoint.every_inputs=80", stop=240), tmp_path / "run")
    for name in (name for name, strategy in STRATEGIES.items() if strategy.skipping == "none"):
        shutil.copytree(tmp_path / "run", tmp_path / name)
        other = fae("placement.fast_memory=80%", epochs=2, stop=240)
        other = other.with_settings([f"strategy={name}"])
        summary = train(dataset, other, tmp_path / name, resume=True)
        assert summary["inputs_trained"] == 480
        back = train(dataset, fae(epochs=3, stop=240), tmp_path / name, resume=True)
        assert back["inputs_trained"] == 720


def test_inside_a_segment_another_order_is_refused(tmp_path):
    dataset = skewed()
    with pytest.raises(StoppedError):
        train(dataset, fae(), tmp_path, hooks=stop_after(2))
    plain = fae().with_settings(["strategy=plain"])
    before = files_of(tmp_path)
    with pytest.raises(ConfigError, match=r"between 0 and 80, where hot and cold"):
        train(dataset, plain, tmp_path, resume=True)
    assert files_of(tmp_path) == before, "nothing is touched that was not found right"
    assert train(dataset, fae(), tmp_path, resume=True)["inputs_trained"] == 480


def test_what_does_not_go_together_is_said(tmp_path):
    wrong = {
        "fae placement.kind=learned": "only learned on the way",
        "hotline placement.kind=slow": "no rows are kept",
        "bagpipe order.kind=split": "no rows are kept",
        "hotline compile=on": "compile is on",
        "fea epochs=1": "Did you mean fae",
    }
    for text, why in wrong.items():
        name, setting = text.split()
        with pytest.raises(ConfigError, match=why):
            keys = config("placement.fast_memory=100%", setting, strategy=name)
            train(skewed(60), keys, tmp_path / "run")
    with pytest.raises(ConfigError, match="too small: no batch fits"):
        train(skewed(60), fae("placement.fast_memory=5%"), tmp_path / "run")
    with pytest.raises(ConfigError, match="too small: no batch fits"):
        few = ("placement.fast_memory=5%", "placement.kind=slow")
        train(skewed(60), fae(*few), tmp_path / "run")  # it says what is hot there, too
    with pytest.raises(ConfigError, match="has none"):
        train(clicks(validation=0.0), fae(), tmp_path / "run")
    assert not (tmp_path / "run").exists()
