"""What tests with real processes share: they are started once."""

import pytest
from kills import Nursery

from slipstream import Recipe, synthesize


@pytest.fixture(scope="session")
def nursery():
    with Nursery() as nursery:
        yield nursery


@pytest.fixture(scope="session")
def clicks(tmp_path_factory):
    return synthesize(Recipe(rows=6000), tmp_path_factory.mktemp("data") / "clicks")


@pytest.fixture(scope="session")
def histories(tmp_path_factory):
    recipe = Recipe(rows=3000, shape="taobao")
    return synthesize(recipe, tmp_path_factory.mktemp("data") / "histories")
