"""Checks of limits that fail: each is its own bot's, and nobody is left without a limit."""

from __future__ import annotations

import errno
import logging
import subprocess
import threading
from typing import cast

import pytest

from deepsea_referee.sandbox.interface import (
    MOST_FAILED_CHECKS,
    IsolatedProcess,
    ResourceLimits,
    Watchdog,
)


def test_a_check_that_raises_keeps_no_other_from_being_made_nor_itself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    watchdog, calls, called_again = Watchdog(0.0002), [], threading.Event()

    def fails() -> None:
        calls.append("fails")
        raise RuntimeError("a check that is wrong")

    def holds() -> None:
        calls.append("holds")
        if len(calls) > 5:
            called_again.set()

    with caplog.at_level(logging.CRITICAL):  # it is logged each time
        watchdog.watch(fails)
        watchdog.watch(holds)
        assert called_again.wait(60)
        watchdog.unwatch(fails)
        watchdog.unwatch(holds)
    assert {"fails", "holds"} <= set(calls[-3:])


class Unreadable(IsolatedProcess):
    """A bot of which nobody can tell what it uses, but at the checks with these numbers."""

    def __init__(self, *readable: int) -> None:
        super().__init__(cast("subprocess.Popen[bytes]", None), ResourceLimits())
        self.kills = self.checks = 0
        self._readable = readable

    def kill(self) -> None:
        self.kills += 1

    def _check_once(self) -> None:
        self.checks += 1
        if self.checks not in self._readable:
            raise OSError(errno.EMFILE, "Too many open files")


def test_a_bot_whose_limits_cannot_be_checked_again_and_again_is_ended_and_not_at_fault() -> None:
    bot = Unreadable()
    for _ in range(MOST_FAILED_CHECKS - 1):
        bot.check_limits()
    assert (bot.kills, bot.check_error) == (0, None)
    bot.check_limits()
    assert bot.kills == 1
    assert isinstance(bot.check_error, OSError)
    assert bot.over_limit() is None


def test_a_check_that_works_again_forgives_those_that_failed() -> None:
    bot = Unreadable(MOST_FAILED_CHECKS // 2)
    for _ in range(MOST_FAILED_CHECKS + 2):
        bot.check_limits()
    assert (bot.kills, bot.check_error) == (0, None)
