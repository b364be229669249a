"""Exceptions of a ladder on another machine.

    Refused          the ladder says no, with its reason
    RemoteError      nothing that the user asked for is wrong
    ├── Unreachable  nobody answers there, or not any more; it is worth trying again
    └── BadServer    what answers is no ladder, or makes no sense

Every message is one line.
"""

from __future__ import annotations

from deepsea_referee.errors import UserError


class Refused(UserError):
    """The ladder refuses what was asked.

    name         of the refusal, as gRPC has it, such as NOT_FOUND
    retry_after  seconds after which it is worth trying again; None if it said nothing of that
    """

    def __init__(self, name: str, sentence: str, retry_after: int | None = None) -> None:
        super().__init__(_with_wait(sentence or "the ladder refuses this", retry_after))
        self.name = name
        self.retry_after = retry_after


class RemoteError(Exception):
    """The ladder cannot be used now; the user has done nothing wrong."""


class Unreachable(RemoteError):
    """Nobody answers, or the connection broke."""


class BadServer(RemoteError):
    """The answer makes no sense, is too long, or comes from elsewhere."""


def _with_wait(sentence: str, seconds: int | None) -> str:
    if seconds is None or "try again" in sentence:
        return sentence
    return f"{sentence}; try again in {_duration(seconds)}"


def _duration(seconds: int) -> str:
    minutes = -(-seconds // 60)
    return f"{seconds} s" if seconds < 120 else f"{minutes} minutes"
