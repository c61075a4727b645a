"""An ablation: the lines that say most come first, each beside its controls; gone on with."""

import json

import pytest

from slipstream import Config, Recipe, synthesize
from slipstream.ablate.ablation import Ablation
from slipstream.ablate.lines import CONTROLS, in_proportion
from slipstream.ablate.table import Ended, as_csv, as_markdown, cells, notes, rows_of
from slipstream.commands.ablate import parse_time
from slipstream.errors import ConfigError
from slipstream.skipping.rules import RULES


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return synthesize(Recipe(rows=3000), tmp_path_factory.mktemp("data") / "clicks")


@pytest.fixture
def ablation(data, tmp_path):
    small = ["model.bottom=[4]", "model.top=[4]", "compile=off", "evaluate.at=[]"]
    base = Config(data=str(data), batch_size=256).with_settings([*small, "log.tensorboard=false"])
    return Ablation(base, ["dlrm"], 2, tmp_path / "ablated", ["rules"])


def test_every_rule_but_the_controls_has_a_line_beside_random(ablation):
    lines = {one.name: one for one in ablation.lines}
    assert {name for name in lines if name in RULES} == set(RULES) - set(CONTROLS)
    assert {one.name for one in ablation.lines if "random" not in one.controls} == {"freeze"}
    assert len({one.label for one in ablation.lines}) == len(ablation.lines)


def test_the_first_lines_come_with_another_seed_before_later_lines_come_at_all(ablation):
    steps = [(one.line.tier, one.seed) for one in ablation.steps]
    assert steps[0] == (0, 0)
    assert steps.index((0, 1)) < steps.index((1, 1))
    firsts = {tier: steps.index((tier, 0)) for tier, _ in steps}
    assert list(firsts) == sorted(firsts, key=firsts.get)


def test_what_was_published_as_numbers_is_taken_in_proportion(data):
    from slipstream import Dataset

    keys = in_proportion(Config(batch_size=10), Dataset.open(data))
    # 6 of 255 batches are as 1,000 of 44,766
    sample = {"skip.sample_share": 1.0}  # as many as 0.1 % of 45.8 M inputs would be more
    assert keys == {"skip.warmup_batches": 6, "skip.hot_memory": "12%"} | sample


def test_a_line_that_cannot_be_trained_is_left_out_and_said(ablation):
    from dataclasses import replace

    first, second = ablation.lines[:2]
    wrong = replace(first, name="wrong", keys={"strategy": "none-such"})
    ablation.lines = [first, wrong, second]
    said = []
    ablation.check(said.append)
    assert ablation.lines == [first, second]
    (told,) = said
    assert told == (
        "rules: wrong is left out: strategy is 'none-such'; it must be the name of a strategy."
    )


def test_lines_left_out_for_the_same_reason_are_said_in_one_sentence(ablation):
    from dataclasses import replace

    first, *_ = ablation.lines
    wrong = [replace(first, name=name, keys={"strategy": "no"}) for name in ("one", "two")]
    ablation.lines = [first, *wrong]
    said = []
    ablation.check(said.append)
    (told,) = said
    assert told.startswith("rules: one; rules: two are left out: There is no strategy 'no'.")


def test_a_model_that_is_not_there_is_an_error_before_anything_is_trained(data, tmp_path):
    with pytest.raises(ConfigError, match="There is no model 'dmc'"):
        Ablation(Config(data=str(data)), ["dlrm", "dmc"], 1, tmp_path / "ablated")


def test_thresholds_are_swept_and_models_tried_each_beside_controls(data, tmp_path):
    base = Config(data=str(data), batch_size=8)
    ablation = Ablation(base, ["dlrm", "deepfm"], 1, tmp_path / "a", ["thresholds", "models"])
    swept = [one for one in ablation.lines if one.group == "thresholds"]
    assert len({str(one.keys) for one in swept}) == len(swept) > 10
    assert all("random" in one.controls for one in ablation.lines)
    models = [one for one in ablation.lines if one.group == "models"]
    assert {one.base["model.name"] for one in models} == {"deepfm"}
    ablation.check(lambda text: pytest.fail(text))
    titles = set(ablation.titles.values())
    assert {"full training, deepfm", "models: deepfm, value"} <= titles
    assert len(titles) == len({one.variant for one in ablation.runs})
    assert ablation.unknown_controls == sum(len(one.controls) for one in ablation.lines)


def test_an_ablation_of_which_nothing_can_be_trained_is_an_error(ablation):
    from dataclasses import replace

    ablation.lines = [replace(ablation.lines[0], keys={"strategy": "none-such"})]
    with pytest.raises(ConfigError, match="No line is left"):
        ablation.check(lambda _: None)


@pytest.mark.process
def test_the_time_is_kept_and_what_is_left_is_trained_the_next_time_and_nothing_twice(ablation):
    ablation.lines = [one for one in ablation.lines if one.name == "value"]
    ended = []

    def tell(event):
        if event.state != "running":
            ended.append((event.state, event.run.config.skip.rule, event.run.config.seed))

    step = ("none", "value", "random")
    assert not ablation.train(tell, seconds=0.0)  # something is always trained
    assert ended == [("ended", rule, 0) for rule in step]
    ended.clear()
    assert not ablation.train(tell)
    assert ended == [("ended", rule, 1) for rule in step]
    (row,) = ablation.rows()
    assert row.seeds == row.beside["random"].seeds == 2
    assert row.controls["random"] == pytest.approx(row.skipped, abs=0.03)
    told = json.loads((ablation.folder.path / "ablation.json").read_text())
    assert told[0]["change"]["mean"] == row.change.mean
    ended.clear()
    ablation.train(tell)
    assert ended == []


def summary(auc, skipped, seconds):
    pace = {"inputs_per_second": 1000 / seconds}
    return {"auc": auc, "skip_share": skipped, "calibration": 1.01, **pace}


def test_the_table_takes_differences_seed_by_seed(ablation):
    line = next(one for one in ablation.lines if one.name == "value")
    ended = [
        Ended(seed, summary(auc - 0.001, 0.3, 7), summary(auc, 0.0, 10), {"random": control})
        for seed, auc, control in (
            (0, 0.7, summary(0.697, 0.31, 7)),
            (1, 0.8, summary(0.797, 0.31, 7)),
        )
    ]
    (row,) = rows_of([(line, ended), (line, [])])
    assert row.change.mean == pytest.approx(-0.001)
    assert row.change.verdict() == "lower"
    assert row.beside["random"].mean == pytest.approx(0.002)
    assert row.time_saved == pytest.approx(0.3)
    assert cells(row)[:3] == ["value", "30.0%", "0.74900"]
    assert as_markdown([row]).count("\n| ") == 3
    assert len(as_csv([row]).splitlines()) == 2


def test_a_line_that_skipped_nothing_says_why_and_one_that_froze_rows_says_how_many(ablation):
    line = ablation.lines[0]
    why = {"why_nothing": "in 25 rounds no threshold"}
    frozen = {"row_updates_frozen": 0.25}
    rows = rows_of(
        [
            (line, [Ended(0, summary(0.7, 0.0, 7) | {"skipping": about}, summary(0.7, 0, 7), {})])
            for about in (why, frozen, None)
        ]
    )
    assert [row.why_nothing for row in rows] == ["in 25 rounds no threshold", "", ""]
    assert [cells(row)[1] for row in rows] == ["0.0%", "25.0%\nof row updates", "0.0%"]
    told = f"Nothing was skipped by {line.name}: in 25 rounds no threshold."
    assert notes(rows) == [told]
    assert f"\n- {told}\n" in as_markdown(rows)
    assert as_csv(rows).splitlines()[1].endswith(",in 25 rounds no threshold")


@pytest.mark.parametrize("text", ["", "30", "30 minutes", "-1h", "h"])
def test_a_time_that_is_none_is_an_error(text):
    with pytest.raises(ConfigError, match="is no time"):
        parse_time(text)
