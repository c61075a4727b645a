"""The process that starts the other processes of tests: it is started once."""

import pytest
from kills import Nursery


@pytest.fixture(scope="session")
def nursery():
    with Nursery() as nursery:
        yield nursery
