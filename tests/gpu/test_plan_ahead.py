"""How many plans go to a GPU together, and how far ahead of them the window reaches."""

from hypothesis import given
from hypothesis import strategies as st

from slipstream.config import Config
from slipstream.config.sections import PlacementSettings, SkipSettings
from slipstream.gpu.planning.plan_ahead import (
    PREPARED,
    READ_AHEAD,
    RECORDED,
    least_skip_lag,
    plans_ahead,
    read_at_once,
    reads_held,
    skip_lag,
    together,
    window_of,
)


@given(st.integers(1, 1 << 20), st.none() | st.integers(3, 300))
def test_while_plans_are_stepped_through_the_rows_of_the_next_can_be_read(size, window):
    config = Config(
        strategy="fast", device="cuda", batch_size=size, placement=PlacementSettings(window=window)
    )
    sent, read = together(config, []), read_at_once(config, [])
    assert 1 <= read <= sent
    assert window_of(config) - read >= 2 * sent
    assert window_of(config) >= 3 * sent
    assert sent < RECORDED or sent % RECORDED == 0, "whole recordings"
    if window is None:
        most = max(4, min(64, (1 << 18) // size))
        assert most - RECORDED < sent <= most, "the window is long enough for the most"


@given(st.integers(1, 1 << 20), st.integers(1, 1 << 26))
def test_memory_is_kept_for_all_inputs_that_are_on_their_way_and_no_more_than_there_are(size, all_):
    config = Config(strategy="fast", device="cuda", batch_size=size)
    read, held = read_at_once(config, []), reads_held(config, [], all_)
    assert (held - 1) * read * size < all_
    if held * read * size < all_:
        assert held * read >= READ_AHEAD * read + window_of(config) + 4 * together(config, [])


@given(
    st.sampled_from(["fast", "slipstream", "bagpipe", "hotline", "fae"]),
    st.integers(1, 1 << 20),
    st.integers(1, 1 << 32),
    st.none() | st.integers(1, 300),
)
def test_what_is_skipped_is_decided_before_it_is_read_and_not_long_before(
    strategy, size, inputs, window
):
    config = Config(
        strategy=strategy,
        device="cuda",
        batch_size=size,
        placement=PlacementSettings(window=window),
        skip=SkipSettings(rule="value"),
    )
    lag = skip_lag(config, inputs)
    short = least_skip_lag(config) + 4
    assert lag <= max(2 * short, 0.1 * inputs / size)
    config = config.replace(skip=config.skip.replace(lag=lag))
    assert skip_lag(config, inputs) == lag
    if plans_ahead(config, []):
        sent, read = together(config, []), read_at_once(config, [])
        # The last batch that plans need which are asked for together, where the last ones are not
        # done yet, and all that is read with it.
        assert lag >= window_of(config) + 2 * sent + read
    else:
        assert lag >= window_of(config) + 1 + PREPARED


@given(st.integers(1, 1 << 14))
def test_in_a_long_run_that_skips_inputs_as_many_plans_travel_together_as_in_one_that_does_not(
    size,
):
    plain = Config(strategy="fast", device="cuda", batch_size=size)
    judged = plain.replace(skip=SkipSettings(rule="value"))
    long, short = (
        judged.replace(skip=judged.skip.replace(lag=skip_lag(judged, inputs)))
        for inputs in (1 << 40, 1)
    )
    assert together(long, []) == together(plain, [])
    assert together(short, []) <= max(4, together(plain, []) // 4)
