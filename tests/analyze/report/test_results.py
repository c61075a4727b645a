import pytest
from analyze.report.made_runs import run

from slipstream.analyze.report.answer import headline, notes
from slipstream.analyze.report.results import results_of
from slipstream.analyze.report.settings import groups_of
from slipstream.analyze.report.table import SHORT, cells

CARRIED = {"per_input": {"bytes_in": 40.0, "bytes_out": 20.0}}


def results(*runs):
    (group,) = groups_of(runs)
    return group, results_of(group)


def paired(strategy, aucs, rates, **summary):
    both = zip(aucs, rates, strict=True)
    return [run(strategy, n, auc=auc, rate=rate, **summary) for n, (auc, rate) in enumerate(both)]


PLAIN = paired("plain", (0.70, 0.72, 0.71), (1000, 1010, 990))


def test_inputs_a_second_leave_out_the_time_before_the_first_report():
    slow_start = run()
    for line in slow_start.lines:
        line["train_seconds"] += 60
    assert slow_start.inputs_per_second == pytest.approx(1000)
    assert slow_start.start_seconds == pytest.approx(60.1)


def test_a_clear_gain_at_no_cost_is_the_headline():
    _, compared = results(*PLAIN, *paired("fast", (0.7001, 0.7198, 0.7101), (2000, 2030, 1970)))
    text = headline(compared)
    assert text.startswith("fast is 2.00 times as fast as plain (95 % interval")
    assert "its AUC is the same within noise" in text


def test_a_gain_that_costs_is_named_with_its_price():
    _, compared = results(*PLAIN, *paired("slipstream", (0.69, 0.71, 0.70), (2000, 2030, 1970)))
    text = headline(compared)
    assert "Nothing is faster than plain at the same AUC by more than noise" in text
    assert "slipstream is faster: 2.00 times as fast as plain" in text
    assert "lowers the AUC by 0.0100" in text


def test_a_gain_within_noise_is_no_gain():
    _, compared = results(*PLAIN, *paired("fast", (0.70, 0.72, 0.71), (1500, 900, 1010)))
    assert headline(compared).startswith("Nothing is faster than plain by more than noise")


def test_a_claim_holds_also_for_the_best_of_many():
    """At 95 % each, the best of ten that are all alike would often be called faster."""
    rates = (1000, 1010, 990)
    others = [run for n in range(9) for run in paired(f"s{n}", (0.7,) * 3, rates)]
    lucky = paired("lucky", (0.7,) * 3, (1100, 1150, 1110))
    _, compared = results(*PLAIN, *lucky)
    assert compared[1].speed_up.verdict(1.0) == "higher"
    assert compared[1].faster
    _, compared = results(*PLAIN, *others, *lucky)
    assert compared[-1].speed_up.verdict(1.0) == "higher"
    assert not compared[-1].faster
    assert headline(compared).startswith("Nothing is faster than plain by more than noise")


def test_the_report_names_the_part_of_the_log_that_was_trained():
    late = "examples 250 to 1,000 of 1,000 (75%)"
    assert f"Part of the log that was trained: {late}." in notes(*results(run(trained_part=late)))


def test_one_seed_makes_no_claim():
    _, compared = results(run(), run("fast", rate=3000))
    assert "Fewer than three seeds cannot tell" in headline(compared)
    assert cells(compared, SHORT)[1][1][5] == "0\none seed"


def test_the_same_weights_are_no_small_difference():
    same = [
        run("fast", n, weights_digest=f"plain {n}", auc=r.summary["auc"])
        for n, r in enumerate(PLAIN)
    ]
    group, compared = results(*PLAIN, *same)
    assert compared[1].same_weights
    assert cells(compared)[1][1][5] == "0\nsame weights"
    assert any("exactly the weights of plain" in note for note in notes(group, compared))


def test_an_unfinished_run_is_reported_and_left_out():
    group, compared = results(*PLAIN, run("fast", ended=False))
    assert [result.label for result in compared] == ["plain"]
    assert any("fast-0 has not ended" in note for note in notes(group, compared))


def test_an_auc_of_one_class_is_no_reason_to_fail():
    _, compared = results(run(auc=None), run("fast", auc=None, rate=2000))
    assert "cannot be compared" in headline(compared)


def test_on_a_cpu_a_note_explains_that_a_placement_cannot_save_time():
    group, compared = results(*PLAIN, *paired("fast", (0.7,) * 3, (900,) * 3, transfers=CARRIED))
    assert any("On a CPU" in note for note in notes(group, compared))
    gpu = [run(s, device="cuda", transfers=CARRIED) for s in ("plain", "fast")]
    group, compared = results(*gpu)
    assert not any("On a CPU" in note for note in notes(group, compared))


def test_repeats_of_a_seed_count_once():
    _, compared = results(run(seed=0, auc=0.7), run(seed=0, auc=0.8), run(seed=1, auc=0.7))
    assert compared[0].values["auc"] == {0: pytest.approx(0.75), 1: 0.7}


def test_a_rule_that_skipped_nothing_is_named_and_is_no_baseline():
    keys = {"config": {"skip": {"rule": "published"}}}
    idle = paired("plain", (0.7,) * 3, (1000,) * 3, skipping={"sentence": "Too few."}, **keys)
    group, compared = results(*PLAIN, *idle)
    assert [result.baseline and result.baseline.label for result in compared] == [None, "plain"]
    assert "plain, skip published skipped nothing. Too few." in notes(group, compared)


def test_batches_that_did_not_fit_the_fast_tier_are_reported():
    runs = paired("fae", (0.7,) * 3, (900,) * 3, transfers=CARRIED | {"oversized_steps": 5})
    assert any(
        "fae trained 5 batches of a run in the slow" in s for s in notes(*results(*PLAIN, *runs))
    )


def skipping(share, aucs, rule):
    config = {"skip": {"rule": rule, "target": share}}
    return paired("plain", aucs, (1000,) * 3, skip_share=share, config=config)


def test_a_rule_is_compared_with_random_skipping_of_the_same_share():
    less = skipping(0.2, (0.68, 0.70, 0.69), "random")
    more = skipping(0.4, (0.60, 0.62, 0.61), "random")
    _, compared = results(*PLAIN, *less, *more, *skipping(0.3, (0.65, 0.67, 0.67), "value"))
    value = compared[-1]
    # On the line of random skipping the AUC is 0.64, 0.66 and 0.65 at a share of 0.3.
    assert value.against_random.mean == pytest.approx(0.04 / 3)
    assert [result.against_random for result in compared[:-1]] == [None] * 3


def test_a_share_far_beyond_random_skipping_is_not_compared_with_it():
    random = skipping(0.2, (0.68, 0.70, 0.69), "random")
    _, compared = results(*PLAIN, *random, *skipping(0.5, (0.6,) * 3, "value"))
    assert compared[-1].against_random is None


def test_frozen_updates_are_shown_in_place_of_skipped_examples():
    frozen = paired("plain", (0.7,) * 3, (1000,) * 3, skipping={"row_updates_frozen": 0.25})
    names, rows = cells(results(*PLAIN, *paired("fast", (0.7,) * 3, (1000,) * 3), *frozen)[1])
    assert "25.0%\nof row updates" in [row[names.index("skipped")] for row in rows]


def test_labels_with_commas_are_listed_with_semicolons():
    rules = [run for rule in ("value", "thin", "freeze") for run in skipping(0.2, (0.7,) * 3, rule)]
    text = " ".join(notes(*results(*PLAIN, *rules)))
    assert "plain, skip value; plain, skip thin and plain, skip freeze end with exactly" in text


def test_a_single_run_has_no_baseline():
    _, alone = results(run("plain", config={"skip": {"rule": "value"}}))
    names, rows = cells(alone)
    assert rows[0][0] == "plain, skip value"
    assert not {"speed-up", "change of AUC"} & set(names)
    assert "baseline" not in rows[0]
