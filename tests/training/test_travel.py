"""How many plans go to a GPU together, and how far ahead of them the window reaches."""

from hypothesis import given
from hypothesis import strategies as st

from slipstream.config import Config, Placement
from slipstream.training.travel import read_at_once, together, window_of


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
