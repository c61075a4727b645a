"""The sentence at the end of a run that skips."""

import pytest

from slipstream.skip.counts import SkipCounts, sentence

SUMMARY = {
    "skip_share": 0.3,
    "inputs_trained": 70,
    "inputs_skipped": 30,
    "train_seconds": 7.5,
    "overhead_seconds": 0.5,
}
NOTHING = SUMMARY | {"skip_share": 0.0, "inputs_skipped": 0}


def test_the_sentence_has_share_time_and_losses():
    text = sentence("value", SUMMARY | {"loss_skipped": 0.5, "loss_trained": 0.25}, "why")
    assert text.startswith("value: 30.0 % of examples skipped (why), which saved about 2.5 s ")
    assert "0.5000 of skipped examples, 0.2500 of trained ones" in text


def test_a_run_that_skipped_nothing_has_the_reason():
    text = sentence("value", NOTHING, "no way")
    assert text == "value: nothing was skipped (no way); judging took 0.5 s."


def test_a_run_that_took_longer_than_it_saved_is_reported_as_that():
    text = sentence("value", SUMMARY | {"overhead_seconds": 4.0}, "")
    assert "skipped, which took about 2.5 s more than it saved beside 7.5 s of training." in text


def test_a_run_that_froze_rows_has_the_share_of_updates():
    text = sentence("freeze", NOTHING | {"row_updates_frozen": 0.31}, "")
    assert text.startswith("freeze: no example was skipped, and 31.0 % of row updates left out")


@pytest.mark.parametrize(
    ("reached", "why", "of_sample", "end"),
    [
        (0.8, "", True, "80.0 % of the sampled examples, target 30.0 %"),
        (0.8, "", False, "70.0 % of 100 judged examples, target 30.0 %"),
        (0.3, "", False, "target 30.0 %; reason: the sampled examples differ from the others"),
        (0.8, "it is set", False, "target 30.0 %; reason: it is set"),
    ],
)
def test_a_share_far_from_the_target_has_a_reason_only_if_it_is_known(reached, why, of_sample, end):
    counts = SkipCounts()
    counts.add_decision({"decision": 1, "target": 0.3, "reached": reached, "why": why}, 0)
    state = counts.state_dict()
    state[-1] |= {"trained": 30, "skipped": 70}
    counts.load_state_dict(state)
    assert counts.share_and_target(of_sample=of_sample).endswith(end)
