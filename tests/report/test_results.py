import pytest
from report.made_runs import run

from slipstream.report.answer import headline, notes
from slipstream.report.results import results_of
from slipstream.report.table import SHORT, as_csv, cells
from slipstream.report.variants import settings_of

CARRIED = {"per_input": {"bytes_in": 40.0, "bytes_out": 20.0}}


def results(*runs):
    (setting,) = settings_of(runs)
    return setting, results_of(setting)


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
    _, found = results(*PLAIN, *paired("fast", (0.7001, 0.7198, 0.7101), (2000, 2030, 1970)))
    text = headline(found)
    assert text.startswith("fast is 2.00 times as fast as plain (95 % interval")
    assert "its AUC is the same within noise" in text


def test_a_gain_that_costs_is_named_with_its_price():
    _, found = results(*PLAIN, *paired("slipstream", (0.69, 0.71, 0.70), (2000, 2030, 1970)))
    text = headline(found)
    assert "Nothing here is faster than plain at the same AUC by more than noise" in text
    assert "slipstream is faster, 2.00 times" in text
    assert "lowers the AUC by 0.0100" in text


def test_a_gain_within_noise_is_no_gain():
    _, found = results(*PLAIN, *paired("fast", (0.70, 0.72, 0.71), (1500, 900, 1010)))
    assert headline(found).startswith("Nothing here is faster than plain by more than noise")


def test_a_claim_holds_also_for_the_best_of_many():
    """At 95 % each, the best of ten that are all alike would often be called faster."""
    rates = (1000, 1010, 990)
    others = [one for n in range(9) for one in paired(f"s{n}", (0.7,) * 3, rates)]
    lucky = paired("lucky", (0.7,) * 3, (1100, 1150, 1110))
    _, found = results(*PLAIN, *lucky)
    assert found[1].speed_up.verdict(1.0) == "higher"
    assert found[1].faster
    _, found = results(*PLAIN, *others, *lucky)
    assert found[-1].speed_up.verdict(1.0) == "higher"
    assert not found[-1].faster
    assert headline(found).startswith("Nothing here is faster than plain by more than noise")


def test_one_seed_makes_no_claim():
    _, found = results(run(), run("fast", rate=3000))
    assert "Fewer than three seeds say next to nothing" in headline(found)
    assert cells(found, SHORT)[1][1][5] == "0\none seed"


def test_the_same_weights_are_told_from_a_small_difference():
    same = [
        run("fast", n, weights_digest=f"plain {n}", auc=r.summary["auc"])
        for n, r in enumerate(PLAIN)
    ]
    setting, found = results(*PLAIN, *same)
    assert found[1].same_weights
    assert cells(found)[1][1][5] == "0\nto the bit"
    assert any("to the bit" in note for note in notes(setting, found))


def test_time_to_the_same_auc_is_that_which_every_run_of_the_seed_reaches():
    # plain reaches 0.7 after its 1,000 inputs; the other passes it between its two evaluations.
    _, found = results(run(auc=0.7), run("fae", auc=0.8, rate=1000))
    assert found[0].to_auc[0] == pytest.approx(0.9)  # the first report comes after 0.1 s
    assert found[1].to_auc[0] == pytest.approx(0.4 + 0.5 * (0.7 - 0.65) / 0.15)


def test_an_unfinished_run_is_told_and_left_out():
    setting, found = results(*PLAIN, run("fast", ended=False))
    assert [one.label for one in found] == ["plain"]
    assert any("fast-0 has not come to an end" in note for note in notes(setting, found))


def test_an_auc_of_one_class_is_no_reason_to_fail():
    _, found = results(run(auc=None), run("fast", auc=None, rate=2000))
    assert "cannot be compared" in headline(found)


def test_on_a_cpu_it_is_said_that_a_placement_cannot_save_time():
    setting, found = results(*PLAIN, *paired("fast", (0.7,) * 3, (900,) * 3, carried=CARRIED))
    assert any("on a CPU" in note for note in notes(setting, found))
    gpu = [run(s, device="cuda", carried=CARRIED) for s in ("plain", "fast")]
    setting, found = results(*gpu)
    assert not any("on a CPU" in note for note in notes(setting, found))


def test_the_csv_has_every_measure_of_every_variant():
    _, found = results(*PLAIN, *paired("fast", (0.7, 0.72, 0.70), (1000,) * 3, carried=CARRIED))
    head, *rows = [line.split(",") for line in as_csv([("", found)]).splitlines()]
    assert [row[1] for row in rows] == ["plain", "fast"]
    assert all(len(row) == len(head) for row in rows)
    at = {name: rows[1][head.index(name)] for name in ("bytes_moved_per_input", "auc_change")}
    assert at["bytes_moved_per_input"] == "60.0"
    assert float(at["auc_change"]) == pytest.approx(-0.01 / 3)


def test_repeats_of_a_seed_count_once():
    _, found = results(run(seed=0, auc=0.7), run(seed=0, auc=0.8), run(seed=1, auc=0.7))
    assert found[0].values["auc"] == {0: pytest.approx(0.75), 1: 0.7}


def test_a_rule_that_left_nothing_out_is_told_and_is_no_baseline():
    keys = {"config": {"skip": {"rule": "published"}}}
    idle = paired("plain", (0.7,) * 3, (1000,) * 3, skipping={"sentence": "Too few."}, **keys)
    setting, found = results(*PLAIN, *idle)
    assert [one.baseline and one.baseline.label for one in found] == [None, "plain"]
    assert "plain, skip published left nothing out. Too few." in notes(setting, found)


def test_steps_in_the_slow_tier_are_not_praised_for_moving_no_bytes():
    aside = CARRIED | {"aside": 5, "per_input": {"bytes_in": 1.0, "bytes_out": 1.0}}
    kinds = {"fae": aside, "bagpipe": CARRIED | {"aside": 0}, "fast": CARRIED | {"aside": 0}}
    runs = [run(name, n, carried=carried) for name, carried in kinds.items() for n in (0, 1, 2)]
    told = " ".join(notes(*results(*PLAIN, *runs)))
    assert "fae made 5 steps of a run in the slow tier" in told
    assert "bagpipe moved the fewest, 60 B an input" in told
