"""Whole runs with a fast tier: the result of plain training, and its transfers, in numbers."""

import json
from itertools import count

import numpy as np
import pytest
from small_runs import clicks, config
from typer.testing import CliRunner

from slipstream import Dataset
from slipstream.cli.app import app
from slipstream.errors import ConfigError
from slipstream.pipeline.place.counting import COUNTED
from slipstream.pipeline.strategies import STRATEGIES
from slipstream.training.loop import Hooks, StoppedError, train
from slipstream.training.run import Run

TIERED = ("bagpipe", "fast")
SMALL = ("placement.fast_memory=70%", "placement.window=3")
CHECKPOINTS = ("checkpoint.every_inputs=48", "evaluate.at=[0.4]")


def stop_at(nth):
    """A function that returns True from its nth call on."""
    calls = count(1)
    return lambda: next(calls) >= nth


@pytest.mark.parametrize("name", TIERED)
@pytest.mark.parametrize("settings", [(), ("epochs=3", "shuffle=true"), ("stop=7",)])
def test_the_result_is_that_of_plain_training_to_the_bit(name, settings, tmp_path):
    keys = config(*SMALL, *CHECKPOINTS, *settings)
    plain = train(clicks(), keys, tmp_path / "plain")
    fast = train(clicks(), keys.with_settings([f"strategy={name}"]), tmp_path / "fast")
    assert fast["weights_digest"] == plain["weights_digest"]
    assert (fast["auc"], fast["curve"]) == (plain["auc"], plain["curve"])


@pytest.mark.parametrize("name", TIERED)
def test_so_it_is_with_histories(name, histories, tmp_path):
    keys = config("placement.fast_memory=40%", "stop=900", "evaluate.at=[]", batch_size=64)
    keys = keys.with_settings(["model={name: tbsm, dim: 4}"])
    dataset = Dataset.open(histories)
    plain = train(dataset, keys, tmp_path / "plain")
    fast = train(dataset, keys.with_settings([f"strategy={name}"]), tmp_path / "fast")
    assert fast["weights_digest"] == plain["weights_digest"]


def test_stopped_anywhere_and_resumed_with_other_strategies_and_budgets_it_ends_the_same(tmp_path):
    dataset, keys = clicks(), config(*CHECKPOINTS)
    wanted = train(dataset, keys, tmp_path / "plain")["weights_digest"]
    others = [
        ("strategy=bagpipe", "placement.fast_memory=70%"),
        ("strategy=fast", "placement.fast_memory=100%", "placement.window=2"),
        ("strategy=plain",),
        ("strategy=fast", "placement.fast_memory=60%"),
    ]
    run, stops = tmp_path / "run", 0
    while not (run / "summary.json").exists():
        chosen = keys.with_settings(others[stops % len(others)])
        try:
            train(dataset, chosen, run, resume=run.exists(), hooks=Hooks(should_stop=stop_at(4)))
        except StoppedError:
            stops += 1
        assert Run(run).config.strategy == chosen.strategy
    assert stops >= 4
    assert json.loads((run / "summary.json").read_text())["weights_digest"] == wanted


def test_which_inputs_are_trained_may_not_change_on_the_way(tmp_path, monkeypatch):
    other = STRATEGIES["fast"]._replace(skipping="some")
    monkeypatch.setitem(STRATEGIES, "other", other)
    with pytest.raises(StoppedError):
        train(clicks(), config(), tmp_path, hooks=Hooks(should_stop=stop_at(3)))
    with pytest.raises(ConfigError, match="another strategy, which cannot change"):
        train(clicks(), config("strategy=other"), tmp_path, resume=True)


@pytest.mark.parametrize("name", TIERED)
def test_counts_are_the_same_every_time_and_add_up(name, tmp_path):
    dataset = clicks(columns={"user": np.random.default_rng(0).zipf(1.4, 300) % 200})
    keys = config("placement.fast_memory=70%", "placement.window=1", f"strategy={name}")
    first = train(dataset, keys, tmp_path / "one")
    second = train(dataset, keys, tmp_path / "two")
    transfers = first["transfers"]
    assert transfers == second["transfers"]
    assert transfers["hits"] + transfers["misses"] == transfers["lookups"] > 0
    assert transfers["rows_in"] == transfers["misses"]
    # Of the rows that are kept at the start some have left, as rows are chosen anew.
    assert 0 <= transfers["rows_out"] - transfers["rows_in"] <= first["hot_rows"]
    assert transfers["bytes_in"] == transfers["rows_in"] * 4 * 3, "two elements and a sum"
    assert first["hot_access_share"] == transfers["hits"] / transfers["lookups"]
    assert transfers["per_input"] == {key: transfers[key] / 240 for key in COUNTED}
    assert (first["hot_rows"] > 0) == (name == "fast")


def test_counts_go_on_when_a_run_is_resumed(tmp_path):
    keys = config(*SMALL, "strategy=bagpipe")
    whole = train(clicks(), keys, tmp_path / "whole")["transfers"]
    with pytest.raises(StoppedError):
        train(clicks(), keys, tmp_path / "run", hooks=Hooks(should_stop=stop_at(8)))
    again = train(clicks(), keys, tmp_path / "run", resume=True)["transfers"]
    assert again["lookups"] == whole["lookups"]
    assert again["rows_in"] >= whole["rows_in"], "what was in the fast tier has come again"


def test_a_tier_that_is_too_small_is_said_with_what_would_do(tmp_path):
    with pytest.raises(ConfigError, match=r"Set placement.fast_memory to [0-9]+B or more"):
        train(clicks(), config("strategy=bagpipe", "placement.fast_memory=5%"), tmp_path)


def test_the_command_reports_transfers_in_a_sentence(request, tmp_path):
    words = ["train", str(request.getfixturevalue("clicks")), "--out", str(tmp_path / "run")]
    words += ["--strategy", "fast", "--stop", "512", "--batch-size", "64"]
    for setting in ("model.bottom=[4]", "model.top=[4]", "placement.fast_memory=50%"):
        words += ["--set", setting]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    (line,) = [line for line in done.output.splitlines() if line.startswith("Fast tier: ")]
    assert "% of row lookups" in line
    assert " copied in and " in line
