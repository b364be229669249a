"""Whose fault it was.

    BotFault            a bot did something wrong: counted, the default action is played
    RefereeError        this side failed: the game is void, never scored, and reported
    UserError           what was asked for cannot be done: one line, exit status 2
    └── BotStartError   a bot's program exited before it connected

Every message is one line.
"""

from __future__ import annotations

from deepsea_rules.faults import Fault


class BotFault(Exception):
    """A bot's fault at one decision: what it was, one line of detail, and the time it took."""

    def __init__(self, fault: Fault, detail: str, us: int = 0) -> None:
        super().__init__(detail)
        self.fault = fault
        self.detail = detail
        self.us = us


class RefereeError(Exception):
    """The referee's own trouble; no bot pays for it."""


class UserError(Exception):
    """Bad input: one line that says what happened, where, and what to do."""


class BotStartError(UserError):
    """A bot's program cannot be started, or exited before it connected."""

    def __init__(self, bot: int, message: str) -> None:
        super().__init__(message)
        self.bot = bot
