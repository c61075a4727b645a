"""Threads of compiled code wait for each other, and hold no interpreter lock meanwhile."""

import threading
import time

import numpy as np
import pytest

from slipstream.compiled import compiled
from slipstream.gpu.transfer.semaphores import AVAILABLE, await_, give, signals

pytestmark = pytest.mark.skipif(not AVAILABLE, reason="the C library has no semaphores here")


@compiled
def echo(begin, done, times, seen):
    for k in range(times):
        while await_(begin) != 0:
            pass
        seen[0] = k + 1
        give(done)


@compiled
def ask(begin, done, times, seen):
    for k in range(times):
        give(begin)
        while await_(done) != 0:
            pass
        if seen[0] != k + 1:
            return k
    return times


def test_each_signal_is_taken_once_and_what_was_written_before_it_is_seen():
    both, seen = signals(2), np.zeros(1, dtype=np.int64)
    begin, done = (one.ctypes.data for one in both)
    thread = threading.Thread(target=echo, args=(begin, done, 1000, seen))
    thread.start()
    assert ask(begin, done, 1000, seen) == 1000
    thread.join(5)
    assert not thread.is_alive()


def test_who_waits_lets_others_go_on():
    both, seen = signals(2), np.zeros(1, dtype=np.int64)
    begin, done = (one.ctypes.data for one in both)
    echo(begin, done, 0, seen)  # compiled before it is timed
    thread = threading.Thread(target=echo, args=(begin, done, 1, seen))
    thread.start()
    time.sleep(0.05)  # this thread goes on, though nobody has given the signal
    assert thread.is_alive()
    assert seen[0] == 0
    ask(begin, done, 1, seen)
    thread.join(5)
    assert seen[0] == 1
