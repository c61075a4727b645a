"""The sentence at the end of a run that skips."""

import numpy as np

from slipstream.skip.outcome import sentence, yardstick

SUMMARY = {
    "skip_share": 0.3,
    "inputs_trained": 70,
    "inputs_skipped": 30,
    "train_seconds": 7.5,
}


def curve_of(inputs, off=0.0):
    return [
        {"inputs_trained": n, "auc": 0.6 + 0.02 * np.log(n) + off * (-1) ** k}
        for k, n in enumerate(inputs)
    ]


def test_the_yardstick_is_the_cost_of_fewer_examples_on_a_curve_that_is_a_line():
    curve = curve_of([500, 600, 700, 800, 900, 1000])
    cost = yardstick(curve, 0.2)
    assert np.isclose(cost.auc, curve[5]["auc"] - curve[3]["auc"])
    assert cost.half < 1e-9


def test_points_off_the_line_make_it_less_certain():
    curve = curve_of([500, 600, 700, 800, 900, 1000], 0.001)
    assert yardstick(curve, 0.2).half > 3e-4  # Student's t with four degrees of freedom


def test_too_few_points_make_no_yardstick():
    assert yardstick([{"inputs_trained": 5, "auc": 0.6}], 0.2) is None
    assert "not known" in sentence("value", SUMMARY, 0.5)


def test_the_sentence_has_share_time_losses_and_cost():
    cost = yardstick(curve_of((5, 6, 7, 8)), 0.3)._asdict()
    losses = {"loss_skipped": 0.5, "loss_trained": 0.25, "skipped_examples_scored": 1000}
    summary = SUMMARY | losses | {"cost_at_random": cost}
    text = sentence("value", summary, 0.5, target="why")
    assert text.startswith("value: 30.0 % of examples skipped (why), which saved about 2.5 s ")
    assert "0.5000 of skipped examples (1,000 were scored), 0.2500 of trained ones" in text
    assert "as many skipped at random would have cost about 0.0071 ± 0.0000 AUC" in text


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
