import gc
import sys
import threading
import time
from contextlib import ExitStack

import pytest

from slipstream.background import BackgroundIterator, low_latency_interpreter


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "slipstream-ahead"]


def test_items_come_in_order_and_only_a_few_are_made_ahead():
    produced = []

    def numbers():
        for number in range(50):
            produced.append(number)
            yield number

    with BackgroundIterator(numbers(), 3) as ahead:
        for number in ahead:
            assert len(produced) <= number + 4
            assert number == produced[number]
    assert len(produced) == 50
    assert not threads()


def test_an_error_comes_after_what_was_made_before_it():
    def numbers():
        yield 1
        raise ValueError("no more")

    with BackgroundIterator(numbers(), 2) as ahead:
        assert next(ahead) == 1
        with pytest.raises(ValueError, match="no more"):
            next(ahead)
        assert next(ahead, None) is None


def test_closing_ends_the_thread_whatever_is_left():
    def numbers():
        while True:
            time.sleep(1e-3)
            yield 0

    ahead = BackgroundIterator(numbers(), 2)
    assert next(ahead) == 0
    ahead.close()
    assert not threads()


def test_a_generator_is_closed_when_its_thread_ends():
    ended = []

    def numbers():
        try:
            while True:
                yield 0
        finally:
            ended.append(threading.current_thread().name)

    with BackgroundIterator(numbers(), 2) as ahead:
        next(ahead)
    assert ended == ["slipstream-ahead"]


def test_threads_switch_often_and_all_garbage_is_collected_rarely_until_the_last_one_is_done():
    before = sys.getswitchinterval(), gc.get_threshold()
    first, second = ExitStack(), ExitStack()
    for stack in (first, second):
        stack.enter_context(low_latency_interpreter())
        assert sys.getswitchinterval() < before[0]
        assert gc.get_threshold()[:2] == before[1][:2]
        if sys.version_info < (3, 14):  # later ones collect bit by bit
            assert gc.get_threshold()[2] > 10 * before[1][2]
    first.close()
    assert sys.getswitchinterval() < before[0]
    second.close()
    assert (sys.getswitchinterval(), gc.get_threshold()) == before
