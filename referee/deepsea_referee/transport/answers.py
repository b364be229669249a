"""The outcome of a decision request, as a game gets it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from deepsea_referee.errors import BotFault, RefereeError
from deepsea_sdk.notes import Note


class TimedAnswer(NamedTuple):
    """A bot's decision and the time that it is charged."""

    action: str
    us: int
    error: str | None = None
    """What the bot raised instead of deciding."""
    wall_us: int = 0
    """The time since the message with the request was written: alone it took no longer."""
    note: Note | None = None


OnAnswer = Callable[[TimedAnswer | BotFault | RefereeError], object]
"""Receives a request's outcome: an answer, the bot's fault, or the referee's error."""
