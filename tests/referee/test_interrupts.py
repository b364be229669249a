"""Signals become wishes, and are what they were before afterwards."""

from __future__ import annotations

import os
import select
import signal
from contextlib import closing

import pytest

from deepsea_referee.interrupts import WakePipe, on_signals

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.mark.parametrize(
    ("numbers", "heard"),
    [
        ([signal.SIGINT], "i"),
        ([signal.SIGTERM], "t"),
        ([signal.SIGTERM, signal.SIGINT], "ti"),
        ([signal.SIGHUP], "t"),
    ],
)
def test_each_signal_is_a_call(numbers: list[signal.Signals], heard: str) -> None:
    calls: list[str] = []
    former = [signal.getsignal(number) for number in NUMBERS]
    with on_signals(lambda: calls.append("i"), lambda: calls.append("t")):
        for number in numbers:
            os.kill(os.getpid(), number)
    assert "".join(calls) == heard
    assert [signal.getsignal(number) for number in NUMBERS] == former


def test_a_closed_terminal_does_not_end_what_ignores_it() -> None:
    former = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with on_signals(lambda: pytest.fail("it is ignored")):
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, former)


def test_sigterm_is_an_interrupt_unless_something_else_is_named() -> None:
    with closing(WakePipe()) as pipe, on_signals(pipe.ring):
        assert not select.select([pipe], [], [], 0)[0]
        os.kill(os.getpid(), signal.SIGTERM)
        assert select.select([pipe], [], [], 0)[0]


def test_what_was_heard_does_not_ring_again() -> None:
    with closing(WakePipe()) as pipe:
        for _ in range(3):
            pipe.ring()
        pipe.pause(60)
        assert not select.select([pipe], [], [], 0)[0]


def test_who_rings_after_the_end_wakes_nobody() -> None:
    pipe = WakePipe()
    pipe.close()
    with closing(WakePipe()) as other:  # which has the former descriptors
        pipe.ring()
        pipe.close()
        assert not select.select([other], [], [], 0)[0]
