"""Lanes have streams of their own, and recordings leave nothing behind; needs a GPU."""

import pytest
import torch

from slipstream.lanes import Lane

pytestmark = pytest.mark.needs("cuda")


def test_no_two_lanes_share_a_stream_however_many_were_made_and_forgotten():
    device = torch.device("cuda")
    first = [Lane(device) for _ in range(3)]
    for count in range(40):
        streams = [torch.cuda.Stream() for _ in range(count)]  # somebody else's
        more = [Lane(device) for _ in range(5)]
        lasting = Lane.for_recording(device), Lane.for_gradients(device)
        assert lasting == (Lane.for_recording(device), Lane.for_gradients(device))
        assert len({one.stream for one in (*first, *more, *lasting)}) == 10
        del streams, more


def test_a_recording_that_fails_leaves_the_stream_that_was_current():
    device = torch.device("cuda")
    lane, before = Lane(device), torch.cuda.current_stream()
    numbers = torch.ones(4, device=device)
    recording = lane.recording(torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle())
    with pytest.raises(RuntimeError), recording:
        numbers.sum().item()  # asks the host to wait, which cannot be recorded
    assert torch.cuda.current_stream() == before
    torch.cuda.synchronize()
    assert float(numbers.sum()) == 4
