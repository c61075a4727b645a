"""A real disk of a few megabytes, which a test can fill."""

import os
import subprocess
from contextlib import contextmanager

import pytest


@contextmanager
def small_disk(folder, size):
    """A new disk in the folder, empty; the test is skipped where mounting is not allowed."""
    if os.geteuid() != 0:
        pytest.skip("not root, so no small disk to fill: not tested here")
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here: a full disk is not tested")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)
