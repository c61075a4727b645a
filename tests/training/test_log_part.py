"""Training on a part of the log: the oldest or the newest examples are left out."""

import pytest
from small_runs import clicks, config, short_segments, skewed, skip_rule, stop_after

from slipstream import ConfigError
from slipstream.pipeline.strategies import ORDERS, STRATEGIES
from slipstream.skip import RULES
from slipstream.training import build
from slipstream.training.loop import StoppedError, train
from slipstream.training.placement import tier_sizes_of

HOT = ("skip.options.hot_sample=1", "skip.options.hot_memory=8%")
FAST = "placement.fast_memory=60%"


@pytest.fixture(autouse=True)
def _short_segments(monkeypatch):
    short_segments(monkeypatch, 4)


@pytest.mark.parametrize("kind", ORDERS)
@pytest.mark.parametrize("shuffle", [False, True])
def test_every_order_has_the_examples_of_the_part_and_no_others(kind, shuffle):
    data = skewed()  # 480 examples in the training part
    hot = HOT if kind == "cold-first" else ()
    keys = config(
        f"order.kind={kind}", *hot, FAST, strategy="fast", start="25%", stop=400, epochs=2
    )
    keys = keys.replace(shuffle=shuffle)
    layout = build.model_of(keys, data).layout
    order = build.run_order(keys, layout, data, tier_sizes_of(keys, layout, data))
    numbers = []
    for cut in order.cuts(0, 16):
        numbers += list(cut.example_numbers)
        if (number := order.pending_decision(cut.next_position)) is not None:
            order.report_loss(number, 0.5)
    assert sorted(numbers) == sorted([*range(120, 400)] * 2)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_run_on_a_part_says_so_and_goes_on_where_it_was_stopped(name, tmp_path):
    hot = HOT if name == "slipstream" else ()
    keys = config(*hot, FAST, strategy=name, start=120, stop="75%", epochs=2)
    data = skewed()
    whole = train(data, keys, tmp_path / "whole")
    assert whole["trained_part"] == "examples 120 to 360 of 480 (50%)"
    assert whole["inputs_total"] == 480
    with pytest.raises(StoppedError):
        train(data, keys, tmp_path / "run", hooks=stop_after(7))
    again = train(data, keys, tmp_path / "run", resume=True)
    assert again["weights_digest"] == whole["weights_digest"]
    with pytest.raises(ConfigError, match="started with another start"):
        train(data, keys.replace(start=0), tmp_path / "run", resume=True)


@pytest.mark.parametrize("rule", RULES)
def test_rules_of_skipping_look_at_the_part_alone(rule, tmp_path):
    settings = ("skip.warmup=0.1", "skip.interval=0.1", FAST)
    keys = config(*settings, *skip_rule(rule), batch_size=8, start="50%", compile="off")
    summary = train(skewed(1000), keys, tmp_path)
    assert summary["inputs_trained"] + summary["inputs_skipped"] == 400


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"start": 240}, "start is 240, but there are 240 examples"),
        ({"stop": 241}, "stop is 241, but there are 240 examples"),
        ({"start": "50%", "stop": 120}, "start is 120 and stop is 120; start must be below stop"),
    ],
)
def test_a_part_that_is_not_there_is_an_error(keys, sentence, tmp_path):
    with pytest.raises(ConfigError, match=sentence):
        train(clicks(), config(**keys), tmp_path / "run")
    assert not (tmp_path / "run").exists()
