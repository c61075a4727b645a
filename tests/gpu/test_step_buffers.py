"""The device turns from page to page by itself, and is told where that is not enough."""

from types import SimpleNamespace

import torch
from gpu.test_arena import DEVICE
from hypothesis import given, settings
from hypothesis import strategies as st

from slipstream.gpu.step.step_buffers import PageCursor
from slipstream.gpu.transfer.ring import Ring
from slipstream.gpu.transfer.sections import Section, Sections

PAGES = 5
SECTIONS = Sections({"number": Section(torch.float64, (1,))})
AT = st.integers(0, PAGES - 1)


@settings(max_examples=25)
@given(st.lists(st.tuples(AT, AT, st.integers(1, 3), st.booleans()), max_size=6))
def test_steps_read_and_write_the_pages_that_they_were_told_or_those_behind_them(pieces):
    device = torch.device(DEVICE)
    plans, outcomes = (Ring(SECTIONS, PAGES, device) for _ in range(2))
    numbers = torch.arange(PAGES, device=device)
    plans.device.view(torch.int64)[:, 0] = numbers
    block = torch.zeros(SECTIONS.bytes, dtype=torch.uint8, device=device)
    cursor = PageCursor(SimpleNamespace(block=block, out=block), plans, outcomes)
    plan = outcome = 0
    for to_plan, to_outcome, steps, goes_on in pieces:
        if not goes_on:
            plan, outcome = to_plan, to_outcome
        steps = min(steps, PAGES - max(plan, outcome))
        if not steps:
            continue
        outcomes.device.fill_(255)  # -1
        cursor.begin(plan, outcome, steps)
        for _ in range(steps):
            cursor.read()
            cursor.write()
        wanted = torch.full((PAGES,), -1, device=device)
        wanted[outcome : outcome + steps] = numbers[plan : plan + steps]
        assert torch.equal(outcomes.device.view(torch.int64)[:, 0], wanted)
        plan, outcome = plan + steps, outcome + steps
