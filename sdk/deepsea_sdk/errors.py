"""What can go wrong between a bot and its referee.

    SdkError (Exception)
    ├── NotInMatch        the program was not started by a referee, or nobody listens there
    ├── ConnectionRejected  the referee ended the stream and said why
    ├── WireError         a message that makes no sense
    └── IllegalAnswer     a method of the bot returned what is not legal

Every message is one line for the bot's author. `run` prints it and exits, with status 2 for
`NotInMatch`, else 1.
"""

from __future__ import annotations


class SdkError(Exception):
    """Any error of the SDK."""


class NotInMatch(SdkError):
    """The program was not started by a referee, or nobody listens at the address."""


class ConnectionRejected(SdkError):
    """The referee ended the stream because it does not accept what came."""


class IllegalAnswer(SdkError, ValueError):
    """A method of the bot returned what is not legal; the message names it, `action` is the text.

    In a match it is one fault, `illegal_action`, and the default action is played.
    """

    def __init__(self, message: str, action: str) -> None:
        super().__init__(message)
        self.action = action


class WireError(SdkError, ValueError):
    """A message that makes no sense."""
