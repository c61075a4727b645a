"""`slipstream prepare` as a user meets it: real processes and signals."""

from __future__ import annotations

import io
import re
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest
from command_line import SLIPSTREAM, run, shown_in_a_terminal
from raw_logs import criteo_rows, digests, write
from rich.console import Console
from small_disk import small_disk
from typer.testing import CliRunner

from slipstream import Recipe
from slipstream.cli import terminal
from slipstream.cli.app import app
from slipstream.data.synthetic.raw import write_raw


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    return write(tmp_path_factory.mktemp("logs") / "log.tsv", criteo_rows(2000))


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("logs") / "large.tsv"
    return write_raw(Recipe("criteo-kaggle", rows=400_000), file)


@pytest.mark.process
def test_a_log_is_prepared_shown_and_verified(log, tmp_path):
    done = run("prepare", "criteo", log, "--out", tmp_path / "out", "--evaluation", "0.2")
    assert done.returncode == 0, done.stderr
    assert "2,000 lines read, 0 skipped" in done.stdout
    assert "400 evaluation" in done.stdout
    assert run("data", "verify", tmp_path / "out").returncode == 0
    shown = run("data", "show", tmp_path / "out")
    assert "criteo log of 2,000 lines" in shown.stdout


@pytest.mark.process
def test_bad_rows_are_named_or_set_aside(log, tmp_path):
    file = tmp_path / "bad.tsv"
    file.write_bytes(log.read_bytes() + b"1\t2\n")
    done = run("prepare", "criteo", file, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert f"{file}, line 2001: 2 fields instead of 40" in done.stderr
    assert "Traceback" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["bad.tsv"]
    done = run("prepare", "criteo", file, "--out", tmp_path / "out", "--bad-rows", "skip")
    assert done.returncode == 0, done.stderr
    assert "2,001 lines read, 1 skipped" in done.stdout
    assert "1 skipped" in run("data", "show", tmp_path / "out").stdout


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("critoe", "{log}"), "Did you mean criteo?"),
        (("criteo", "nowhere.tsv"), "nowhere.tsv does not exist"),
        (("criteo", "."), ". is a folder"),
        (("table", "{log}"), "needs --schema"),
        (("table", "{log}", "--schema", "none.yaml"), "none.yaml does not exist"),
        (("criteo", "{log}", "--memory", "much"), "memory is 'much'"),
        (("criteo", "{log}", "--memory", "10M"), "at least 320 MiB"),
        (("criteo", "{log}", "--evaluation", "week"), "evaluation is 'week'"),
        (("criteo", "{log}", "--sort"), "no time to sort by"),
        (("criteo", "{log}", "--dictionary", "nowhere"), "nowhere is not a packed data set"),
        (("taobao", "{log}"), "line 1: 1 fields instead of 5"),
        (("criteo", "{log}", "--seed", "0"), "a split by time draws nothing"),
        (("taobao", "{log}", "--seed", "3", "--negatives", "0"), "a split by time draws nothing"),
        (("taobao", "{log}", "--seed", "3"), "line 1: 1 fields instead of 5"),
        (("criteo", "{log}", "--max-bad", "5"), "add --bad-rows skip"),
    ],
)
def test_mistakes_end_with_a_sentence_and_no_traceback(log, tmp_path, monkeypatch, words, sentence):
    words = [word.replace("{log}", str(log)) for word in words]
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["prepare", *words, "--out", "out"], env={"COLUMNS": "200"})
    assert done.exit_code == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_existing_data_set_needs_force(log, tmp_path):
    words = ["prepare", "criteo", str(log), "--out", str(tmp_path / "out")]
    assert CliRunner().invoke(app, words).exit_code == 0
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2
    assert "--force" in done.stderr
    assert CliRunner().invoke(app, [*words, "--force"]).exit_code == 0


@pytest.mark.process
def test_ctrl_c_says_how_to_go_on_and_the_same_command_does(large, tmp_path):
    words = [*SLIPSTREAM, "prepare", "criteo", str(large), "--out", str(tmp_path / "out")]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    note = tmp_path / "out.partial" / "columns" / "label"
    while not (note.exists() and note.stat().st_size) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "The same command goes on from here" in errors
    assert "Traceback" not in errors
    assert not (tmp_path / "out").exists()
    assert run(*words[len(SLIPSTREAM) :]).returncode == 0
    assert run("prepare", "criteo", large, "--out", tmp_path / "whole").returncode == 0
    assert digests(tmp_path / "out") == digests(tmp_path / "whole")


@pytest.mark.process
def test_the_bar_shows_rows_rate_and_time_left(large, tmp_path):
    text = shown_in_a_terminal("prepare", "criteo", large, "--out", tmp_path / "out")
    for words in ("reading", "packing", "lines/s", " of ", "0:0"):
        assert words in text


@pytest.mark.parametrize("width", [30, 60])
def test_a_step_takes_one_line_of_a_narrow_terminal(monkeypatch, width):
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=width, _environ={"TERM": "xterm"})
    monkeypatch.setattr(terminal, "err", console)
    with terminal.progress("rows") as update:
        update("reading", 270_000_000, 300_000_000)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue())
    lines = [line for line in re.split(r"[\r\n]+", shown) if line.strip()]
    assert lines
    assert all(line.startswith("rea") for line in lines)


@pytest.mark.process
def test_a_file_that_cannot_grow_is_a_sentence_and_what_is_done_is_kept(large, tmp_path):
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))

    words = ("prepare", "criteo", large, "--out", tmp_path / "out")
    done = run(*words, preexec_fn=limit)
    assert done.returncode == 2
    assert "File too large. What is done is kept in" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.process
def test_a_disk_that_is_too_small_is_told_beforehand(large, tmp_path):
    with small_disk(tmp_path / "disk", "size=150m") as disk:
        done = run("prepare", "criteo", large, "--out", disk / "out")
        assert done.returncode == 2
        assert "are free. Make room" in done.stderr
        assert list(disk.iterdir()) == []


def test_a_file_in_place_of_the_format_is_told_with_the_command_that_works(log, tmp_path):
    done = CliRunner().invoke(app, ["prepare", str(log), "--out", str(tmp_path / "clicks")])
    assert done.exit_code == 2
    message = " ".join(done.stderr.split())
    assert "is a file; say first what kind of log it is: slipstream prepare table" in message


def test_a_format_without_files_is_told(tmp_path):
    done = CliRunner().invoke(app, ["prepare", "criteo", "--out", str(tmp_path / "clicks")])
    assert done.exit_code == 2
    assert "Name the files of the log" in done.stderr
