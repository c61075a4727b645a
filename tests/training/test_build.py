import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import slipstream
from slipstream.config import Config, Model, Placement
from slipstream.training.build import longest, model_of, read_at_once, together, window_of


@given(st.integers(1, 1 << 20), st.none() | st.integers(3, 300))
def test_while_plans_are_stepped_through_the_rows_of_the_next_can_be_read(size, window):
    config = Config(
        strategy="fast", device="cuda", batch_size=size, placement=Placement(window=window)
    )
    sent, read = together(config, []), read_at_once(config, [])
    assert 1 <= read <= sent
    assert window_of(config) - read >= 2 * sent
    if window is None:
        assert sent == max(4, min(64, (1 << 18) // size)), "the window is long enough for the most"


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
    model = model_of(Config(model=Model("tbsm")), dataset)
    assert model.length == 4
