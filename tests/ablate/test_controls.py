"""A control skips by chance what a line has skipped, decision by decision."""

from slipstream.ablate.controls import control_keys
from slipstream.ablate.lines import Line

LINE = Line(
    "rules",
    "movement",
    {
        "model.name": "dlrm",
        "strategy": "plain",
        "skip.rule": "movement",
        "skip.target": 0.4,
        "skip.hot_memory": "12%",
        "skip.interval": 0.2,
    },
)


def summary(*shares, total=1000, first=100):
    decisions = [{"decision": 0, "position": 0, "inputs": first, "share": 0.0}]
    for number, share in enumerate(shares):
        judged = 200 if share is not None else 0
        decisions.append({"position": first + 200 * number, "inputs": judged, "share": share})
    skipped = sum(0.2 * share for share in shares if share)
    return {"inputs_total": total, "skip_share": skipped, "skipping": {"decisions": decisions}}


def test_it_begins_when_the_line_did_and_keeps_what_makes_rows_hot_but_not_the_target():
    keys = control_keys(LINE, "random-hot", summary(0.2, 0.204, 0.212))
    assert keys == {
        "model.name": "dlrm",
        "strategy": "plain",
        "skip.hot_memory": "12%",
        "skip.rule": "random",
        "skip.hot_only": True,
        "skip.warmup": 0.1,
        "skip.interval": 0.2,
        "skip.shares": [0.21],
    }


def test_shares_that_change_are_followed_also_past_a_decision_that_judged_nothing():
    keys = control_keys(LINE, "random", summary(0.5, None, 0.104))
    assert keys["skip.shares"] == [0.5, 0.5, 0.1]


def test_decisions_come_as_often_as_those_of_the_line_whatever_its_interval_counts():
    often = Line("blocks", "decided anew", {"strategy": "slipstream", "skip.repeat": True})
    keys = control_keys(often, "random", summary(0.5, 0.2, 0.1, total=4000), epochs=2)
    assert keys["skip.interval"] == 0.1


def test_the_warm_up_is_a_share_of_an_epoch():
    assert control_keys(LINE, "random", summary(0.5), epochs=3)["skip.warmup"] == 0.3


def test_what_skipped_nothing_has_no_control():
    assert control_keys(LINE, "random", summary(0.0, 0.0)) is None
    assert control_keys(LINE, "random", {"skip_share": 0.3, "inputs_total": 10}) is None
