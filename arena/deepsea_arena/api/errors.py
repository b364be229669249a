"""Refusals of the API: a kind, which HTTP has a status for, and one sentence.

Invariants: somebody else's things are refused with the same words as things that are not there; a
sentence names no file, no SQL, no secret and nothing of this program's inside.

Rates: at most so many requests of a caller in a period.

Invariants: a caller within the rate is never refused; memory is bounded, whatever keys come, and a
forgotten key counts as a new one.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Hashable
from enum import StrEnum
from functools import wraps
from threading import Lock
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


class RefusalKind(StrEnum):
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
    RefusalKind.INVALID: 400,
    RefusalKind.UNAUTHENTICATED: 401,
    RefusalKind.DENIED: 403,
    RefusalKind.NOT_FOUND: 404,
    RefusalKind.NOT_NOW: 409,
    RefusalKind.EXHAUSTED: 429,
    RefusalKind.INTERNAL: 500,
    RefusalKind.UNAVAILABLE: 503,
}
"""The status of each kind over HTTP; an address that there is not has 404 or 405."""


class ApiError(UserError):
    """A refusal. `retry_after` is in seconds, where waiting helps."""

    def __init__(self, kind: RefusalKind, sentence: str, retry_after: int | None = None) -> None:
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
            return ApiError(RefusalKind.NOT_FOUND, text)
        case StoreUnavailable(reason=reason):
            return ApiError(RefusalKind.UNAVAILABLE, reason or BUSY, LASTING_S if reason else 1)
        case OSError() if error.errno in (errno.ENOSPC, errno.EDQUOT):  # of temporary files
            return ApiError(RefusalKind.UNAVAILABLE, DISK_FULL, LASTING_S)
        case CodeRefused():
            return ApiError(RefusalKind.UNAUTHENTICATED, text)
        case LimitReached():
            return ApiError(RefusalKind.EXHAUSTED, text, error.retry_after)
        case KeyReused() | UserError() | BundleError() | SeasonError() | InvalidTimeControl():
            return ApiError(RefusalKind.INVALID, text)
        case AccountError() | SubmissionError() | PersonGameError():
            return ApiError(RefusalKind.NOT_NOW, text)
        case SeasonClosed() | SeasonPaused() | PairingError():
            return ApiError(RefusalKind.NOT_NOW, text)
        case StoreDamaged(row=row) if row:
            return ApiError(RefusalKind.INTERNAL, DAMAGED.format(row=row))
    return ApiError(RefusalKind.INTERNAL, FAILED)


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


MINUTE_US = 60_000_000
HOUR_US = 60 * MINUTE_US
_SECOND_US = 1_000_000
MOST_KEYS = 20_000


class Rate:
    """At most `most()` at once for each key, and as many in each period that follows.

    A period has less than twice as many, right after a time in which the key did not ask. Threads
    may share one.
    now_us  the time, in microseconds since any moment
    """

    def __init__(
        self,
        most: Callable[[], int],
        period_us: int,
        now_us: Callable[[], int],
        most_keys: int = MOST_KEYS,
    ) -> None:
        self._most = most
        self._period_us = period_us
        self._now_us = now_us
        self._most_keys = most_keys
        self.refused = 0
        self._full_us: dict[Hashable, int] = {}
        """The time when each key has its whole allowance again."""
        self._lock = Lock()

    def take(self, key: Hashable, sentence: str) -> None:
        """Count one more. Raises ApiError instead, with this sentence, if there were too many."""
        now, most = self._now_us(), self._most()
        each_us = self._period_us // most
        with self._lock:
            full = max(self._full_us.get(key, now), now) + each_us
            if (over := full - each_us * most - now) > 0:
                self.refused += 1
                raise ApiError(RefusalKind.EXHAUSTED, sentence, -(-over // _SECOND_US))
            self._full_us.pop(key, None)  # to the end
            self._full_us[key] = full
            if len(self._full_us) > self._most_keys:
                self._forget(now)

    def _forget(self, now: int) -> None:
        """Forget those who have everything again, else those who asked longest ago."""
        left = [(key, full) for key, full in self._full_us.items() if full > now]
        self._full_us = dict(left[-(self._most_keys // 2) :])
