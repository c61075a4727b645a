"""A real disk, so small that a test can fill it."""

import os
import subprocess
from contextlib import contextmanager

import pytest


@contextmanager
def small_disk(folder, *options):
    """An empty disk at a new folder; the test is skipped where mounting is not allowed."""
    if os.geteuid() != 0:
        pytest.skip("not root, so no small disk: not tested here")
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(folder)]
    if subprocess.run(words, capture_output=True).returncode:
        pytest.skip("mounting is not allowed here: not tested")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)
