"""Batches scored on a device beside the same scored by the kernels of the CPU."""

import threading
from contextlib import ExitStack, closing

import numpy as np
import pytest
import torch
from small_runs import clicks, config

from slipstream import from_arrays
from slipstream.data.loader import Loader
from slipstream.errors import DataError
from slipstream.gpu.planning import plan_ahead
from slipstream.gpu.step import scoring
from slipstream.pipeline.engine import Engine
from slipstream.tables.plan import Planner
from slipstream.training import build
from slipstream.training.loop import train
from slipstream.training.placement import placement_for, slow_placement, tier_sizes_of

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def _by_kernels_of_a_gpu(monkeypatch):
    monkeypatch.setattr(
        plan_ahead, "kernels_for", lambda _, tier_sizes: "cpu" if tier_sizes is None else "gpu"
    )


def engine_after_some_steps(stack, data, wanted):
    """An engine whose slots hold rows that have moved."""
    model = build.model_of(wanted, data)
    tier_sizes = tier_sizes_of(wanted, model.layout, data)
    engine = build.engine_of(wanted, model, steps=0, tier_sizes=tier_sizes)
    stack.callback(engine.tables.close)
    tiered = placement_for(wanted, model.layout, data, tier_sizes)
    engine.tables.keep(tiered.resident_rows())
    with Loader(data.train, wanted.batch_size) as loader:
        for plan in Planner(tiered).plans(loader):
            engine.prepare(plan)
            list(engine.step(plan))
            if plan.step == 4:
                break
    list(engine.remaining_results())
    return engine, Planner(slow_placement(model.layout, data), update=False)


@pytest.mark.parametrize("memory", ["30%", "70%", "100%"])
@pytest.mark.parametrize("storage", ["fp32", "split-bf16", "bf16"])
def test_the_same_logits_to_the_bit(memory, storage):
    data = clicks(400)
    settings = (f"placement.fast_memory={memory}", f"embedding.storage={storage}")
    with ExitStack() as stack:
        wanted = config(*settings, strategy="fast", device=DEVICE)
        engine, planner = engine_after_some_steps(stack, data, wanted)
        for size in (16, 7, 16):  # the last batch of each is short
            with Loader(data.train, size) as loader, Loader(data.train, size) as again:
                ours = list(engine.scores(loader, planner))
                theirs = list(Engine.scores(engine, again, planner))
            assert [one.n_valid for one, _ in ours] == [one.n_valid for one, _ in theirs]
            for (batch, mine), (_, other) in zip(ours, theirs, strict=True):
                assert torch.equal(mine[: batch.n_valid], other[: batch.n_valid])


@pytest.mark.parametrize("memory", ["70%", "90%"])
def test_of_a_few_batches_only_their_rows_are_written_back_and_logits_have_the_same_bits(memory):
    data = clicks(400)
    with ExitStack() as stack:
        wanted = config(f"placement.fast_memory={memory}", strategy="fast", device=DEVICE)
        engine, planner = engine_after_some_steps(stack, data, wanted)
        before = [store.records.copy() for store in engine.tables.stores]
        with Loader(data.train, 4) as loader:
            few = [next(loader) for _ in range(8)][-2:]
        ours = [logits for _, logits in engine.scores(few, planner, few=True)]
        records = [store.records for store in engine.tables.stores]
        written = sum(int((a != b).any(1).sum()) for a, b in zip(before, records, strict=True))
        theirs = [logits for _, logits in Engine.scores(engine, few, planner)]
        all_of_them = sum(int((a != b).any(1).sum()) for a, b in zip(before, records, strict=True))
    assert torch.equal(torch.cat(ours), torch.cat(theirs))
    assert written < all_of_them


def test_batches_that_need_more_and_more_rows():
    n = 96
    ids = np.concatenate([np.zeros(64, int), np.arange(32)])  # later batches need more rows
    data = from_arrays(
        labels=np.arange(n) % 2, columns={"user": ids}, min_count=0, validation=0.0, evaluation=0.0
    )
    with ExitStack() as stack:
        wanted = config("placement.fast_memory=60%", strategy="fast", device=DEVICE)
        engine, planner = engine_after_some_steps(stack, data, wanted)
        with Loader(data.train, 8) as loader, Loader(data.train, 8) as again:
            ours = [logits for _, logits in engine.scores(loader, planner)]
            theirs = [logits for _, logits in Engine.scores(engine, again, planner)]
    assert torch.equal(torch.cat(ours), torch.cat(theirs))


def test_who_stops_asking_leaves_no_thread():
    data = clicks(400)
    with ExitStack() as stack:
        wanted = config("placement.fast_memory=60%", strategy="fast", device=DEVICE)
        engine, planner = engine_after_some_steps(stack, data, wanted)
        with Loader(data.train, 16) as loader:
            scores = engine.scores(loader, planner)
            next(scores)
            scores.close()
        names = [one.name for one in threading.enumerate()]
        assert not [name for name in names if "score" in name]


def test_who_stopped_asking_can_ask_again():
    data = clicks(400)
    with ExitStack() as stack:
        wanted = config("placement.fast_memory=100%", strategy="fast", device=DEVICE)
        engine, planner = engine_after_some_steps(stack, data, wanted)
        with Loader(data.train, 16) as loader, closing(engine.scores(loader, planner)) as scores:
            next(scores)
        # It would wait for ever, and nothing wakes it: so it is asked from a thread that may stay.
        asked = threading.Thread(
            target=lambda: again.extend(engine.scores(batches, planner)), daemon=True
        )
        with Loader(data.train, 16) as loader:
            batches, again = list(loader), []
        asked.start()
        asked.join(20)
        assert len(again) == len(batches)


def test_an_id_out_of_range_is_an_error_and_not_another_row():
    data = clicks(400)
    with ExitStack() as stack:
        wanted = config("placement.fast_memory=60%", strategy="fast", device=DEVICE)
        engine, planner = engine_after_some_steps(stack, data, wanted)
        with Loader(data.train, 16) as loader:
            batches = [next(loader) for _ in range(5)]
        batches[3].ids[2, 0] = 30_000
        with pytest.raises(DataError, match=r"30,?000"):
            list(engine.scores(batches, planner))


def test_scoring_that_is_recorded_gives_what_it_gives_otherwise(monkeypatch):
    """A recording of the CPU, which has none: what was worked on is worked on again."""
    data = clicks(400)

    class Again:
        def __init__(self, work, into):
            self.work, self.into = work, into

        def replay(self):
            self.into.copy_(self.work())

    def recorded(work):
        into = work().clone()
        return Again(work, into), into

    with ExitStack() as stack:
        wanted = config("placement.fast_memory=60%", strategy="fast", device=DEVICE)
        engine, planner = engine_after_some_steps(stack, data, wanted)
        with Loader(data.train, 16) as loader:
            plain = [logits for _, logits in engine.scores(loader, planner)]
        if DEVICE == "cpu":
            monkeypatch.setattr(engine, "_recorded", recorded)
        engine._scoring.clear()
        with Loader(data.train, 16) as loader:
            ours = [logits for _, logits in engine.scores(loader, planner)]
        assert engine._scoring[16]._buffers.recording is not None
    assert torch.equal(torch.cat(ours), torch.cat(plain))


def test_a_run_scores_its_parts_on_the_device(tmp_path, monkeypatch):
    taken = []
    scores = scoring.Scoring.scores

    def watched(self, *args):
        for one in scores(self, *args):
            taken.append(one)
            yield one

    monkeypatch.setattr(scoring.Scoring, "scores", watched)
    data = clicks(400)
    wanted = config("placement.fast_memory=60%", strategy="fast", device=DEVICE)
    summary = train(data, wanted, tmp_path / "run")
    assert len(taken) > 1
    assert summary["auc"] is not None
