"""Orders with examples left out: full batches of the others, each judged once, any resume."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from random_datasets import orders

from slipstream.order import Apart, InputOrder, Rates
from slipstream.skip.decision import Decisions
from slipstream.skip.judge import Verdict
from slipstream.skip.order import SkippingOrder


def judge(decision, positions, numbers):
    """Skips by number, and by the decision; a verdict that depends on nothing else."""
    if decision.trains_all:
        return Verdict(np.ones(len(numbers), dtype=bool), np.zeros(len(numbers), np.float32))
    train = (numbers * 31 + decision.number * 7) % 10 >= decision.threshold
    return Verdict(train, numbers.astype(np.float32) + decision.number)


def arranged(base, kind):
    hot = lambda numbers: numbers * 7 % 5 < 3  # noqa: E731
    return {
        "as-is": base,
        "apart": Apart(base, hot, 40, Rates(8)),
        "cold-first": Apart(base, hot, max(1, base.per_epoch), Rates(fixed=100)),
    }[kind]


def walk(order, batch_size, *, lag=3, every=4, start=None, world=1, most=None):
    """Train through an order, with a decision every few steps; all cuts and their states."""
    decisions = Decisions(lag)
    position = 0
    if start is not None:
        position, decisions.done, decisions.all = start
    skipped = SkippingOrder(order, judge, decisions, most)
    shares = [skipped.cuts(position, batch_size, rank=r, world_size=world) for r in range(world)]
    walked = []
    for step in zip(*shares, strict=True):
        if step[0] is None:
            assert order.pending_decision(position) is not None, "waits for nothing but a loss"
            order.report_loss(order.pending_decision(position), 0.5)
            continue
        number = order.pending_decision(step[0].next_position)
        if number is not None:
            order.report_loss(number, 0.5)
        position = step[0].next_position
        decisions.done += 1
        if decisions.done % every == 0:
            decisions.take(decisions.done // every % 11, {})
        walked.append((step, (position, decisions.done, list(decisions.all))))
    return walked


@given(
    base=orders(max_examples=300),
    kind=st.sampled_from(["as-is", "apart", "cold-first"]),
    batch_size=st.integers(1, 30),
    world=st.integers(1, 2),
    most=st.none() | st.integers(30, 60),
)
def test_every_example_is_trained_or_skipped_once_and_batches_are_full(
    base, kind, batch_size, world, most
):
    steps = walk(arranged(base, kind), batch_size, world=world, most=most)
    seen, sizes = [], []
    for cuts, (position, _, _) in steps:
        trained = np.concatenate([cut.example_numbers for cut in cuts])
        seen += trained.tolist() + cuts[0].skipped.tolist()
        sizes.append(len(trained))
        assert len(seen) == position == cuts[0].next_position
    assert sorted(seen) == sorted([*range(base.start, base.start + base.per_epoch)] * base.epochs)
    used = np.diff([0, *(position for _, (position, _, _) in steps)])
    assert most is None or max(used, default=0) <= most * world
    if kind == "as-is":
        ended = [most is not None and each == most * world for each in used]
        full = [size == batch_size * world for size in sizes]
        assert all(a or b for a, b in zip(full[:-1], ended, strict=False))


@given(
    base=orders(max_examples=300),
    kind=st.sampled_from(["as-is", "cold-first"]),
    batch_size=st.integers(1, 20),
    stop=st.integers(0, 60),
    most=st.none() | st.integers(20, 50),
)
def test_resumed_at_any_step_the_same_batches_follow(base, kind, batch_size, stop, most):
    whole = walk(arranged(base, kind), batch_size, most=most)
    if stop >= len(whole):
        return
    rest = walk(arranged(base, kind), batch_size, start=whole[stop][1], most=most)
    assert len(rest) == len(whole) - stop - 1
    for ((each,), _), ((other,), _) in zip(whole[stop + 1 :], rest, strict=True):
        assert each.example_numbers.tolist() == other.example_numbers.tolist()
        assert each.skipped.tolist() == other.skipped.tolist()
        assert each.next_position == other.next_position
        assert each.decision == other.decision
        if each.logit_offset is None:
            assert other.logit_offset is None
        else:
            assert each.logit_offset.tolist() == other.logit_offset.tolist()


def test_a_decision_holds_from_a_fixed_batch_on_however_far_ahead_is_read():
    for at_once in (1, 5):  # batches that are read before any of them is trained
        decisions = Decisions(lag=6)
        cuts = SkippingOrder(InputOrder(2000), judge, decisions).cuts(0, 10)
        waiting, by = [], []
        while True:
            while len(waiting) < at_once:
                if (cut := next(cuts, None)) is None:
                    break
                waiting.append(cut)
            if not waiting:
                break
            by.append(waiting.pop(0).decision)
            decisions.done += 1
            if decisions.done == 7:
                decisions.take(5, {})
        assert by.index(1) + 1 == 7 + 6 + 1


def test_a_batch_that_is_read_too_far_ahead_waits_for_its_decision():
    decisions = Decisions(lag=2)
    cuts = SkippingOrder(InputOrder(100), judge, decisions).cuts(0, 10)
    assert [next(cuts) is None for _ in range(5)] == [False, False, False, True, True]
    decisions.done = 1
    assert next(cuts).example_numbers.tolist() == list(range(30, 40))


def test_a_loader_that_begins_anew_has_the_same_decisions():
    decisions = Decisions(lag=2)
    order = SkippingOrder(InputOrder(400), judge, decisions)
    cuts = order.cuts(0, 10)
    for _ in range(3):
        next(cuts)
        decisions.done += 1
    decisions.take(5, {})
    ahead = [next(cuts) for _ in range(3)]
    again = order.cuts(ahead[0].next_position, 10)
    for each in ahead[1:]:
        other = next(again)
        assert (each.example_numbers.tolist(), each.decision) == (
            other.example_numbers.tolist(),
            other.decision,
        )


def test_where_all_are_skipped_a_batch_without_examples_uses_them_up():
    decisions = Decisions(lag=1)
    decisions.take(10, {})
    decisions.done = 100
    (cut,) = SkippingOrder(InputOrder(50), judge, decisions).cuts(0, 10)
    assert len(cut.example_numbers) == 0
    assert len(cut.skipped) == cut.next_position == 50


def test_where_all_are_skipped_a_decision_comes_before_too_many_are():
    decisions = Decisions(lag=2)
    decisions.take(10, {})
    decisions.done = 100
    cuts = SkippingOrder(InputOrder(300), judge, decisions, most=20).cuts(0, 10)
    used = []
    for cut in cuts:
        used.append((len(cut.example_numbers), cut.next_position))
        decisions.done += 1
        if len(used) == 2:
            decisions.take(0, {})  # trains all
    assert used[:4] == [(0, 20), (0, 40), (0, 60), (0, 80)]  # two of the lag
    assert used[4:6] == [(10, 90), (10, 100)]


@pytest.mark.parametrize("kind", ["as-is", "apart", "cold-first"])
def test_with_nothing_to_skip_the_batches_are_those_of_the_order(kind):
    base = InputOrder(500, seed=3, epochs=2)
    plain, order = arranged(base, kind), arranged(base, kind)
    for segment in range(60 if kind == "apart" else 0):
        plain.report_loss(segment, 0.5)
        order.report_loss(segment, 0.5)
    decisions = Decisions(lag=10**6)
    both = zip(plain.cuts(0, 16), SkippingOrder(order, judge, decisions).cuts(0, 16), strict=True)
    for each, other in both:
        assert each.example_numbers.tolist() == other.example_numbers.tolist()
        assert each.next_position == other.next_position
