"""The sanitizers run tests that exist, and report what is missing."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

PATH = Path(__file__).parents[2] / "tools" / "sanitize.py"


@pytest.fixture
def sanitize():
    spec = importlib.util.spec_from_file_location("sanitize", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tests_exist(sanitize):
    for test in sanitize.TESTS:
        file, _, name = test.partition("::")
        assert f"def {name}" in (sanitize.ROOT / file).read_text()


def test_memory_is_checked_where_the_tool_is_found(sanitize, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setattr(sanitize, "Path", lambda _: tmp_path)
    assert not sanitize.run("memory", 1)
    assert "compute-sanitizer is not found" in capsys.readouterr().out
    tool = tmp_path / "bin" / "compute-sanitizer"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    words, more = sanitize.command("memory")
    assert words[0] == str(tool)
    assert words[-len(sanitize.TESTS) :] == list(sanitize.TESTS)
    assert more["PYTORCH_NO_CUDA_MEMORY_CACHING"] == "1"


def test_the_result_is_printed(sanitize, monkeypatch, capsys):
    for status, sentence in ((0, "streams: clean"), (9, "streams: NOT clean, status 9")):
        words = [sys.executable, "-c", f"raise SystemExit({status})"]
        monkeypatch.setattr(sanitize, "command", lambda _, words=words: (words, {}))
        assert sanitize.run("streams", 60) == (status == 0)
        assert sentence in capsys.readouterr().out
    slow = [sys.executable, "-c", "import time; time.sleep(60)"]
    monkeypatch.setattr(sanitize, "command", lambda _: (slow, {}))
    assert not sanitize.run("streams", 1)
    assert "give --seconds more" in capsys.readouterr().out


@pytest.mark.process
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_it_says_so():
    done = subprocess.run([sys.executable, PATH], capture_output=True, text=True, env=os.environ)
    assert done.returncode == 1
    assert "no CUDA device" in done.stdout
