"""The engine for a GPU with steps under way, threads that plan ahead, and what can go wrong."""

import gc
import threading
import time
import weakref
from collections import Counter
from contextlib import contextmanager, nullcontext
from itertools import count

import numpy as np
import pytest
import torch
from small_runs import clicks, config, often_chosen, reported, skewed, stop_after

from slipstream.data.loader import Loader
from slipstream.gpu.planning import plan_ahead
from slipstream.gpu.step import graph_engine
from slipstream.gpu.step.arena import Arena
from slipstream.gpu.step.frames import Frames
from slipstream.gpu.step.graph_engine import GraphEngine
from slipstream.gpu.streams import Stream
from slipstream.gpu.transfer import carrier
from slipstream.gpu.transfer.carrier import Carrier
from slipstream.gpu.transfer.gather import Pool
from slipstream.training.loop import StoppedError, Trainer, train
from slipstream.training.state import Hooks

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def _by_kernels_of_a_gpu(monkeypatch):
    monkeypatch.setattr(
        plan_ahead, "kernels_for", lambda _, tier_sizes: "cpu" if tier_sizes is None else "gpu"
    )
    reported(monkeypatch, 100_000)


def keys(*settings, strategy="fast"):
    """With few reports: nothing but what a test asks for comes between steps."""
    few = ("placement.fast_memory=70%", "placement.window=12")
    return config(*few, *settings, strategy=strategy, device=DEVICE)


@pytest.mark.parametrize("strategy", ["fast", "bagpipe"])
def test_threads_that_stall_at_random_change_no_bit(strategy, tmp_path, monkeypatch):
    data, wanted = clicks(240), keys("checkpoint.every_inputs=100", strategy=strategy)
    told = wanted.with_settings(["placement.fast_memory=100%"])
    with monkeypatch.context() as often:
        reported(often, 16)
        whole = train(data, told, tmp_path / "whole")
    random = np.random.default_rng(0)

    def stalling(work):
        def stalled(*args):
            time.sleep(random.choice([0, 1e-3, 2e-2]))
            work(*args)

        return stalled

    for name in ("gather", "scatter", "gather_pages", "scatter_pages"):
        monkeypatch.setattr(Pool, name, stalling(getattr(Pool, name)))
    ours = train(data, wanted, tmp_path / "ours")
    assert ours["transfers"]["rows_in"] > 0
    assert ours["weights_digest"] == whole["weights_digest"]
    with pytest.raises(StoppedError):
        train(data, wanted, tmp_path / "cut", hooks=stop_after(9))
    resumed = train(data, wanted, tmp_path / "cut", resume=True)
    assert resumed["weights_digest"] == whole["weights_digest"]


def test_memory_for_inputs_on_their_way_is_reserved_before_the_first_step(tmp_path, monkeypatch):
    said, step_all = [], GraphEngine.step_all

    def stepping(self, plans):
        said.append("step")
        return step_all(self, plans)

    monkeypatch.setattr(Loader, "reserve", lambda self, reads: said.append(reads))
    monkeypatch.setattr(GraphEngine, "step_all", stepping)
    data, wanted = clicks(900), keys("evaluate.at=[]")
    train(data, wanted, tmp_path / "run")
    assert said[0] == plan_ahead.reads_held(wanted, [], len(data.train)) > 1
    assert set(said[1:]) == {"step"}


def test_a_run_that_is_stopped_leaves_no_thread(tmp_path, monkeypatch):
    with pytest.raises(StoppedError) as stopped:
        train(clicks(3000), keys(), tmp_path / "cut", hooks=stop_after(5))
    ours = [one.name for one in threading.enumerate() if one.name.startswith("slipstream")]
    # Those that kernels of the CPU share their work with serve the whole process.
    left = [name for name in ours if not name.startswith("slipstream-kernels")]
    assert not left, f"while {stopped.value!r} is looked at"


def test_an_error_in_a_step_ends_a_thread_that_waits_for_its_pages(tmp_path, monkeypatch):
    # Plans that travel together are four, three, and again four: there is no room for those of the
    # sixth time before those of the third are done, in the first step of which there is an error.
    wanted = keys("placement.fast_memory=100%", "evaluate.at=[0.0466]")
    assert plan_ahead.together(wanted, []) == 4
    run, lengths, raised = GraphEngine._run, [], []

    def fail(self, cursor, steps):
        lengths.append(len(steps))
        if len(lengths) == 3:
            time.sleep(0.5)  # the thread waits by then
            raise RuntimeError("no memory is left")
        run(self, cursor, steps)

    def trained():
        try:
            train(clicks(3000), wanted, tmp_path / "run")
        except RuntimeError as error:
            raised.append(str(error))

    monkeypatch.setattr(GraphEngine, "_run", fail)
    training = threading.Thread(target=trained, daemon=True)  # it may stay
    training.start()
    training.join(30)
    assert lengths == [4, 3, 4]
    assert raised == ["no memory is left"]


def test_the_slots_are_given_back_when_a_run_ends(tmp_path, monkeypatch):
    train(clicks(160), keys(), tmp_path / "first")  # what is imported then is kept for good
    made, slots = Arena.__init__, []

    def made_and_watched(self, *args):
        made(self, *args)
        slots.append(weakref.ref(self))

    monkeypatch.setattr(Arena, "__init__", made_and_watched)
    gc.collect()
    gc.disable()
    try:
        train(clicks(160), keys(), tmp_path / "run")
        assert [one() for one in slots] == [None]
    finally:
        gc.enable()


def test_what_a_write_back_failed_with_is_told_and_not_what_follows_from_it(tmp_path, monkeypatch):
    start = Trainer.start

    def start_with_a_full_disk(self, *args):
        start(self, *args)
        self.engine.tables.before_write = fail

    def fail(group, rows):
        time.sleep(0.1)  # the next step waits for its rows by then
        raise OSError("the disk is full")

    monkeypatch.setattr(Trainer, "start", start_with_a_full_disk)
    with pytest.raises(OSError, match="the disk is full"):
        train(clicks(160), keys("placement.window=1", strategy="bagpipe"), tmp_path / "run")


def test_steps_that_cannot_be_recorded_are_the_same(tmp_path, monkeypatch):
    whole = train(clicks(160), keys(), tmp_path / "whole")
    made, update_rows, record = GraphEngine.__init__, Arena.update_rows, GraphEngine._try_to_record

    def made_to_record(self, *args, **options):
        made(self, *args, **options)
        self._record = True

    def fail(*_):
        raise RuntimeError("this cannot be recorded")

    def record_and_fail(self, *args):
        monkeypatch.setattr(Arena, "update_rows", fail)
        record(self, *args)
        monkeypatch.setattr(Arena, "update_rows", update_rows)

    monkeypatch.setattr(GraphEngine, "__init__", made_to_record)
    monkeypatch.setattr(GraphEngine, "_try_to_record", record_and_fail)
    if DEVICE == "cpu":
        monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, 1))
        monkeypatch.setattr(torch.cuda, "CUDAGraph", object)
        monkeypatch.setattr(torch.cuda, "graph", lambda *_, **__: nullcontext())
        monkeypatch.setattr(torch.cuda, "synchronize", lambda _: None)
    said: list[str] = []
    ours = train(clicks(160), keys(), tmp_path / "ours", hooks=Hooks(on_message=said.append))
    assert [one for one in said if "cannot be recorded" in one] == [
        "Steps are not recorded, which makes them slower: this cannot be recorded"
    ]
    assert ours["weights_digest"] == whole["weights_digest"]


def test_what_is_on_its_way_has_arrived_when_its_memory_is_given_back(tmp_path, monkeypatch):
    done: list[str] = []
    mark, close = Stream.mark, Carrier.close

    def marked(self):
        made = mark(self)
        wait = made.wait
        made.wait = lambda: (done.append("all of the stream"), wait())
        return made

    def closed(self):
        monkeypatch.setattr(self._inward, "mark", lambda: marked(self._inward))
        for thread in self._threads:
            monkeypatch.setattr(thread, "join", lambda end=thread.join: (end(), done.append("end")))
        close(self)

    monkeypatch.setattr(Carrier, "close", closed)
    with pytest.raises(StoppedError):
        train(clicks(3000), keys(), tmp_path / "cut", hooks=stop_after(5))
    assert done == ["end", "end", "all of the stream"], "nothing is sent after that"


class Recording:
    """Where there is no GPU: the work that was asked for, done again each time."""

    most = 0

    def __init__(self):
        self.work = []

    def replay(self):
        for work in self.work:
            work()


@pytest.fixture
def recordings(monkeypatch):
    """Have steps recorded on a CPU: how many recordings each pool has.

    As in PyTorch, none is taken into a pool whose last one is gone.
    """
    made, turn_over = GraphEngine.__init__, GraphEngine._turn_over
    users: Counter[tuple[int, int]] = Counter()
    numbers = count(1)
    recording: list[Recording] = []
    Recording.most = 0

    def made_to_record(self, *args, **options):
        made(self, *args, **options)
        self._record = True

    @contextmanager
    def graph(one, *, pool, **_):
        if pool in users and not users[pool]:
            raise RuntimeError("use_count > 0 INTERNAL ASSERT FAILED")
        users[pool] += 1
        weakref.finalize(one, users.subtract, [pool])
        recording.append(one)
        yield
        Recording.most = max(Recording.most, len(one.work))
        recording.clear()

    def recorded(self, cursor, used):
        if not recording:
            turn_over(self, cursor, used)
            return
        itself = weakref.proxy(self)
        recording[0].work.append(lambda: turn_over(itself, cursor, used))

    monkeypatch.setattr(GraphEngine, "__init__", made_to_record)
    if DEVICE == "cpu":
        monkeypatch.setattr(GraphEngine, "_turn_over", recorded)
        monkeypatch.setattr(GraphEngine, "_recorded", lambda *_: None)  # scoring is not
        monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: (0, next(numbers)))
        monkeypatch.setattr(torch.cuda, "CUDAGraph", Recording)
        monkeypatch.setattr(torch.cuda, "graph", graph)
        monkeypatch.setattr(torch.cuda, "synchronize", lambda _: None)
    return users


def test_recordings_are_made_anew_when_plans_outgrow_their_pages(recordings, tmp_path, monkeypatch):
    n = np.arange(960)  # ever more rows in a batch
    data = clicks(960, columns={"user": n * n % (6 + n // 10), "ad": n * n % (2 + n // 40)})
    whole = train(data, keys("placement.fast_memory=100%"), tmp_path / "whole")
    tier_sizes = []

    def just_enough(needed, before=None, **_):
        made = {name: max(1, size, (before or {}).get(name, 0)) for name, size in needed.items()}
        tier_sizes.append(made)
        return made

    monkeypatch.setattr(carrier, "room_for", just_enough)
    said: list[str] = []
    ours = train(
        data, keys(strategy="bagpipe"), tmp_path / "ours", hooks=Hooks(on_message=said.append)
    )
    assert not [one for one in said if "not recorded" in one], said
    assert ours["weights_digest"] == whole["weights_digest"]
    assert len(tier_sizes) > 2, "pages were too small several times"
    if DEVICE == "cpu":
        assert len(recordings) > 2, "one pool for the first run, and several for the second"
        assert Recording.most == plan_ahead.together(keys(), []) > 1


def test_a_batch_in_two_parts_has_a_recording_for_its_frames(recordings, tmp_path, monkeypatch):
    data, wanted = skewed(800), keys(strategy="hotline")
    often_chosen(monkeypatch, 4)
    with monkeypatch.context() as never:
        never.setattr(graph_engine, "_BEFORE_RECORDING", 10**9)
        whole = train(data, wanted, tmp_path / "whole")
    assert not recordings
    run, record = GraphEngine._run, GraphEngine._try_to_record
    used: Counter[Frames] = Counter()
    made: Counter[Frames] = Counter()

    def counted(self, cursor, steps):
        used.update(steps)
        run(self, cursor, steps)

    def noted(self, cursor, frames, steps):
        made[frames] += steps
        record(self, cursor, frames, steps)

    monkeypatch.setattr(GraphEngine, "_run", counted)
    monkeypatch.setattr(GraphEngine, "_try_to_record", noted)
    ours = train(data, wanted, tmp_path / "ours")
    assert ours["weights_digest"] == whole["weights_digest"]
    often = {frames for frames, times in used.items() if times > graph_engine._BEFORE_RECORDING}
    assert len(often) > 2, "parts had several sizes"
    assert made == dict.fromkeys(often, 1), "one step of each"
