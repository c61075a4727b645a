"""The order of what is done to the disk: stopped between any two calls, nothing looks whole or is
lost that should not be."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
import torch
from row_stores import stores_of

from slipstream.tables.spec import TableSpec
from slipstream.training.checkpoint import folders
from slipstream.training.checkpoint.checkpoints import Checkpoints
from slipstream.training.checkpoint.contents import state_text
from slipstream.training.checkpoint.frozen_rows import FrozenRows
from slipstream.training.checkpoint.restore import check, newest
from slipstream.training.checkpoint.save import Save
from slipstream.training.checkpoint.tensor_file import pack

SPECS = (TableSpec("a", 4, 2), TableSpec("b", 4, 1))


class Killed(BaseException):
    """Stands for a kill: nothing catches it."""


def run_save(checkpoints, step, state):
    """What `begin` does, without its thread."""
    stores = stores_of(*SPECS)
    dense, text = pack({"w": torch.ones(2)}), state_text(state)
    frozen, stop = [FrozenRows(store) for store in stores], threading.Event()
    save = Save(checkpoints.folder, step, stores, frozen, dense, text, stop)
    checkpoints._run(save)


def kill_at(patch, number):
    """Raise `Killed` at the numbered call of those that change what is on the disk."""
    calls = 0

    def counted(call):
        def instead(*words, **options):
            nonlocal calls
            calls += 1
            if calls >= number:  # a killed process does nothing any more
                raise Killed
            return call(*words, **options)

        return instead

    for owner, names in ((os, ("fsync", "unlink", "rmdir")), (Path, ("rename", "mkdir", "open"))):
        for name in names:
            patch.setattr(owner, name, counted(getattr(owner, name)))


@pytest.mark.parametrize("keep", [1, 2])
@pytest.mark.parametrize("step", [20, 30])
def test_stopped_between_any_two_calls_the_newest_is_whole_and_so_is_all_that_looks_it(
    tmp_path, step, keep, monkeypatch
):
    monkeypatch.setattr(os, "fsync", lambda _: None)
    number, finished = 0, False
    while not finished:
        number += 1
        folder = tmp_path / str(number)
        checkpoints = Checkpoints(folder, keep=keep)
        run_save(checkpoints, 10, {"which": 0})
        run_save(checkpoints, 20, {"which": 1})
        with pytest.MonkeyPatch.context() as patch:
            kill_at(patch, number)
            try:
                run_save(checkpoints, step, {"which": 2})
                finished = True
            except Killed:
                pass
        for _, path in folders.finished(folder):
            check(path)
        checkpoint = newest(folder)
        assert (checkpoint.step, checkpoint.state["which"]) in [(20, 1), (step, 2)]
        checkpoints.close()
        Checkpoints(folder, keep=keep).close()
        again = newest(folder)
        assert again.state == checkpoint.state, "bringing it into order loses nothing"
        assert not any(path.suffix for path in folder.iterdir())
    assert number > 20
    assert checkpoint.state == {"which": 2}


def test_all_is_on_the_disk_before_it_has_its_name_and_the_name_before_others_go(
    tmp_path, monkeypatch
):
    flushed, events = set(), []
    fsync, rename = os.fsync, Path.rename

    def noted_fsync(handle):
        flushed.add(os.fstat(handle).st_ino)
        fsync(handle)

    def noted_rename(path, target):
        if path.suffix == ".partial":
            wanted = {entry.stat().st_ino for entry in (path, *path.rglob("*"))}
            events.append(("named", wanted <= flushed))
            flushed.clear()
        else:
            events.append(("retired", tmp_path.stat().st_ino in flushed))
        return rename(path, target)

    checkpoints = Checkpoints(tmp_path, keep=1)
    run_save(checkpoints, 10, {})
    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Path, "rename", noted_rename)
    run_save(checkpoints, 20, {})
    checkpoints.close()
    assert events == [("named", True), ("retired", True)]
