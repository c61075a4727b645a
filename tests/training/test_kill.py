"""Killed at any moment and resumed, a run ends as if nothing had happened, to the bit."""

import random
import time

import pytest
from kills import BF16_ADAGRAD, POINTS, kill_until_it_ends, outcome, words_for

pytestmark = pytest.mark.process
SETTINGS = (
    "model.dim=4",
    "batch_size=64",
    "checkpoint.every_inputs=500",
    "log.trackers=[]",
)
MLPS = ("model.bottom=[16]", "model.top=[16]")
KINDS = {
    "sgd, shuffled, two epochs, validated": (
        "embedding.optimizer=sgd",
        "dense.optimizer=sgd",
        "shuffle=true",
        "epochs=2",
        "stop=2500",
        "early_stopping.every_inputs=700",
        "early_stopping.patience=100",
    ),
    "row-wise adagrad, bf16, split rows": BF16_ADAGRAD,
    "adam, clipped, with a schedule": (
        "embedding.optimizer=adam",
        "dense.optimizer=adam",
        "dense.clip=0.5",
        "schedule.warmup_inputs=600",
        "schedule.decay=cosine",
    ),
}


def command(data, *settings):
    words = ["train", str(data)]
    for setting in (*SETTINGS, *settings):
        words += ["--set", setting]
    return words


def uninterrupted(nursery, folder, begin):
    ended = nursery.run(*begin, "--out", folder)
    assert (ended.status, ended.phase) == (0, "after the summary"), ended.output
    return outcome(folder)


def killed_at_random_it_ends_alike(nursery, folder, begin, *, times=2, kills=5, apart_from=()):
    started = time.monotonic()
    wanted = uninterrupted(nursery, folder / "whole", begin)
    longest, killed = time.monotonic() - started, 0
    for name in apart_from:
        del wanted["summary"][name]
    for seed in range(times + 4):
        if seed >= times and killed:
            break
        run = folder / f"killed {seed}"
        killed += len(kill_until_it_ends(nursery, run, begin, random.Random(seed), longest, kills))
        left = outcome(run)
        for name in apart_from:
            del left["summary"][name]
        assert left == wanted
        if not killed:  # the machine was slower when it was measured
            longest /= 2
    assert killed


@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_random_it_ends_as_if_nothing_had_happened(kind, nursery, clicks, tmp_path):
    killed_at_random_it_ends_alike(nursery, tmp_path, command(clicks, *MLPS, *KINDS[kind]))


# What was in the fast tier is brought in again, and counted; hotline plans from the start again.
@pytest.mark.parametrize(
    ("strategy", "apart_from"),
    [
        ("fae", ("transfers", "hot_access_share", "hot_rows")),
        ("hotline", ()),
        ("fast", ("transfers", "hot_access_share", "hot_rows")),
    ],
)
def test_so_does_a_run_with_a_fast_tier(strategy, apart_from, nursery, clicks, tmp_path):
    tier = ("placement.fast_memory=30%",)
    begin = [*command(clicks, *MLPS, *tier), "--strategy", strategy]
    killed_at_random_it_ends_alike(
        nursery, tmp_path, begin, times=1, kills=3, apart_from=apart_from
    )


def test_so_does_a_model_with_histories(nursery, histories, tmp_path):
    begin = [*command(histories, "embedding.optimizer=adagrad"), "--model", "tbsm"]
    killed_at_random_it_ends_alike(nursery, tmp_path, begin)


def test_so_it_does_killed_before_and_after_everything_that_touches_the_disk(
    nursery, clicks, tmp_path
):
    validated = KINDS["sgd, shuffled, two epochs, validated"]
    begin = command(clicks, *MLPS, *validated)
    wanted = uninterrupted(nursery, tmp_path / "whole", begin)
    run, reached = tmp_path / "killed", []
    for point in POINTS:
        for when in ("before", "after"):
            ended = nursery.run(*words_for(run, begin), at=(point, 1, when))
            if ended.killed:
                reached.append(point)
                continue
            # It came to its end: from the start once more.
            assert ended.status == 0, ended.output
            assert outcome(run) == wanted, (point, when)
            run = tmp_path / f"killed {point} {when}"
    while (ended := nursery.run(*words_for(run, begin))).killed:
        pass
    assert ended.status == 0, ended.output
    assert outcome(run) == wanted
    assert set(reached) == set(POINTS)
