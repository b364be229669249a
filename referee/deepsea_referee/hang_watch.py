"""Ends an in-process run when a bot never returns: a Python thread cannot be killed.

Invariants: what is measured is progress and not time, so that a process that was stopped or
suspended harms nobody; what ends the run is raised in the bot's own code, so that its stack is
there; a bot that catches even that ends the process.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from contextlib import ExitStack
from types import FrameType
from typing import Final, Self

from deepsea_referee.system import SYSTEM
from deepsea_rules.game import Game
from deepsea_rules.time_control import TimeControl

SHORTEST_S: Final = 10.0
BUDGETS: Final = 10
_TICKS: Final = 10
"""Interval of the checks for progress, until there was none for too long."""
_REPEATS: Final = 5
"""How often it is raised again if the bot catches it."""


class Hanging(BaseException):
    """Raised in the code of a bot that does not return; not an Exception, which bots catch."""


class HangWatch:
    """Raises Hanging in the main thread when a game makes no progress for `limit_s`.

    In another thread, where no signal arrives, nothing is watched.
    """

    game: Game | None = None
    """The game under way; the caller sets it before a game and clears it after."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._works = threading.current_thread() is threading.main_thread()
        self._seen: tuple[Game, int] | None = None
        self._ticks = 0
        self._ticking = ExitStack()

    @classmethod
    def of(cls, control: TimeControl) -> Self:
        """Ten budgets, but at least 10 s, and the bank: far more than a timeout takes."""
        return cls(max(SHORTEST_S, BUDGETS * control.budget_us / 1e6) + control.bank_us / 1e6)

    def __enter__(self) -> Self:
        if self._works:
            self._ticking.enter_context(SYSTEM.ticking(self.limit_s / _TICKS, self._tick))
        return self

    def __exit__(self, *_error: object) -> None:
        self._ticking.close()

    def _tick(self, frame: FrameType | None) -> None:
        seen = (self.game, len(self.game.decisions)) if self.game is not None else None
        self._ticks = self._ticks + 1 if seen is not None and seen == self._seen else 0
        self._seen = seen
        if self._ticks < _TICKS:
            return
        if self._ticks < _TICKS + _REPEATS:
            raise Hanging
        # Into the stream that is not redirected: what bots print may go nowhere.
        stderr = sys.__stderr__ or sys.stderr
        stderr.write("a bot does not return, and catches what would end it:\n")
        traceback.print_stack(frame, file=stderr)
        stderr.flush()
        os._exit(2)
