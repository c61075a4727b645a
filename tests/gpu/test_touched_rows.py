"""The rows of a batch found on the device, beside those that the host finds."""

import numpy as np
import torch
from gpu.test_arena import DEVICE
from hypothesis import example, given, settings
from hypothesis import strategies as st

from slipstream.gpu.kernels.touched_rows import sizes, touch
from slipstream.gpu.transfer.compiled_packing import CHUNK, SHORT, long_lists


def touched(slots, places, features):
    """What the device finds, as arrays of their real length."""
    made = {
        name: torch.full((size,), -7, dtype=torch.int32, device=DEVICE)
        for name, size in sizes(slots.numel()).items()
    }
    counts = torch.full((5,), -7, dtype=torch.int32, device=DEVICE)
    places = torch.tensor(places, dtype=torch.int32, device=DEVICE)
    touch(slots.to(DEVICE), places, features, *made.values(), counts)
    rows, long, chunks = counts[:3].tolist()
    assert counts[3:].tolist() == [-7, -7]
    ends = {"rows": rows, "starts": rows + 1, "long_rows": long, "chunk_of": chunks}
    ends["long_starts"] = long
    out = {name: one.cpu().numpy()[: ends.get(name)] for name, one in made.items()}
    out["sources"] = out["sources"][: out["starts"][-1]]
    return out


def expected(slots, places, features):
    """The sources of each row, in the order of inputs and features."""
    found = {}
    for i in range(slots.shape[1]):
        for f, place in enumerate(places):
            if slots[f, i] >= 0:
                found.setdefault(int(slots[f, i]), []).append(i * features + place)
    return dict(sorted(found.items()))


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 4), st.integers(1, 60), st.integers(1, 90), st.integers(0, 999), st.booleans()
)
@example(1, 300, 1, 0, False)
@example(3, 200, 2, 1, True)
@example(2, 1100, 3, 2, True)
def test_the_device_finds_the_rows_that_the_host_finds(singles, capacity, rows, seed, padded):
    draw = np.random.default_rng(seed)
    slots = draw.integers(0, rows, (singles, capacity), dtype=np.int32)
    if padded:
        slots[draw.random(slots.shape) < 0.3] = -1
        slots[:, draw.integers(0, capacity + 1) :] = -1
    places = sorted(draw.permutation(singles + 2)[:singles].tolist())
    wanted = expected(slots, places, singles + 2)
    found = touched(torch.from_numpy(slots), places, singles + 2)
    assert found["rows"].tolist() == list(wanted)
    pieces = np.split(found["sources"], found["starts"][1:-1]) if wanted else []
    assert [piece.tolist() for piece in pieces] == list(wanted.values())
    room = sizes(slots.size)
    long_rows, long_starts, chunk_of = (
        np.zeros(room[name] + 1, np.int32) for name in ("long_rows", "long_starts", "chunk_of")
    )
    long, chunks = long_lists(found["starts"], long_rows, long_starts, chunk_of)
    assert sorted(found["long_rows"].tolist()) == long_rows[:long].tolist()
    # In whatever order: each has as many chunks as on the host, and all of them are side by side.
    assert len(found["chunk_of"]) == chunks
    numbers = np.bincount(found["chunk_of"], minlength=long)
    wanted = dict(zip(long_rows, np.bincount(chunk_of[:chunks], minlength=long), strict=False))
    for place, row in enumerate(found["long_rows"]):
        begin = found["long_starts"][place]
        assert numbers[place] == wanted[row]
        assert (found["chunk_of"][begin : begin + numbers[place]] == place).all()


def test_the_room_is_enough_for_any_batch():
    for lookups in (1, SHORT, SHORT + 1, CHUNK, 10 * CHUNK + 1):
        most = lookups // (SHORT + 1)
        worst = max((-(-(lookups - k * (SHORT + 1)) // CHUNK) + k for k in range(most)), default=0)
        assert sizes(lookups)["long_rows"] >= most
        assert sizes(lookups)["chunk_of"] >= worst
