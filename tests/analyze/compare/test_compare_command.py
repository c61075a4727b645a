"""A comparison with real processes: stopped, continued, and refused with other options."""

import json
import os
import signal
import subprocess
import time

import pytest
import torch
from command_line import SLIPSTREAM
from in_process import run as command

from slipstream import Recipe, synthesize

pytestmark = pytest.mark.process
SIZES = ("--set", "model.bottom=[4]", "--set", "model.top=[4]", "--set", "model.dim=2")
QUICK = (*SIZES, "--set", "compile=off", "--set", "evaluate.at=[0.5]", "--batch-size", "64")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    synthesize(Recipe(rows=3000), folder / "clicks")
    return folder


@pytest.fixture(scope="module")
def words(folder):
    return ("compare", folder / "clicks", "--strategies", "plain,fast", "--seeds", "2", *QUICK)


@pytest.fixture(scope="module")
def stopped(folder, words):
    """A comparison that was stopped when its first run had ended."""
    out = folder / "compared"
    process = subprocess.Popen(
        [*SLIPSTREAM, *map(str, words), "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "COLUMNS": "100"},
    )
    until = time.monotonic() + 60
    while not (out / "runs" / "fast-seed0" / "metrics.jsonl").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    return out, process.returncode, output


@pytest.fixture(scope="module")
def ended(stopped, words):
    out, _, _ = stopped
    when = (out / "runs" / "plain-seed0" / "summary.json").stat().st_mtime_ns
    done = command(*words, "--out", out)
    assert done.exit_code == 0, done.output
    return out, when, done.output


def test_a_comparison_that_is_stopped_prints_how_to_continue(stopped):
    out, status, output = stopped
    assert status == 130, output
    assert "To continue: slipstream compare" in output
    assert "plain-seed0: AUC" in output
    (group,) = json.loads((out / "results.json").read_text())
    assert len(group["results"]) == 1
    assert (out / "report.html").is_file()


def test_continuing_trains_nothing_twice(ended):
    out, when, output = ended
    assert (out / "runs" / "plain-seed0" / "summary.json").stat().st_mtime_ns == when
    assert "plain-seed0: had ended before" in output
    assert "Stopped and resumed: fast-seed0." in output
    assert {path.name for path in (out / "runs").iterdir()} == {
        f"{strategy}-seed{seed}" for strategy in ("plain", "fast") for seed in (0, 1)
    }


def test_the_result_is_a_table_a_json_and_a_report(ended):
    out, _, output = ended
    assert "change of AUC" in output
    assert "same weights" in output
    assert "a placement cannot save time here" in output
    (group,) = json.loads((out / "results.json").read_text())
    plain, fast = group["results"]
    assert (plain["setting"], fast["setting"], fast["baseline"]) == ("plain", "fast", "plain")
    assert fast["seeds"] == [0, 1]
    assert fast["same_weights"] is True
    assert fast["differences"]["auc"]["mean"] == 0
    assert "Measured on" in (out / "report.html").read_text()
    assert (out / "plots" / "auc-inputs.svg").is_file()


def test_weights_are_not_kept_by_default(ended):
    out, _, _ = ended
    assert not list(out.glob("runs/*/checkpoints"))


def test_a_comparison_is_not_continued_with_other_options(ended, words, folder):
    out, _, _ = ended
    done = command(*words, "--stop", 500, "--out", out)
    assert done.exit_code == 2
    assert "was begun with another stop" in done.output
    synthesize(Recipe(rows=2000), folder / "others")
    done = command("compare", folder / "others", *words[2:], "--out", out)
    assert done.exit_code == 2
    assert "was begun with another data" in done.output


def test_a_run_that_fails_is_reported_and_the_others_continue(folder):
    out = folder / "failing"
    words = ("compare", folder / "clicks", "--strategies", "plain", "--seeds", "1", "--stop", 600)
    done = command(*words, *QUICK, "--grid", "embedding.lr=0.1,1e30", "--out", out)
    assert done.exit_code == 1
    assert "plain-lr-1e+30-seed0: failed." in done.output
    assert "The report is in" in done.output


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (("clicks", "--strategies", "plain,fats"), "Did you mean fast?"),
        (("clikcs",), "clikcs"),
        (("clicks", "--models", "dlmr"), "Did you mean dlrm?"),
        (("clicks", "--preset", "skiping"), "Did you mean skipping?"),
        (("clicks", "--fast-memory", "1KiB", "--strategies", "fast"), "fast cannot be trained."),
        ((), "The data set is missing"),
        pytest.param(
            ("clicks", "--device", "cuda", "--strategies", "plain"),
            "finds no CUDA device",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device"),
        ),
    ],
)
def test_what_cannot_be_compared_is_an_error_before_anything_is_trained(
    folder, words, output, monkeypatch
):
    monkeypatch.chdir(folder)
    done = command("compare", *words, "--out", "nothing")
    assert done.exit_code == 2, done.output
    assert output in done.output
    assert not (folder / "nothing").exists()


def test_a_folder_that_is_not_a_comparison_is_not_changed(folder):
    (folder / "mine").mkdir()
    (folder / "mine" / "thesis.tex").touch()
    done = command("compare", folder / "clicks", "--out", folder / "mine", "--force")
    assert done.exit_code == 2
    assert "is not the folder of a comparison" in done.output
    assert (folder / "mine" / "thesis.tex").is_file()
