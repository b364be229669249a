"""Exceptions between a bot and its referee.

    SdkError (Exception)
    ├── NotInMatch        the program was not started by a referee, or no referee listens
    ├── ConnectionRejected  the referee ended the stream with a reason
    ├── WireError         an invalid message
    └── IllegalAnswer     a method of the bot returned an illegal answer

Every message is one line for the bot's author. `run` prints it and exits, with status 2 for
`NotInMatch`, else 1.
"""

from __future__ import annotations


class SdkError(Exception):
    """Any error of the SDK."""


class NotInMatch(SdkError):
    """The program was not started by a referee, or no referee listens at the address."""


class ConnectionRejected(SdkError):
    """The referee ended the stream because it refused the bot or a message."""


class IllegalAnswer(SdkError, ValueError):
    """A method of the bot returned an illegal answer; the message names it, `action` is the text.

    In a match it is one fault, `illegal_action`, and the default action is played.
    """

    def __init__(self, message: str, action: str) -> None:
        super().__init__(message)
        self.action = action


class WireError(SdkError, ValueError):
    """An invalid message."""
