"""Exceptions: a bot's faults, errors of the referee, bad input. Every message is one line."""

from __future__ import annotations

from deepsea_rules.faults import Fault


class BotFault(Exception):
    """A bot's fault at one decision: it is counted, and the default action is played.

    A game makes a `FaultReport` of it, which says what was asked and what was played.

    detail  one line that says what happened
    us      the time that the decision took
    public  the detail without texts and file paths of the bot's program; "" if nothing is left
    """

    def __init__(self, fault: Fault, detail: str, us: int = 0, public: str = "") -> None:
        super().__init__(detail)
        self.fault = fault
        self.detail = detail
        self.us = us
        self.public = public


class RefereeError(Exception):
    """An error of the referee: the game is void, counts for no bot, and is reported."""


class HostTooBusy(RefereeError):
    """The host was too busy to time a bot's decision or its start.

    us    how long the referee waited for the bot
    seat  the bot's seat; None outside of a game
    """

    def __init__(self, message: str, us: int, seat: int | None = None) -> None:
        super().__init__(message)
        self.us = us
        self.seat = seat

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.us, self.seat)


class HostOutOfMemory(RefereeError):
    """The machine ran out of memory, and the kernel killed a bot that was within its limit."""


class UserError(Exception):
    """Bad input, exit status 2: one line that says what happened, where, and what to do.

    detail  lines to show below it, such as the author's traceback; safe to print
    """

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.detail)


class BotStartError(UserError):
    """A bot's program cannot be started, or exited before it connected."""

    def __init__(self, bot: int, message: str, detail: str = "") -> None:
        super().__init__(message, detail)
        self.bot = bot

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.bot, str(self), self.detail)
