"""Real processes that are killed while they save, and real disks that are full."""

from __future__ import annotations

import errno
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from row_stores import fields, fill, stores_of
from small_disk import small_disk

from slipstream.errors import CheckpointError
from slipstream.tables.optimizers import Adagrad
from slipstream.tables.spec import TableSpec
from slipstream.training.checkpoint import folders, save
from slipstream.training.checkpoint.checkpoints import Checkpoints
from slipstream.training.checkpoint.restore import load, newest

SPECS = (
    TableSpec("a", 3000, 4, Adagrad()),
    TableSpec("b", 700, 8),
    TableSpec("c", 2000, 4, Adagrad()),
)
HERE = Path(__file__).parent


def train(stores, step, before_update=lambda *_: None):
    """Step `step`: rows depend on nothing but the steps so far."""
    for group, store in enumerate(stores):
        rows = np.arange(store.group.rows)
        rows = rows[(rows * 7 + step) % 5 == 0]
        before_update(group, rows)
        store.records[rows] = store.records[rows] * 3 + step


def write_line(*words):
    """A line in one write: `print` may make several, with a kill or another process between."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def save_until_killed(folder):
    """What the process that is killed does: goes on from the newest, and says what it has saved."""
    save.RANGE_BYTES = 20_000  # many files, so that there are many moments to be killed at
    stores, step, last_saved = stores_of(*SPECS), 0, None
    checkpoints = Checkpoints(folder, keep=2)
    if checkpoint := newest(folder):
        _, state = load(checkpoint, stores)
        step = state["step"]
    write_line("ready")
    while True:
        step += 1
        train(stores, step, checkpoints.before_update)
        if not checkpoints.saving:
            checkpoints.begin(step, stores, {}, {"step": step})
        if checkpoints.last_saved != last_saved:
            last_saved = checkpoints.last_saved
            write_line(last_saved)


HERE_AGAIN = "import os, sys; sys.path[:0] = sys.argv[2:]\nimport test_process as here\n"
# Imports take seconds and a child made by fork does not repeat them: more kills in the time.
NURSERY = """
for _ in sys.stdin:
    child = os.fork()
    if not child:
        here.save_until_killed(sys.argv[1])
    here.write_line("child", child)
    here.write_line("ended", os.waitpid(child, 0)[1])
"""


def script(text, folder):
    return [sys.executable, "-c", HERE_AGAIN + text, str(folder), str(HERE), str(HERE.parents[1])]


def kill_one(nursery, after):
    """Have a process save for so many seconds after it is ready; the last step it told."""
    print("go", file=nursery.stdin, flush=True)
    pid, ready, last = None, False, 0
    while not (pid and ready):
        word, *rest = nursery.stdout.readline().split()
        pid = int(rest[0]) if word == "child" else pid
        ready |= word == "ready"
        last = int(word) if word.isdigit() else last
    time.sleep(after)
    os.kill(pid, signal.SIGKILL)
    while True:
        word, *rest = nursery.stdout.readline().split()
        if word == "ended":
            assert int(rest[0]) == signal.SIGKILL, "it ended by itself"
            return last
        last = int(word)


@pytest.mark.process
def test_killed_at_any_moment_nothing_that_was_saved_is_lost(tmp_path):
    chance, wanted, trained = random.Random(1), stores_of(*SPECS), 0
    last, killed_while_saving = 0, 0
    nursery = subprocess.Popen(
        script(NURSERY, tmp_path), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with nursery:
        for _ in range(60):
            last = max(last, kill_one(nursery, chance.uniform(0, 0.2)))
            killed_while_saving += any(tmp_path.glob("*.partial"))
            checkpoint = newest(tmp_path)
            if checkpoint is None:
                assert last == 0
                continue
            assert checkpoint.warnings == (), "a kill never leaves a damaged one"
            assert checkpoint.step >= last
            stores = stores_of(*SPECS)
            load(checkpoint, stores)
            for step in range(trained + 1, checkpoint.step + 1):
                train(wanted, step)
            last = trained = checkpoint.step
            assert fields(stores) == fields(wanted)
    assert last > 0
    assert killed_while_saving > 20


def fails_and_leaves_the_older(folder, stores, sentence):
    """Save a small one, then more than fits; the small one stays, the big one leaves nothing."""
    small = stores_of(TableSpec("small", 10, 4))
    fill(small, 1)
    checkpoints = Checkpoints(folder, keep=1)
    checkpoints.begin(1, small, {}, {})
    checkpoints.begin(2, stores, {}, {})
    with pytest.raises(CheckpointError) as error:
        while True:
            checkpoints.before_update(0, np.array([1]))
            time.sleep(0.01)
    text = str(error.value)
    assert sentence in text
    assert f"{2:012d}.partial/rows/0-" in text
    assert "Older checkpoints" in text
    assert [path.name for path in sorted(Path(folder).iterdir())] == [f"{1:012d}", "lock"]
    back = stores_of(TableSpec("small", 10, 4))
    load(newest(folder), back)
    assert fields(back) == fields(small)
    checkpoints.begin(3, small, {}, {})  # once there is room again, it goes on
    checkpoints.close()
    assert newest(folder).step == 3


@pytest.mark.process
def test_a_full_disk_is_a_sentence_and_older_checkpoints_stay(tmp_path):
    with small_disk(tmp_path / "disk", "size=1m") as disk:
        stores = stores_of(TableSpec("big", 200_000, 4))
        fails_and_leaves_the_older(disk / "checkpoints", stores, "No space left on device")


FULL = """
stores = here.stores_of(here.TableSpec("big", 200_000, 4))
here.fails_and_leaves_the_older(sys.argv[1], stores, "File too large")
"""


@pytest.mark.process
def test_a_file_that_cannot_grow_is_a_sentence_and_older_checkpoints_stay(tmp_path):
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    words = script(FULL, tmp_path)
    done = subprocess.run(words, capture_output=True, text=True, preexec_fn=limit, timeout=120)
    assert done.returncode == 0, done.stderr


MEMORY = """
import resource
stores = here.stores_of(here.TableSpec("big", 1_000_000, 64))  # 256 MB
stores[0].records[:] = 1
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
here.save.RANGE_BYTES = 4 << 20
before = peak()
with here.Checkpoints(sys.argv[1]) as checkpoints:
    checkpoints.begin(1, stores, {}, {})
    rows = here.np.arange(999_000, 1_000_000)
    checkpoints.before_update(0, rows)
    stores[0].records[rows] += 1
here.load(here.newest(sys.argv[1]), stores)
print(peak() - before)
"""


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="peaks are counted in other units elsewhere")
def test_saving_and_loading_take_the_memory_of_one_file_and_not_of_the_tables(tmp_path):
    done = subprocess.run(script(MEMORY, tmp_path), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 64


@pytest.mark.parametrize("call", ["begin", "close", "before_update"])
def test_a_failure_in_the_background_reaches_the_next_call(call, tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    checkpoints = Checkpoints(tmp_path)
    stores = stores_of(*SPECS)
    with monkeypatch.context() as patch:
        patch.setattr(save.os, "fsync", full)
        checkpoints.begin(1, stores, {}, {})
        checkpoints._thread.join()
    with pytest.raises(CheckpointError, match=r"writing .*rows/0-0.safetensors failed .*quota"):
        {
            "begin": lambda: checkpoints.begin(2, stores, {}, {}),
            "close": checkpoints.close,
            "before_update": lambda: checkpoints.before_update(0, np.array([1])),
        }[call]()
    checkpoints.close()
    assert list(tmp_path.iterdir()) == []


def test_short_writes_are_gone_on_with(tmp_path, monkeypatch):
    monkeypatch.setattr(save, "_WRITE_BYTES", 7)
    stores, others = stores_of(TableSpec("a", 30, 4)), stores_of(TableSpec("a", 30, 4))
    fill(stores, 1)
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.begin(1, stores, {}, {})
    load(newest(tmp_path), others)
    assert fields(others) == fields(stores)


def test_an_older_one_that_cannot_be_removed_is_a_sentence(tmp_path, monkeypatch):

    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    with Checkpoints(tmp_path, keep=1) as checkpoints:
        checkpoints.begin(1, [], {}, {})
    monkeypatch.setattr(folders, "remove", refuse)
    checkpoints = Checkpoints(tmp_path, keep=1)
    checkpoints.begin(2, [], {}, {})
    with pytest.raises(CheckpointError, match="is saved, but an older one could not be removed"):
        checkpoints.close()
    assert newest(tmp_path).step == 2
