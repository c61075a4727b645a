"""Each Stream has a CUDA stream of its own, and recordings leave nothing behind; needs a GPU."""

import pytest
import torch

from slipstream.gpu.streams import Stream

pytestmark = pytest.mark.needs("cuda")


def test_no_two_streams_share_a_stream_however_many_were_made_and_forgotten():
    device = torch.device("cuda")
    first = [Stream(device) for _ in range(3)]
    for count in range(40):
        streams = [torch.cuda.Stream() for _ in range(count)]  # somebody else's
        more = [Stream(device) for _ in range(5)]
        lasting = Stream.for_recording(device), Stream.for_gradients(device)
        assert lasting == (Stream.for_recording(device), Stream.for_gradients(device))
        assert len({one.cuda for one in (*first, *more, *lasting)}) == 10
        del streams, more


def test_a_recording_that_fails_leaves_the_stream_that_was_current():
    device = torch.device("cuda")
    stream, before = Stream(device), torch.cuda.current_stream()
    numbers = torch.ones(4, device=device)
    recording = stream.recording(torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle())
    with pytest.raises(RuntimeError), recording:
        numbers.sum().item()  # asks the host to wait, which cannot be recorded
    assert torch.cuda.current_stream() == before
    torch.cuda.synchronize()
    assert float(numbers.sum()) == 4
