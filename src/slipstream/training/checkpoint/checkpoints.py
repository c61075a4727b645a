"""Saving checkpoints: in the background, and either whole or not there at all."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from slipstream.arrays import Array
from slipstream.data.atomic_write import try_lock
from slipstream.errors import CheckpointError, ConfigError
from slipstream.tables.store import RowStore
from slipstream.training.checkpoint import folders
from slipstream.training.checkpoint.contents import state_text
from slipstream.training.checkpoint.frozen_rows import FrozenRows
from slipstream.training.checkpoint.save import Save, Stopped
from slipstream.training.checkpoint.tensor_file import pack


class Checkpoints:
    """Saves checkpoints of a run into a folder and keeps the last `keep`; one more during a save.

    A lock keeps other processes out until `close`. Files that a killed process left half written
    are removed.

    Example:
        >>> from slipstream.tables.spec import Layout, TableSpec
        >>> store = RowStore(Layout((TableSpec("ad", 3, 2),), ()).groups[0])
        >>> with Checkpoints("checkpoints") as checkpoints:
        ...     checkpoints.begin(100, [store], {}, {"position": 6400})
        ...     checkpoints.before_update(0, np.array([1]))
        ...     store.views["weight"][1] = 7
        >>> from slipstream.training.checkpoint.restore import load, newest
        >>> load(newest("checkpoints"), [store])
        ({}, {'position': 6400})
        >>> store.views["weight"][1]
        array([0., 0.], dtype=float32)
    """

    def __init__(self, folder: str | Path, keep: int = 2) -> None:
        if keep < 1:
            raise ConfigError(f"{keep} checkpoints cannot be kept; keep at least 1.")
        self.folder = Path(folder)
        self.keep = keep
        self.last_saved: int | None = None
        self._frozen_rows: list[FrozenRows] = []  # of each store; empty when all rows are read
        self._failure: CheckpointError | None = None
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            folders.flush_folder(self.folder.parent)
            self._lock = try_lock(self.folder / "lock")
            if self._lock is not None:
                folders.tidy(self.folder)
        except OSError as error:
            raise CheckpointError(
                f"Checkpoints cannot be saved in {self.folder}: {error}. Choose a folder that can "
                "be written."
            ) from error
        if self._lock is None:
            raise CheckpointError(
                f"Another process is saving checkpoints in {self.folder}. Wait for it to end, or "
                "choose another folder for this run."
            )

    @property
    def saving(self) -> bool:
        """Whether a checkpoint is being written, so that `begin` would wait."""
        return self._thread is not None and self._thread.is_alive()

    def begin(
        self,
        step: int,
        stores: Sequence[RowStore],
        tensors: dict[str, Tensor],
        state: dict[str, Any],
    ) -> None:
        """Save the state after a step; its rows are written in the background, the rest is copied.

        Until `saving` is false, rows may only be changed after `before_update`. It waits for the
        save before, and raises the error of that save. `state` must be JSON.
        """
        if self._lock is None:
            raise CheckpointError(f"The checkpoints in {self.folder} are closed. Open them again.")
        if not 0 <= step < 10**12:
            raise CheckpointError(f"A checkpoint cannot be of step {step}: twelve digits name it.")
        self._wait()
        frozen_rows = [FrozenRows(store) for store in stores]
        save = Save(
            self.folder, step, stores, frozen_rows, pack(tensors), state_text(state), self._stop
        )
        self._thread = threading.Thread(target=self._run, args=(save,), name="checkpoint")
        self._frozen_rows = frozen_rows
        self._thread.start()

    def retire(self, step: int) -> None:
        """Remove all but the checkpoint of a step and the `keep - 1` before it.

        A save does that itself, unless it was killed in between.
        """
        self._wait()
        if folders.path_of(self.folder, step).is_dir():
            try:
                folders.retire(self.folder, step, self.keep)
            except OSError as error:
                raise _not_removed(folders.path_of(self.folder, step), error) from error

    def before_update(self, group: int, rows: Array) -> None:
        """Call this before rows of a store are changed; if it raises, do not change them.

        `group` is the number of the store in `begin`. It is fast while nothing is being saved.
        """
        if self._failure is not None:
            self._raise_failure()
        if frozen_rows := self._frozen_rows:
            frozen_rows[group].keep(rows)

    def close(self, wait: bool = True) -> None:
        """Finish the present save, or cancel it if not `wait`, and unlock the folder."""
        if self._lock is None:
            return
        if not wait:
            self._stop.set()
        try:
            self._wait()
        finally:
            with contextlib.suppress(OSError):
                (self.folder / "lock").unlink()
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Checkpoints:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        # The error of a save must not hide an earlier error.
        with contextlib.suppress(*([CheckpointError] if error else [])):
            self.close()

    def _wait(self) -> None:
        if self._thread is not None:
            if self._thread.ident is not None:  # else an interrupt came before it was started
                self._thread.join()
            self._thread, self._frozen_rows = None, []
        self._raise_failure()

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def _run(self, save: Save) -> None:
        """The work of the thread. An error is kept for the next call."""
        failure = None
        try:
            save.write_rows()
            # All rows are read: training need not wait until the files are on the disk.
            self._frozen_rows = []
            save.finish()
            self.last_saved = save.step
        except Stopped:
            pass
        except Exception as error:
            failure = CheckpointError(save.failed(error))
            failure.__cause__ = error
        else:
            try:
                folders.retire(self.folder, save.step, self.keep)
            except OSError as error:
                failure = _not_removed(save.path, error)
        shutil.rmtree(save.work, ignore_errors=True)
        self._failure = failure
        self._frozen_rows = []


def _not_removed(path: Path, error: OSError) -> CheckpointError:
    return CheckpointError(
        f"The checkpoint {path} is saved, but an older one could not be removed: {error}. Remove "
        "it by hand, or training will fill the disk."
    )
