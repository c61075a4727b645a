import numpy as np

import slipstream
from slipstream.config import Config
from slipstream.config.sections import ModelSettings
from slipstream.pipeline import dense
from slipstream.training.build import compiles, longest, model_of


def test_histories_have_one_length_and_other_sequences_their_own():
    item, shop = np.arange(20) % 5, np.arange(20) % 3
    lists = {
        name: slipstream.Lists.of([[0] * (n % (most + 1)) for n in range(20)], kind="sequence")
        for name, most in (("items", 4), ("shops", 2), ("words", 9))
    }
    dataset = slipstream.from_arrays(
        np.arange(20) % 2,
        {"item": item, "shop": shop, **lists},
        tables={"items": "item", "shops": "shop"},
    )
    assert longest(dataset) == {"items": 4, "shops": 4, "words": 9}
    model = model_of(Config(model=ModelSettings(name="tbsm")), dataset)
    assert model.length == 4


def test_on_a_gpu_a_model_of_own_kernels_is_compiled_only_where_that_is_asked_for(monkeypatch):
    monkeypatch.setattr(dense, "compiler", lambda: "g++")
    for name, own in (("dlrm", True), ("dcn", False)):
        config = Config(model=ModelSettings(name=name))
        assert compiles(config, 10**6)
        assert compiles(config.replace(device="cuda"), 10**6) != own
        assert compiles(config.replace(device="cuda", compile="on"), 1)
