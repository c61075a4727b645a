"""Lists that are pooled by max train alike under every strategy, and are refused on a GPU."""

import numpy as np
import pytest
from small_runs import clicks, config
from tables.ftrl import Ftrl

from slipstream import Lists
from slipstream.errors import ConfigError
from slipstream.gpu.supported import check_supported
from slipstream.tables.optimizers import Sgd
from slipstream.tables.spec import Feature, Layout, TableSpec
from slipstream.training.loop import train


@pytest.fixture(scope="module")
def lists():
    random = np.random.default_rng(0)
    draw = lambda rows, size: (rows * random.random(size) ** 4).astype(np.int64)  # noqa: E731
    seen = Lists.of([draw(40, random.integers(0, 4)).tolist() for _ in range(400)], "max")
    return clicks(400, columns={"user": draw(200, 400), "seen": seen})


@pytest.fixture(scope="module")
def plain(lists, tmp_path_factory):
    return train(lists, config("strategy=plain"), tmp_path_factory.mktemp("plain") / "run")


@pytest.mark.parametrize("strategy", ["bagpipe", "fast", "hotline"])
def test_every_strategy_gives_the_weights_of_plain_training(strategy, lists, plain, tmp_path):
    keys = config(f"strategy={strategy}", "placement.fast_memory=60%")
    summary = train(lists, keys, tmp_path / "run")
    if strategy == "hotline":  # batches in two parts: equal up to rounding
        assert summary["auc"] == pytest.approx(plain["auc"], abs=1e-3)
    else:
        assert summary["weights_digest"] == plain["weights_digest"]


def test_a_gpu_refuses_what_it_has_no_kernel_for():
    seen = Layout((TableSpec("item", 5, 4),), (Feature("seen", "item", "max"),))
    with pytest.raises(ConfigError, match="'seen' is pooled by max, which has no kernel for a GPU"):
        check_supported(seen)
    item = Layout((TableSpec("item", 5, 4, Ftrl()),), (Feature("item", "item"),))
    with pytest.raises(ConfigError, match="uses the row optimizer ftrl, which has no kernel"):
        check_supported(item)
    check_supported(Layout((TableSpec("item", 5, 4, Sgd()),), (Feature("item", "item", "mean"),)))
