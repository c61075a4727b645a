"""The soak: stalls change no bit, and drift and growth are told."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from small_runs import clicks

from slipstream.gpu.planning import plan_ahead

FOLDER = Path(__file__).parents[2] / "benchmarks"
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture
def soak(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setattr(
        plan_ahead, "kernels_for", lambda _, tier_sizes: "cpu" if tier_sizes is None else "gpu"
    )
    import soak

    yield soak
    del sys.modules["soak"]


def asked(*kinds, seconds=0.0):
    return Namespace(seconds=seconds, device=DEVICE, batch=16, kinds=list(kinds))


@pytest.mark.parametrize(
    ("strategy", "inputs"), [("fast", 120), ("hotline", 120), ("fast+value", 700)]
)
def test_a_round_with_stalls_ends_with_the_bits_of_one_without(soak, strategy, inputs):
    said: list[str] = []
    assert soak.soak(clicks(inputs), asked((strategy, "70%")), said.append) == []
    first, last = said
    assert first.endswith("the same bits")
    assert " 0 stalls" not in first
    assert last.startswith("Too few rounds")


def test_nothing_stalls_once_a_round_is_over(soak):
    from slipstream.gpu.transfer.carrier import Carrier

    before = Carrier.prepare
    with soak.stalling(soak.Stalls(0, on_device=False)):
        assert Carrier.prepare is not before
    assert Carrier.prepare is before


@pytest.mark.parametrize(
    ("rounds", "wrong"),
    [
        ([(100, 10), (120, 10), (190, 10), (130, 10)], []),
        ([(100, 10), (120, 10), (120, 10), (180, 10)], ["host's memory grew by 60 MiB"]),
        ([(100, 10), (120, 10), (120, 10), (120, 90)], ["device's memory grew by 80 MiB"]),
        ([(100, 10), (120, 10), (300, 10)], []),  # too few to say
    ],
)
def test_memory_that_grows_is_told_and_what_comes_and_goes_is_not(soak, monkeypatch, rounds, wrong):
    kind, left = ("fae", "9%"), list(rounds)

    def made(dataset, kind, asked, stalls):
        if stalls is None:
            return soak.Round(kind, "a", 0, 0.0, 0, 0)
        host, device = left.pop(0)
        return soak.Round(kind, "a", 1, 0.0, host << 20, device << 20)

    monkeypatch.setattr(soak, "trained", made)
    monkeypatch.setattr(soak, "LAST", 1)
    ticks = iter([0.0, *[0.0] * (len(rounds) - 1), 99.0])
    monkeypatch.setattr(soak.time, "monotonic", lambda: next(ticks))
    said: list[str] = []
    found = soak.soak(None, asked(kind, seconds=1.0), said.append)
    assert ("compared for 1 of 1" if len(rounds) > 3 else "Too few rounds") in said[-1]
    assert len(found) == len(wrong)
    assert all(one in text for one, text in zip(wrong, found, strict=True))


@pytest.mark.parametrize(
    ("sizes", "told"),
    [
        ([100] * 6 + [100, 100, 300], []),
        ([300, 100, 100] + [100] * 6, []),
        ([100, 300, 300] + [100] * 3 + [200, 180, 190], ["The host's memory grew by 80 MiB"]),
    ],
)
def test_the_least_of_some_rounds_at_either_end_counts(soak, sizes, told):
    rounds = [soak.Round(("fast", "9%"), "a", 1, 0.0, size << 20, 0) for size in sizes]
    found = list(soak.grown(("fast", "9%"), rounds))
    assert len(found) == len(told)
    assert all(text.startswith(one) for one, text in zip(told, found, strict=True))


def test_drift_is_told(soak, monkeypatch):
    def made(dataset, kind, asked, stalls):
        return soak.Round(kind, "a" if stalls is None else "b", 1, 0.0, 0, 0)

    monkeypatch.setattr(soak, "trained", made)
    found = soak.soak(None, asked(("fast", "9%")), lambda _: None)
    assert found == ["Round 1 (('fast', '9%')) ended with other bits."]
