"""The command line as a user meets it; with real processes where signals and disks come in."""

import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer
from command_line import SLIPSTREAM, shown_in_a_terminal
from command_line import run as run_process
from in_process import run
from small_disk import small_disk

from slipstream.cli.app import app


@pytest.fixture(scope="module")
def clicks(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("cli") / "clicks"
    done = run("synth", "--rows", 20_000, "--out", out)
    assert done.exit_code == 0, done.stderr
    assert "20,000 examples of small" in done.stdout
    return out


def test_show_says_what_is_in_a_data_set(clicks):
    done = run("data", "show", clicks, "--examples", 2)
    assert done.exit_code == 0, done.stderr
    for words in ("17,000", "oracle AUC", "device", "tags (mean)", "example 1: click="):
        assert words in done.stdout


@pytest.mark.process
def test_show_loses_nothing_in_a_narrow_terminal(clicks):
    done = run_process("data", "show", clicks, env={"COLUMNS": "40"})
    assert "train: examples 17,000" in done.stdout
    assert "…" not in done.stdout


def test_verify_passes_and_then_names_the_damaged_file(clicks, tmp_path):
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(clicks), str(copy)], check=True)
    assert run("data", "verify", copy).exit_code == 0
    file = copy / "train" / "00000.dense"
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)
    done = run("data", "verify", copy)
    assert done.exit_code == 1
    assert str(file) in done.stderr


@pytest.mark.parametrize(
    ("words", "status", "sentence"),
    [
        (("synth", "--shape", "smal", "--out", "x"), 2, "Did you mean small?"),
        (("synth", "--rows", "-3", "--out", "x"), 2, "rows is -3"),
        (("synth", "--raw", "--out", "x"), 2, "use shape criteo-kaggle or taobao"),
        (("synth", "--out", "/dev/null/x"), 2, "/dev/null is not a folder"),
        (("data", "show", "nowhere"), 2, "nowhere is not a packed data set"),
        (("data", "verify", "."), 2, "has no manifest.json"),
        (("data", "shw", "x"), 2, "show"),
        (("synth", "--raw", "--min-count", "3", "--out", "x"), 2, "--min-count"),
        (("synth", "--out", "."), 2, "current folder"),
        (("data", "show"), 2, "DIR"),
    ],
)
def test_mistakes_end_with_a_sentence_and_no_traceback(
    tmp_path, monkeypatch, words, status, sentence
):
    monkeypatch.chdir(tmp_path)
    done = run(*words)
    assert done.exit_code == status
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_second_run_in_the_same_folder_needs_force(clicks):
    done = run("synth", "--rows", 20_000, "--out", clicks)
    assert done.exit_code == 2
    assert "--force" in done.stderr
    assert run("synth", "--rows", 20_000, "--out", clicks, "--force").exit_code == 0


@pytest.mark.process
def test_ctrl_c_stops_at_once_and_leaves_nothing(tmp_path):
    process = subprocess.Popen(
        [*SLIPSTREAM, "synth", "--rows", "3000000", "--out", str(tmp_path / "big")],
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    _wait_for(lambda: any(tmp_path.glob("big.partial/*/*")) or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Stopped." in errors
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


@pytest.mark.process
def test_a_killed_run_is_in_nobodys_way(tmp_path):
    out = tmp_path / "big"
    process = subprocess.Popen(
        [*SLIPSTREAM, "synth", "--rows", "3000000", "--out", str(out)],
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    _wait_for(lambda: any(tmp_path.glob("big.partial/*/*")) or process.poll() is not None)
    process.kill()
    process.wait()
    assert not out.exists()
    assert run("synth", "--rows", 1000, "--out", out).exit_code == 0
    assert run("data", "verify", out).exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["big"]


def _wait_for(condition) -> None:
    for _ in range(2400):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it never happened")


@pytest.mark.process
def test_a_file_that_cannot_grow_is_a_sentence_and_leaves_nothing(tmp_path):
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    done = run_process("synth", "--rows", 100_000, "--out", tmp_path / "set", preexec_fn=limit)
    assert done.returncode == 2
    assert "File too large" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.process
def test_a_full_disk_is_a_sentence_and_leaves_nothing(tmp_path):
    with small_disk(tmp_path / "disk", "size=1m") as disk:
        done = run_process("synth", "--rows", 100_000, "--out", disk / "set")
        assert done.returncode == 2
        assert "The disk is full." in done.stderr
        assert list(disk.iterdir()) == []


@pytest.mark.process
@pytest.mark.parametrize("how", ["flag", "variable"])
def test_a_module_of_the_user_is_imported_before_the_command(clicks, tmp_path, how):
    code = "from slipstream.models import MODELS\nMODELS['mine'] = MODELS['dlrm']\n"
    (tmp_path / "my_model.py").write_text(code)
    before = ["--import", "my_model"] if how == "flag" else []
    variable = {} if before else {"SLIPSTREAM_IMPORT": "my_model"}
    words = (*before, "compare", clicks, "--strategies", "plain", "--seeds", 1, "--models", "mine")
    done = run_process(*words, "--out", tmp_path / "runs", cwd=tmp_path, env=variable)
    assert done.returncode == 0, done.stderr


def test_a_module_that_does_not_exist_is_one_sentence():
    done = run("--import", "no_module", "env")
    assert done.exit_code == 2
    assert done.stderr.startswith("slipstream: --import no_module: No module named 'no_module'.")


@pytest.mark.process
def test_a_reader_that_has_enough_is_no_error(clicks):
    line = f"{sys.executable} -m slipstream data show {clicks} | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0
    assert done.stderr == ""


@pytest.mark.process
def test_progress_is_shown_in_a_terminal_and_not_in_a_pipe(tmp_path):
    shown = shown_in_a_terminal("synth", "--rows", 100_000, "--out", tmp_path / "a")
    assert "examples/s" in shown
    assert "generating" in shown
    assert run_process("synth", "--rows", 1000, "--out", tmp_path / "b").stderr == ""


@pytest.mark.process
def test_the_version_is_printed():
    from slipstream import __version__

    assert run_process("--version").stdout.strip() == __version__


def test_synth_writes_the_raw_log_of_a_shape(tmp_path):
    out = tmp_path / "day.tsv"
    done = run("synth", "--raw", "--shape", "criteo-kaggle", "--rows", 50, "--out", out)
    assert done.exit_code == 0, done.stderr
    lines = out.read_text().splitlines()
    assert len(lines) == 50
    assert all(line.count("\t") == 39 for line in lines)


def commands(group, *words):
    for name, command in group.commands.items():
        inner = getattr(command, "commands", None)
        yield from commands(command, *words, name) if inner else [(*words, name)]


@pytest.mark.parametrize("words", [*commands(typer.main.get_command(app))], ids=" ".join)
def test_the_help_of_every_command_has_an_example_that_names_it(words):
    text = " ".join(run(*words, "--help").stdout.split())
    assert f"Example: slipstream {' '.join(words)}" in text
