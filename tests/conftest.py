"""Hypothesis profiles, data sets that tests share, and parts that not every machine has."""

import os
from importlib.util import find_spec

import pytest
import torch
from browser import chromium
from hypothesis import HealthCheck, settings

from slipstream import Recipe, synthesize

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before any kernel is imported

settings.register_profile(
    "ci",
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("thorough", parent=settings.get_profile("ci"), max_examples=1000)
settings.register_profile("few", parent=settings.get_profile("ci"), max_examples=4)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

PARTS = {
    "cuda": (torch.cuda.is_available, "no CUDA device on this machine"),
    "chromium": (lambda: chromium() is not None, "no chromium on this machine"),
    "lightning": (lambda: find_spec("lightning") is not None, "lightning is not installed"),
    "mkdocs": (lambda: find_spec("mkdocs") is not None, "mkdocs is not installed"),
    "accelerate": (lambda: find_spec("accelerate") is not None, "accelerate is not installed"),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for mark in item.iter_markers("needs"):
            present, why = PARTS[mark.args[0]]
            if not present():
                item.add_marker(pytest.mark.skip(reason=f"{why}: not tested here"))


@pytest.fixture(scope="session")
def clicks(tmp_path_factory):
    return synthesize(Recipe(rows=6000), tmp_path_factory.mktemp("data") / "clicks")


@pytest.fixture(scope="session")
def histories(tmp_path_factory):
    recipe = Recipe(rows=3000, shape="taobao")
    return synthesize(recipe, tmp_path_factory.mktemp("data") / "histories")
