import io
import os
import re

import pytest
from rich.console import Console

from slipstream.cli import train
from slipstream.cli.terminal import training_line, training_progress
from slipstream.training.progress import Pace, Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize(("done", "total", "percent"), [(0, 0, 100), (999, 1000, 99), (7, 7, 100)])
def test_a_hundred_percent_is_the_end(done, total, percent):
    assert training_line(Progress("train", done, total)).startswith(f"train {percent} %")


def test_an_endless_wait_is_no_error():
    assert "over 100 d left" in training_line(Progress("train", 0, 10**12, 5e-324))


def show(console, count=35, every=10.0):
    clock = Clock()
    with training_progress(console, every=every, clock=clock) as update:
        for second in range(count):
            clock.now = float(second)
            update(Progress("train", second, 100, 1.0, {"logloss": 0.5, "auc": 0.75}))


def test_a_pipe_gets_a_plain_line_now_and_then_and_at_the_end(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    file = io.StringIO()
    show(Console(file=file))
    assert file.getvalue().splitlines() == [
        f"train {done} %  loss 0.5000  {left} left  AUC 0.7500  1/s  {done} of 100 examples"
        for done, left in (
            (10, "1 min 30 s"),
            (20, "1 min 20 s"),
            (30, "1 min 10 s"),
            (34, "1 min 6 s"),
        )
    ]


def test_the_last_report_is_printed_once():
    file = io.StringIO()
    show(Console(file=file), count=11)
    assert len(file.getvalue().splitlines()) == 1
    show(Console(file=file), count=0)
    assert len(file.getvalue().splitlines()) == 1


def test_after_ctrl_c_the_last_report_is_printed():
    file = io.StringIO()
    with pytest.raises(KeyboardInterrupt), training_progress(Console(file=file)) as update:
        update(Progress("train", 7, 100))
        raise KeyboardInterrupt
    assert file.getvalue() == "train 7 %  7 of 100 examples\n"


@pytest.mark.parametrize("width", [20, 40, 120])
def test_a_terminal_gets_one_live_line_that_fits(width, monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    file = Terminal()
    console = Console(file=file, force_terminal=True, width=width, _environ={"TERM": "xterm"})
    show(console, count=3)
    plain = re.sub(r"\x1b\[[0-9?;]*[A-Za-z]", "", file.getvalue())
    lines = [line.strip() for line in re.split(r"[\r\n]", plain) if line.strip()]
    assert {line.partition(" %")[0] for line in lines} == {"train 0", "train 1", "train 2"}
    assert all(len(line) <= width for line in lines)
    assert "\x1b[2K" in file.getvalue()  # the line is drawn over, and removed at the end


@pytest.mark.parametrize("variable", ["CI", "TERM"])
def test_ci_and_dumb_terminals_get_plain_lines(variable, monkeypatch):
    monkeypatch.setenv(variable, "dumb")
    file = Terminal()
    show(Console(file=file))
    assert "\x1b[2K" not in file.getvalue()
    assert len(file.getvalue().splitlines()) == 4


def test_the_pace_forgets_what_is_long_ago():
    pace = Pace(seconds=10)
    assert pace.rate(0, 100.0) is None
    assert pace.rate(5, 100.0) is None
    for second in range(1, 60):
        rate = pace.rate(1000 * second, 100.0 + second)
    assert rate == pytest.approx(1000)
    for second in range(60, 80):
        rate = pace.rate(59_000, 100.0 + second)
    assert rate == 0


@pytest.mark.parametrize(("terminal", "begin"), [(True, "\r\x1b[2K"), (False, "")])
def test_a_message_of_a_signal_replaces_the_live_line(terminal, begin, capfd, monkeypatch):
    monkeypatch.setattr(os, "isatty", lambda _: terminal)
    train._write("Stopping.")
    assert capfd.readouterr().err == f"{begin}Stopping.\n"
