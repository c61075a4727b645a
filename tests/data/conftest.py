import numpy as np
import pytest

from slipstream import Lists, from_arrays


@pytest.fixture(scope="module")
def part(tmp_path_factory):
    """A part of several shards, one of which begins in the middle of a run."""
    return _dataset().save(tmp_path_factory.mktemp("data") / "set", rows_per_shard=1000).train


def _dataset(n=5000):
    rng = np.random.default_rng(0)
    lists = Lists.of([rng.integers(0, 30, k).tolist() for k in rng.integers(0, 4, n)])
    return from_arrays(
        labels=rng.integers(0, 2, n),
        columns={"a": rng.integers(0, 50, n), "b": rng.integers(0, 50, n), "many": lists},
        dense={"x": rng.random(n), "y": rng.random(n)},
        times=np.arange(n),
        validation=0,
        evaluation=0,
    )
