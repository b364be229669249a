"""Things done in a thread: in order, heard of, and never more waiting than there is room for."""

from __future__ import annotations

import threading

import pytest

from deepsea_referee.results.write_behind import _WAITING, WriteBehind


def test_things_are_done_in_order() -> None:
    done: list[int] = []
    thread = WriteBehind("test")
    for number in range(20):
        thread.do(done.append, number)
    thread.finish()
    assert done == [*range(20)]


def test_who_is_too_fast_is_told_what_to_wait_for() -> None:
    go_on = threading.Event()
    thread = WriteBehind("test")
    answers = [thread.do(go_on.wait) for _ in range(_WAITING + 2)]
    assert answers[:_WAITING] == [None] * _WAITING
    first = answers[_WAITING]
    assert first is not None
    assert not first.done()
    go_on.set()
    assert first.result()
    thread.finish()


def test_what_goes_wrong_is_heard_of() -> None:
    thread = WriteBehind("test")
    thread.do(int, "no number")
    with pytest.raises(ValueError, match="no number"):
        thread.finish()
    other = WriteBehind("test")
    other.do(int, "no number")
    other.close()
    with pytest.raises(ValueError, match="no number"):
        other.do(int, "1")
