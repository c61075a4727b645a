"""Pilots: the largest share that they show to be cheap enough, or nothing, and a sentence."""

import numpy as np
import pytest
from small_runs import clicks, config

from slipstream import ConfigError
from slipstream.training.loop import StoppedError, train
from slipstream.training.pilots import SEEDS, SHARES, piloted
from slipstream.training.state import Hooks

RANDOM = ("skip.rule=random", "skip.max_auc_loss=0.002", "skip.pilot_share=1")


class Trained:
    """Stands for the trainings, with a known fall of the AUC for each share, and some noise."""

    def __init__(self, fall, noise=0.0):
        self.fall, self.noise, self.seen, self.scored = fall, noise, [], []

    def __call__(self, dataset, config, folder):
        share = 0.0 if config.skip.rule == "none" else config.skip.target
        self.seen.append((config.seed, share, config.limit))
        self.scored.append(dataset.evaluation)
        auc = 0.7 + 0.01 * config.seed - self.fall * share
        return {"auc": auc + self.noise * (config.seed % 2) * (share > 0), "skip_share": share}


def chosen(trained, *settings):
    said = []
    made, report = piloted(
        clicks(6000), config(*RANDOM, *settings, batch_size=4), trained, said.append
    )
    return made.skip.target, report, " ".join(said)


def test_the_largest_share_that_costs_little_enough_is_taken():
    share, report, said = chosen(Trained(fall=0.005))
    assert share == report["chosen"] == 0.3
    assert "at 50% skipped" not in said
    assert "The run skips 30%" in said


def test_pairs_that_scatter_too_much_to_tell_skip_nothing_and_say_so():
    share, report, said = chosen(Trained(fall=0.0, noise=0.02))
    assert share == report["chosen"] == 0
    assert "cannot show that skipping costs no more than 0.002 AUC" in said
    assert len(report["shares"]) == len(SHARES)


def test_together_they_stay_within_the_stated_share_of_the_run():
    trained = Trained(fall=1.0)
    data = clicks(6000)
    made = config(*RANDOM, "skip.pilot_share=0.25", batch_size=2)
    piloted(data, made, trained, lambda _: None)
    assert len(trained.seen) == SEEDS * (1 + len(SHARES))
    inputs = sum(limit for _, _, limit in trained.seen)
    assert inputs + sum(map(len, trained.scored)) / 3 <= 0.25 * len(data.train)


def test_each_seed_is_scored_on_a_piece_of_the_validation_part_of_its_own():
    trained, data = Trained(fall=1.0), clicks(6000)
    piloted(data, config(*RANDOM, batch_size=4), trained, lambda _: None)
    pieces = dict(zip((seed for seed, _, _ in trained.seen), trained.scored, strict=True))
    assert len(pieces) == SEEDS
    assert {one.name for one in pieces.values()} == {"validation"}
    found = [np.concatenate([run.labels for run in one.shards]) for one in pieces.values()]
    whole = np.concatenate([run.labels for run in data.validation.shards])
    assert np.array_equal(np.concatenate(found), whole[: sum(map(len, found))])


def test_too_little_data_for_pilots_is_said():
    share, _, said = chosen(Trained(fall=0.0), "skip.pilot_share=0.01")
    assert share == 0
    assert "fewer than 20 batches" in said


def test_without_a_rule_or_a_validation_part_it_is_refused():
    with pytest.raises(ConfigError, match="Choose a rule"):
        chosen(Trained(0.0), "skip.rule=none")
    with pytest.raises(ConfigError, match="needs a validation part"):
        piloted(clicks(200, validation=0), config(*RANDOM), Trained(0.0), lambda _: None)


@pytest.mark.parametrize("key", ["shares=[0.2]", "keep_negatives=0.5", "h_t=0.01"])
def test_a_share_that_is_said_already_is_refused(key):
    with pytest.raises(ConfigError, match="says it already"):
        chosen(Trained(fall=0.0), f"skip.{key}")


def test_real_pilots_run_before_the_run_and_are_in_its_summary(tmp_path):
    said = []
    made = config(*RANDOM, "skip.max_auc_loss=0.9", "skip.warmup=0.05", batch_size=4)
    summary = train(clicks(3000), made, tmp_path / "run", hooks=Hooks(say=said.append))
    pilots = summary["skipping"]["pilots"]
    assert pilots["chosen"] == 0.5
    assert any("Pilots of" in one for one in said)
    assert summary["skip_share"] == pytest.approx(0.46, abs=0.03)


def test_a_run_that_was_stopped_goes_on_with_the_share_that_pilots_chose(tmp_path):
    said, asked = [], iter(range(1000))
    stop = lambda: bool(said) and next(asked) > 50  # noqa: E731 - they speak before the run
    made = config(*RANDOM, "skip.max_auc_loss=0.9", "skip.warmup=0.05", batch_size=4)
    data, hooks = clicks(3000), Hooks(say=said.append, stop=stop)
    with pytest.raises(StoppedError):
        train(data, made, tmp_path / "run", hooks=hooks)
    summary = train(data, made, tmp_path / "run", resume=True)
    assert summary["skipping"]["pilots"]["chosen"] == 0.5
    assert summary["skip_share"] == pytest.approx(0.46, abs=0.03)
