"""Refusals of the API: a kind, which HTTP has a status for, and one sentence.

Invariants: somebody else's things are refused with the same words as things that are not there; a
sentence names no file, no SQL, no secret and nothing of this program's inside.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from typing import ParamSpec, TypeVar

from deepsea_bundle.errors import BundleError
from deepsea_ladder.errors import (
    DISK_FULL,
    AccountError,
    CodeRefused,
    KeyReused,
    LimitReached,
    NotOnLadder,
    PairingError,
    PersonGameError,
    SeasonClosed,
    SeasonError,
    SeasonPaused,
    StoreDamaged,
    StoreUnavailable,
    SubmissionError,
)
from deepsea_referee.errors import UserError
from deepsea_rules.errors import InvalidTimeControl
from deepsea_rules.printable import one_line

LONGEST = 300
"""Characters of a sentence."""
LASTING_S = 60
"""The seconds after which to come back if somebody has to do something first."""
BUSY = "the ladder's store is busy; try again"
FAILED = "the ladder cannot do this; the operator's log says why"
DAMAGED = "the ladder cannot show this, since {row} is damaged; the operator's log says more"
INVALID = (
    "this token is not valid: it was mistyped, has ended, or its author is blocked; "
    "an admin of the ladder can give you a code for a new one"
)
ENDED = "your login has ended; log in again"
P = ParamSpec("P")
R = TypeVar("R")


class Kind(StrEnum):
    """Kinds of refusals; each is the machine-readable word of its refusals."""

    UNAUTHENTICATED = "UNAUTHENTICATED"
    DENIED = "PERMISSION_DENIED"
    NOT_FOUND = "NOT_FOUND"
    INVALID = "INVALID_ARGUMENT"
    NOT_NOW = "FAILED_PRECONDITION"
    """The request makes sense, but not in the present state."""
    EXHAUSTED = "RESOURCE_EXHAUSTED"
    UNAVAILABLE = "UNAVAILABLE"
    INTERNAL = "INTERNAL"
    NO_METHOD = "UNIMPLEMENTED"


STATUS = {
    Kind.INVALID: 400,
    Kind.UNAUTHENTICATED: 401,
    Kind.DENIED: 403,
    Kind.NOT_FOUND: 404,
    Kind.NOT_NOW: 409,
    Kind.EXHAUSTED: 429,
    Kind.INTERNAL: 500,
    Kind.UNAVAILABLE: 503,
}
"""The status of each kind over HTTP; an address that there is not has 404 or 405."""


class ApiError(UserError):
    """A refusal. `retry_after` is in seconds, where waiting helps."""

    def __init__(self, kind: Kind, sentence: str, retry_after: int | None = None) -> None:
        super().__init__(sentence)
        self.kind = kind
        self.retry_after = retry_after


class RemoteError(Exception):
    """A ladder on another machine that cannot be used now; the user has done nothing wrong."""


class Unreachable(RemoteError):
    """Nobody answers, or the connection broke; it is worth trying again.

    `retry_after` is in seconds, where the ladder has named a time.
    """

    def __init__(self, sentence: str, retry_after: int | None = None) -> None:
        super().__init__(sentence)
        self.retry_after = retry_after


class BadServer(RemoteError):
    """A server that is no ladder, or an answer that makes no sense, is too long, or comes from
    elsewhere."""


class UnknownCertificate(RemoteError):
    """The system does not trust the ladder's certificate; `why` says what is wrong with it."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(
            f"the certificate of {url} is not trusted ({why}); if it is the ladder's own, compare "
            f"its fingerprint: `ladder login {url}`"
        )
        self.why = why


def refusal_of(error: Exception) -> ApiError:
    """The refusal that an exception of a method stands for."""
    text = one_line(str(error), LONGEST)
    match error:
        case ApiError():
            return error
        case NotOnLadder():
            return ApiError(Kind.NOT_FOUND, text)
        case StoreUnavailable(reason=reason):
            return ApiError(Kind.UNAVAILABLE, reason or BUSY, LASTING_S if reason else 1)
        case OSError() if error.errno in (errno.ENOSPC, errno.EDQUOT):  # of temporary files
            return ApiError(Kind.UNAVAILABLE, DISK_FULL, LASTING_S)
        case CodeRefused():
            return ApiError(Kind.UNAUTHENTICATED, text)
        case LimitReached():
            return ApiError(Kind.EXHAUSTED, text, error.retry_after)
        case KeyReused() | UserError() | BundleError() | SeasonError() | InvalidTimeControl():
            return ApiError(Kind.INVALID, text)
        case AccountError() | SubmissionError() | PersonGameError():
            return ApiError(Kind.NOT_NOW, text)
        case SeasonClosed() | SeasonPaused() | PairingError():
            return ApiError(Kind.NOT_NOW, text)
        case StoreDamaged(row=row) if row:
            return ApiError(Kind.INTERNAL, DAMAGED.format(row=row))
    return ApiError(Kind.INTERNAL, FAILED)


def refused_as_api_error(function: Callable[P, R]) -> Callable[P, R]:
    """The same function, whose exceptions are refusals."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            refused = refusal_of(error)
            if refused is error:
                raise
            raise refused from error

    return call
