"""`slipstream train` as a user meets it: stopped, resumed, misspelled, out of room."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import time

import pytest
from command_line import SLIPSTREAM
from kills import outcome
from small_disk import small_disk

from slipstream.config import Config

pytestmark = pytest.mark.process
SETTINGS = (
    "model.bottom=[8]",
    "model.top=[8]",
    "model.dim=4",
    "batch_size=64",
    "checkpoint.every_inputs=1000",
    "log.trackers=[]",
)
SET = [word for setting in SETTINGS for word in ("--set", setting)]


def digest(run):
    return json.loads((run / "summary.json").read_text())["weights_digest"]


@pytest.fixture(scope="module")
def whole(nursery, clicks, tmp_path_factory):
    """A run that came to its end; not to be changed."""
    run = tmp_path_factory.mktemp("whole") / "run"
    ended = nursery.run("train", clicks, *SET, "--out", run)
    assert ended.status == 0, ended.output
    return run


def pasted(output):
    """The words of the command that a stopped run prints, as a shell reads them."""
    command = output.strip().rpartition(": ")[2]
    words = shlex.split(command)
    assert words[0] == "slipstream"
    return words[1:]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_asked_to_stop_it_saves_and_says_how_to_go_on(number, nursery, clicks, whole, tmp_path):
    run = tmp_path / "a run's folder" / "with $HOME"
    saved = run / "metrics.jsonl"
    ended = nursery.run(
        *("train", clicks, *SET, "--out", run),
        when=lambda: saved.exists() and saved.stat().st_size,
        send=[number],
    )
    assert ended.status == 130, ended.output
    assert (
        "Stopping after a checkpoint is saved. Press Ctrl-C again to stop at once." in ended.output
    )
    assert "everything up to there is saved. To continue: slipstream train --resume" in ended.output
    assert nursery.run(*pasted(ended.output)).status == 0
    assert outcome(run) == outcome(whole)


def test_asked_twice_it_stops_at_once(nursery, clicks, whole, tmp_path):
    run = tmp_path / "run"
    words = ("train", clicks, *SET, "--out", run)
    ended = nursery.run(
        *words,
        when=lambda: nursery.doing("loading a checkpoint") or nursery.doing("training"),
        send=[signal.SIGINT, signal.SIGINT],
    )
    assert ended.status == 130, ended.output
    if "Stopped at once" in ended.output:  # else it was faster than the second signal
        assert pasted(ended.output) == ["train", "--resume", "--out", str(run)]
    assert nursery.run("train", "--resume", "--out", run).status == 0
    assert outcome(run) == outcome(whole)


def test_asked_within_an_evaluation_it_does_not_wait_for_its_end(nursery, clicks, tmp_path):
    slow = ("--set", "batch_size=4", "--set", "evaluate.at=[0.5]")
    words = ("train", clicks, *SET, *slow, "--out")
    assert nursery.run(*words, tmp_path / "whole").status == 0
    ended = nursery.run(
        *(*words, tmp_path / "run"), when=lambda: nursery.doing("evaluating"), send=[signal.SIGINT]
    )
    assert ended.status == 130, ended.output
    assert "Stopped at example 2,552 of 5,100" in ended.output
    assert nursery.run("train", "--resume", "--out", tmp_path / "run").status == 0
    assert outcome(tmp_path / "run") == outcome(tmp_path / "whole")


def test_the_configuration_in_the_folder_repeats_the_run(nursery, whole, tmp_path):
    ended = nursery.run("train", "--config", whole / "config.yaml", "--out", tmp_path / "other")
    assert ended.status == 0, ended.output
    assert digest(tmp_path / "other") == digest(whole)
    assert Config.read(tmp_path / "other/config.yaml") == Config.read(whole / "config.yaml")


def test_more_epochs_on_resume_go_on_and_are_kept_in_the_configuration(nursery, whole, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    ended = nursery.run("train", "--resume", "--out", run, "--epochs", 2)
    assert ended.status == 0, ended.output
    assert "now ends at example 10,200 instead of 5,100" in ended.output
    assert Config.read(run / "config.yaml").epochs == 2
    assert json.loads((run / "summary.json").read_text())["inputs_trained"] == 10_200


def test_what_may_change_on_resume_may_and_the_rest_is_named(nursery, clicks, whole, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    changed = ("--seed", 3, "--set", "dense.lr=0.5")
    ended = nursery.run("train", "--resume", "--out", run, *changed)
    assert ended.status == 2
    assert "was started with another seed, dense.lr, which cannot change" in ended.output
    free = ("threads=1", "checkpoint.every_inputs=2000")
    words = [word for setting in free for word in ("--set", setting)]
    ended = nursery.run("train", clicks, "--resume", "--out", run, *words, "--epochs", 2)
    assert ended.status == 0, ended.output
    assert Config.read(run / "config.yaml").checkpoint.every_inputs == 2000
    ended = nursery.run("train", "--resume", "--out", run, "--config", run / "config.yaml")
    assert (ended.status, "has already ended" in ended.output) == (0, True)


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(nursery, clicks, whole, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    (run / "summary.json").unlink()
    last = max((run / "checkpoints").iterdir())
    (last / "dense.safetensors").write_bytes(b"")
    ended = nursery.run("train", "--resume", "--out", run)
    assert ended.status == 0, ended.output
    assert f"{last} is damaged" in ended.output.replace("\n", " ")
    assert outcome(run) == outcome(whole)


WRONG = {
    "Did you mean dense.lr": ("DATA", "--set", "dense.l=1", "--out", "RUN"),
    "model.name is 'dlmr'; it must be dlrm": ("DATA", "--model", "dlmr", "--out", "RUN"),
    "strategy is 'fsat'; it must be plain": ("DATA", "--strategy", "fsat", "--out", "RUN"),
    "No such option: --modle": ("DATA", "--modle", "dlrm", "--out", "RUN"),
    "Missing option '--out'": ("DATA",),
    "Name the data set to train on": ("--out", "RUN"),
    "it does not exist": ("missing", "--out", "RUN"),
    "is not a packed data set": ("EMPTY", "--out", "RUN"),
    "already holds a run": ("DATA", "--out", "WHOLE"),
    "is a file; a run needs a folder": ("DATA", "--out", "FILE"),
    "which does not belong to a run": ("DATA", "--out", "DATA", "--force"),
    "There is no run in": ("--resume", "--out", "RUN"),
    "Choose one of --resume": ("--resume", "--force", "--out", "WHOLE"),
    "CUDA device": ("DATA", "--device", "cuda:99", "--out", "RUN"),
    "batch_size is 0": ("DATA", "--batch-size", "0", "--out", "RUN"),
    "nothing.yaml": ("DATA", "--config", "nothing.yaml", "--out", "RUN"),
}


@pytest.mark.parametrize("sentence", WRONG)
def test_what_is_wrong_is_a_sentence_and_leaves_nothing(sentence, nursery, clicks, whole, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    names = {"DATA": clicks, "WHOLE": whole, "RUN": tmp_path / "run"}
    names |= {"FILE": tmp_path / "file", "EMPTY": tmp_path / "empty"}
    before = sorted(path.name for path in clicks.iterdir())
    ended = nursery.run("train", *(names.get(word, word) for word in WRONG[sentence]))
    assert ended.status == 2, ended.output
    assert sentence in ended.output
    assert "Traceback" not in ended.output
    assert not (tmp_path / "run").exists()
    assert sorted(path.name for path in clicks.iterdir()) == before


def test_a_full_disk_is_a_sentence_and_the_run_goes_on_when_there_is_room(
    nursery, clicks, whole, tmp_path
):
    with small_disk(tmp_path / "disk", "size=2m") as disk:
        run = disk / "run"
        ended = nursery.run("train", clicks, *SET, "--out", run)
        assert ended.status == 2, ended.output
        assert "Older checkpoints" in ended.output
        assert "are intact" in ended.output
        ended = nursery.run("train", "--resume", "--out", run)
        assert ended.status == 2, "it is still full"
        subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], check=True)
        ended = nursery.run("train", "--resume", "--out", run)
        assert ended.status == 0, ended.output
        assert "Resuming at example" in ended.output
        assert outcome(run) == outcome(whole)


def test_a_disk_that_is_full_from_the_start_is_a_sentence(nursery, clicks, tmp_path):
    with small_disk(tmp_path / "disk", "size=64k") as disk:
        (disk / "other").write_bytes(bytes(60_000))
        ended = nursery.run("train", clicks, *SET, "--out", disk / "run")
        assert ended.status == 2
        assert "disk is full" in ended.output or "No space left" in ended.output
        assert "Traceback" not in ended.output


def test_a_folder_that_cannot_be_written_is_a_sentence(nursery, clicks, tmp_path):
    with small_disk(tmp_path / "disk", "ro") as disk:
        ended = nursery.run("train", clicks, *SET, "--out", disk / "run")
        assert ended.status == 2
        assert "Read-only file system" in ended.output
        assert "Traceback" not in ended.output


def test_a_run_goes_on_when_nobody_listens_any_more(clicks, whole, tmp_path):
    reader, writer = os.pipe()
    os.close(reader)
    words = ["train", str(clicks), *SET, "--out", tmp_path / "run"]
    process = subprocess.run([*SLIPSTREAM, *words], stdout=subprocess.DEVNULL, stderr=writer)
    os.close(writer)
    assert process.returncode == 0
    assert digest(tmp_path / "run") == digest(whole)


def test_a_process_that_python_started_itself_is_killed_and_resumed(
    nursery, clicks, whole, tmp_path
):
    run = tmp_path / "run"
    process = subprocess.Popen(
        [*SLIPSTREAM, "train", str(clicks), *SET, "--out", str(run)], stderr=subprocess.DEVNULL
    )
    while not any(run.glob("checkpoints/[0-9]*")) and process.poll() is None:
        time.sleep(0.01)
    process.kill()
    process.wait()
    ended = nursery.run("train", "--resume", "--out", run)
    assert ended.status == 0, ended.output
    assert outcome(run) == outcome(whole)
