"""Parts of a batch on a GPU: they train as the whole batch does, at sizes that fit them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from small_runs import clicks
from training.test_split import keys_of, stepping

from slipstream import Lists
from slipstream.gpu.planning import plan_ahead

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
CAPACITY = 16


def all_kinds(n):
    """Single ids, a history of one of them, and pooled lists."""
    random = np.random.default_rng(0)
    draw = lambda rows, size: (rows * random.random(size) ** 4).astype(np.int64)  # noqa: E731
    lists = {
        name: Lists.of([draw(40, random.integers(0, 4)).tolist() for _ in range(n)], kind)
        for name, kind in (("seen", "sequence"), ("words", "sum"), ("tags", "mean"))
    }
    columns = {"item": draw(60, n), "user": draw(30, n), **lists}
    return clicks(n, columns=columns, tables={"seen": "item"})


@pytest.fixture
def split(monkeypatch):
    """Steps of a model on a GPU: gives what a plan says that is cut where one asks for it."""

    def made(data, model, *settings):
        engine, plans = stepping(keys_of("hotline", model, f"device={DEVICE}", *settings), data)

        def step(plan, cut):
            plan = replace(plan, parts=(cut,))
            engine.prepare(plan)
            (said,) = (*engine.step(plan), *engine.remaining_results())
            engine.tables.flush()
            return said

        return engine, plans, step

    by_gpu = lambda _, tier_sizes: "cpu" if tier_sizes is None else "gpu"  # noqa: E731
    monkeypatch.setattr(plan_ahead, "kernels_for", by_gpu)
    return made


@pytest.mark.parametrize("model", ["dlrm", "tbsm"])
@pytest.mark.parametrize("optimizer", ["rowwise_adagrad", "adam"])
def test_wherever_a_batch_is_cut_it_trains_as_a_whole_in_float64(split, model, optimizer):
    settings = ("embedding.storage=fp64", f"embedding.optimizer={optimizer}")
    data = all_kinds(330)
    plain, its_plans = stepping(keys_of("plain", model, *settings), data)
    engine, plans, step = split(data, model, *settings)
    # Every place once; the last batch has padding behind its second part.
    cuts = [11 * n % (CAPACITY + 1) for n in range(CAPACITY + 1)]
    for cut, one, two in zip(cuts, its_plans, plans, strict=True):
        wanted, said = plain.forward(one), step(two, cut)
        plain.update(one)
        assert said.loss == pytest.approx(wanted.loss, abs=1e-9)
        n = two.n_valid
        logits = said.logits[:n][two.example_numbers[:n].argsort()]
        close = {"rtol": 1e-9, "atol": 1e-9}
        torch.testing.assert_close(logits, wanted.logits[:n], **close)
        for left, right in zip(engine.tables.stores, plain.tables.stores, strict=True):
            for name, values in right.views.items():
                ours, theirs = (torch.from_numpy(v.copy()) for v in (left.views[name], values))
                torch.testing.assert_close(ours, theirs, **close)
        for name, value in plain.dense.weights.items():
            torch.testing.assert_close(engine.dense.weights[name], value, **close)
    assert n < CAPACITY
    engine.tables.close()


def test_each_part_is_trained_at_the_smallest_size_that_holds_it(split, monkeypatch):
    engine, plans, step = split(all_kinds(330), "dlrm")
    seen, logits = [], engine.dense.logits

    def counted(dense, embedded, **options):
        assert {len(one) for one in embedded.vectors} == {len(dense)}
        seen.append(len(dense))
        return logits(dense, embedded, **options)

    monkeypatch.setattr(engine.dense, "logits", counted)
    for cut, sizes in (
        (0, [16]),
        (1, [2, 16]),
        (2, [2, 14]),
        (7, [8, 10]),
        (8, [8, 8]),
        (13, [14, 4]),
        (15, [16, 2]),
        (16, [16]),
    ):
        seen.clear()
        step(next(plans), cut)
        assert seen == sizes
    engine.tables.close()
