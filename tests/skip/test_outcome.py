"""What a run with skipping says at its end."""

import numpy as np

from slipstream.skip.outcome import sentence, yardstick

SUMMARY = {
    "skip_share": 0.3,
    "inputs_trained": 70,
    "inputs_skipped": 30,
    "train_seconds": 7.5,
}


def test_the_yardstick_is_what_fewer_inputs_would_have_cost_on_a_curve_that_is_a_line():
    inputs = [500, 600, 700, 800, 900, 1000]
    curve = [{"inputs_trained": n, "auc": 0.6 + 0.02 * np.log(n)} for n in inputs]
    cost = yardstick(curve, 0.2)
    at = {n: one["auc"] for n, one in zip(inputs, curve, strict=True)}
    assert np.isclose(cost.auc, at[1000] - at[800])
    assert cost.half < 1e-9


def test_points_off_the_line_make_it_less_certain():
    inputs = [500, 600, 700, 800, 900, 1000]
    off = [0.001, -0.001] * 3
    pairs = zip(inputs, off, strict=True)
    curve = [{"inputs_trained": n, "auc": 0.6 + 0.02 * np.log(n) + e} for n, e in pairs]
    assert yardstick(curve, 0.2).half > 3e-4  # Student's, of four points that are free


def test_too_few_points_say_nothing():
    assert yardstick([{"inputs_trained": 5, "auc": 0.6}], 0.2) is None
    assert "not known" in sentence("value", SUMMARY, 0.5, None)


def test_the_sentence_has_share_time_and_cost():
    curve = [{"inputs_trained": n, "auc": 0.6 + 0.02 * np.log(n)} for n in (5, 6, 7, 8)]
    text = sentence("value", SUMMARY, 0.5, yardstick(curve, 0.3))
    assert text.startswith("value: 30.0 % of inputs skipped, which saved about 2.5 s beside 7.5 s")
    assert "would have cost about 0.0071 ± 0.0000 AUC" in text
    assert "published, once: " in sentence("published", SUMMARY, 0.5, None, "once")


def test_a_run_that_skipped_nothing_says_what_looking_took():
    nothing = SUMMARY | {"skip_share": 0.0, "inputs_skipped": 0}
    assert sentence("value", nothing, 0.5, None) == (
        "value: nothing was skipped; looking for it took 0.5 s."
    )
    assert "nothing was skipped (no way); looking" in sentence(
        "value", nothing, 0.5, None, "once", "no way"
    )


def test_a_run_that_took_longer_than_it_saved_says_so():
    text = sentence("value", SUMMARY, 4.0, None)
    assert "skipped, which took about 2.5 s more than it saved beside 7.5 s of training." in text


def test_the_share_asked_for_and_the_losses_are_in_the_sentence():
    text = sentence("value", SUMMARY, 0.5, None, asked="why", losses=(0.5, 0.25, 1000))
    assert "30.0 % of inputs skipped (why), which saved" in text
    assert "skipped examples: 0.5000 (1,000 were scored), of trained ones 0.2500." in text


def test_a_run_that_froze_rows_says_how_many_updates_were_left_out():
    frozen = SUMMARY | {"skip_share": 0.0, "inputs_skipped": 0, "row_updates_frozen": 0.31}
    text = sentence("freeze", frozen, 0.5, None, "once")
    assert text.startswith("freeze, once: no input was skipped, and 31.0 % of row updates ")
