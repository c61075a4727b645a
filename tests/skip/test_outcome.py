"""The sentence at the end of a run that skips."""

from slipstream.skip.outcome import sentence

SUMMARY = {
    "skip_share": 0.3,
    "inputs_trained": 70,
    "inputs_skipped": 30,
    "train_seconds": 7.5,
}


def test_the_sentence_has_share_time_and_losses():
    losses = {"loss_skipped": 0.5, "loss_trained": 0.25, "skipped_examples_scored": 1000}
    summary = SUMMARY | losses
    text = sentence("value", summary, 0.5, target="why")
    assert text.startswith("value: 30.0 % of examples skipped (why), which saved about 2.5 s ")
    assert "0.5000 of skipped examples (1,000 were scored), 0.2500 of trained ones" in text


def test_a_run_that_skipped_nothing_has_the_reason():
    nothing = SUMMARY | {"skip_share": 0.0, "inputs_skipped": 0}
    text = "value: nothing was skipped; judging took 0.5 s."
    assert sentence("value", nothing, 0.5) == text
    assert "nothing was skipped (no way); judging" in sentence("value", nothing, 0.5, why="no way")


def test_a_run_that_took_longer_than_it_saved_is_reported_as_that():
    text = sentence("value", SUMMARY, 4.0)
    assert "skipped, which took about 2.5 s more than it saved beside 7.5 s of training." in text


def test_a_run_that_froze_rows_has_the_share_of_updates():
    frozen = SUMMARY | {"skip_share": 0.0, "inputs_skipped": 0, "row_updates_frozen": 0.31}
    text = sentence("freeze", frozen, 0.5)
    assert text.startswith("freeze: no example was skipped, and 31.0 % of row updates left out")
