import io
import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from slipstream.commands import train
from slipstream.commands.training_progress import line, training_progress
from slipstream.training.progress import Pace, Report

MAYBE = st.none() | st.floats(0, 1e9)
REPORTS = st.builds(
    Report,
    st.sampled_from(["train", "evaluate"]),
    st.integers(0, 10**12),
    st.integers(0, 10**12),
    MAYBE,
    st.none() | st.floats(0, 99),
    st.none() | st.floats(0, 1),
).filter(lambda report: report.done <= report.total)


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@given(report=REPORTS, width=st.integers(20, 200))
def test_a_line_fits_any_width_and_always_says_how_far_it_is(report, width):
    text = line(report, width)
    assert len(text) <= width
    assert re.search(r"\d+ %", text)
    assert set(text.split()) <= set(line(report).split())


@given(report=REPORTS)
def test_a_hundred_percent_is_the_end(report):
    assert ("100 %" in line(report)) == (report.done == report.total)


def test_an_endless_wait_is_no_error():
    assert line(Report("train", 0, 10**12, 5e-324)).endswith("over 100 d left")


def show(console, count=35, every=10.0):
    clock = Clock()
    with training_progress(console, every=every, clock=clock) as tell:
        for second in range(count):
            clock.now = float(second)
            tell(Report("train", second, 100, 1.0, 0.5, 0.75))


def test_a_pipe_gets_a_plain_line_now_and_then_and_at_the_end(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    file = io.StringIO()
    show(Console(file=file))
    assert file.getvalue().splitlines() == [
        f"train  {done} %  {done} of 100 inputs  1/s  loss 0.5000  AUC 0.7500  {left} left"
        for done, left in (
            (10, "1 min 30 s"),
            (20, "1 min 20 s"),
            (30, "1 min 10 s"),
            (34, "1 min 6 s"),
        )
    ]


def test_the_end_is_told_once(monkeypatch):
    file = io.StringIO()
    show(Console(file=file), count=11)
    assert len(file.getvalue().splitlines()) == 1
    show(Console(file=file), count=0)
    assert len(file.getvalue().splitlines()) == 1


def test_a_stop_says_how_far_it_came():
    file = io.StringIO()
    with pytest.raises(KeyboardInterrupt), training_progress(Console(file=file)) as tell:
        tell(Report("train", 7, 100))
        raise KeyboardInterrupt
    assert file.getvalue() == "train  7 %  7 of 100 inputs\n"


@pytest.mark.parametrize("width", [20, 40, 120])
def test_a_terminal_gets_one_live_line_that_fits(width, monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    file = Terminal()
    console = Console(file=file, force_terminal=True, width=width, _environ={"TERM": "xterm"})
    show(console, count=3)
    plain = re.sub(r"\x1b\[[0-9?;]*[A-Za-z]", "", file.getvalue())
    lines = [one.strip() for one in re.split(r"[\r\n]", plain) if one.strip()]
    assert [one.partition(" %")[0].rpartition(" ")[2] for one in lines[:3]] == ["0", "1", "2"]
    assert all(len(one) < width for one in lines)
    assert "\x1b[2K" in file.getvalue()  # the line is drawn over, and gone in the end


@pytest.mark.parametrize("variable", ["CI", "TERM"])
def test_ci_and_dumb_terminals_get_plain_lines(variable, monkeypatch):
    monkeypatch.setenv(variable, "dumb")
    file = Terminal()
    show(Console(file=file))
    assert "\x1b" not in file.getvalue()
    assert len(file.getvalue().splitlines()) == 4


def test_the_pace_forgets_what_is_long_ago():
    pace = Pace(seconds=10)
    assert pace.at(0, 100.0) is None
    assert pace.at(5, 100.0) is None
    for second in range(1, 60):
        rate = pace.at(1000 * second, 100.0 + second)
    assert rate == pytest.approx(1000)
    for second in range(60, 80):
        rate = pace.at(59_000, 100.0 + second)
    assert rate == 0


@pytest.mark.parametrize(("terminal", "begin"), [(True, "\r\x1b[2K"), (False, "")])
def test_what_a_signal_says_takes_the_place_of_the_live_line(terminal, begin, capfd, monkeypatch):
    monkeypatch.setattr(os, "isatty", lambda _: terminal)
    train._write("Stopping.")
    assert capfd.readouterr().err == f"{begin}Stopping.\n"
