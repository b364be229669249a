"""Refusals of the API, and the rates beyond which callers are refused.

A refusal has a kind, which stands for an HTTP status, and one sentence. Start reading at ApiError
and `refusal_of`, which turns the errors of all layers below into refusals.

Invariants: somebody else's things are refused with the same words as things that do not exist; a
sentence names no file, no SQL, no secret and nothing internal to this program; a caller within a
rate is never refused; the memory of a rate is bounded, whatever keys come, and a forgotten key
counts as a new one.
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

LONGEST_SENTENCE = 300
"""Maximum characters of a refusal's sentence."""
LASTING_S = 60
"""Seconds after which to try again when an operator has to act first."""
BUSY = "the ladder's store is busy; try again"
FAILED = "the ladder cannot do this; the operator's log says why"
DAMAGED = "the ladder cannot show this, since {row} is damaged; the operator's log says more"
INVALID_TOKEN = (
    "this token is not valid: it was mistyped, has ended, or its author is blocked; "
    "an admin of the ladder can give you a code for a new one"
)
SESSION_ENDED = "your login has ended; log in again"
P = ParamSpec("P")
R = TypeVar("R")


class RefusalKind(StrEnum):
    """Kinds of refusals; the value is the machine-readable `code` of the response."""

    UNAUTHENTICATED = "UNAUTHENTICATED"
    DENIED = "PERMISSION_DENIED"
    NOT_FOUND = "NOT_FOUND"
    INVALID = "INVALID_ARGUMENT"
    NOT_NOW = "FAILED_PRECONDITION"
    """The request makes sense, but not in the present state of the ladder."""
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
"""HTTP status of each kind, except NO_METHOD, which has 404 or 405."""


class ApiError(UserError):
    """A refusal of a call: its kind, a sentence for the caller, and when to try again.

    `retry_after` is in seconds; None if waiting does not help.
    """

    def __init__(self, kind: RefusalKind, sentence: str, retry_after: int | None = None) -> None:
        super().__init__(sentence)
        self.kind = kind
        self.retry_after = retry_after


class RemoteError(Exception):
    """Base of errors of a ladder on another machine that are not the user's fault."""


class Unreachable(RemoteError):
    """The ladder did not answer, or the connection broke; another try may succeed.

    `retry_after` is in seconds; None if the ladder has not named a time.
    """

    def __init__(self, sentence: str, retry_after: int | None = None) -> None:
        super().__init__(sentence)
        self.retry_after = retry_after


class BadServer(RemoteError):
    """The server is no ladder, or its answer is invalid, too long or a redirection."""


class UnknownCertificate(RemoteError):
    """The system does not trust the ladder's certificate, for the reason `why`."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(
            f"the certificate of {url} is not trusted ({why}); if it is the ladder's own, compare "
            f"its fingerprint: `ladder login {url}`"
        )
        self.why = why


def refusal_of(error: Exception) -> ApiError:
    """Return the refusal that a caller gets for an exception of an API method.

    An ApiError is returned as it is. Errors that the caller can understand keep their own sentence;
    all others become INTERNAL with a sentence that tells nothing about the inside of the program.
    """
    own_sentence = one_line(str(error), LONGEST_SENTENCE)
    match error:
        case ApiError():
            return error
        case NotOnLadder():
            return ApiError(RefusalKind.NOT_FOUND, own_sentence)
        case StoreUnavailable(reason=""):
            return ApiError(RefusalKind.UNAVAILABLE, BUSY, retry_after=1)
        case StoreUnavailable(reason=reason):  # an operator has to act first
            return ApiError(RefusalKind.UNAVAILABLE, reason, LASTING_S)
        case OSError() if error.errno in (errno.ENOSPC, errno.EDQUOT):  # while writing an upload
            return ApiError(RefusalKind.UNAVAILABLE, DISK_FULL, LASTING_S)
        case CodeRefused():
            return ApiError(RefusalKind.UNAUTHENTICATED, own_sentence)
        case LimitReached():
            return ApiError(RefusalKind.EXHAUSTED, own_sentence, error.retry_after)
        case KeyReused() | UserError() | BundleError() | SeasonError() | InvalidTimeControl():
            return ApiError(RefusalKind.INVALID, own_sentence)
        case AccountError() | SubmissionError() | PersonGameError():
            return ApiError(RefusalKind.NOT_NOW, own_sentence)
        case SeasonClosed() | SeasonPaused() | PairingError():
            return ApiError(RefusalKind.NOT_NOW, own_sentence)
        case StoreDamaged(row=row) if row:  # without the row, only the log says what is damaged
            return ApiError(RefusalKind.INTERNAL, DAMAGED.format(row=row))
    return ApiError(RefusalKind.INTERNAL, FAILED)


def refused_as_api_error(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function so that every exception it raises is an ApiError (see `refusal_of`)."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, and raise its refusal in place of an exception."""
        try:
            return function(*args, **kwargs)
        except Exception as error:
            refusal = refusal_of(error)
            if refusal is error:
                raise
            raise refusal from error

    return call


# ------------------------------------------------------------------------------------------ rates


MINUTE_US = 60_000_000
HOUR_US = 60 * MINUTE_US
_SECOND_US = 1_000_000
MOST_KEYS = 20_000


class Rate:
    """A rate limit by key: `maximum()` requests at once, then as many in each period.

    The allowance of a key refills evenly (a token bucket), so that within one period it may make
    nearly twice `maximum()` requests if it has made none before. Threads may share a Rate.

    now_us  the time, in microseconds since any moment
    """

    def __init__(
        self,
        maximum: Callable[[], int],
        period_us: int,
        now_us: Callable[[], int],
        most_keys: int = MOST_KEYS,
    ) -> None:
        """Begin without requests; at most `most_keys` keys are remembered."""
        self._maximum = maximum
        self._period_us = period_us
        self._now_us = now_us
        self._most_keys = most_keys
        self.refused = 0
        """Number of requests that were refused."""
        self._full_at_us: dict[Hashable, int] = {}
        """The time when each key has its whole allowance again, latest request last."""
        self._lock = Lock()

    def take(self, key: Hashable, sentence: str) -> None:
        """Count a request of a key. Raises ApiError with the sentence if the rate is exceeded.

        A key's allowance is a bucket of `maximum` requests, of which one is refilled every
        `refill_us`. It is stored as the time at which the bucket is full again; each request
        delays this time by `refill_us`.
        """
        now_us, maximum = self._now_us(), self._maximum()
        refill_us = self._period_us // maximum
        with self._lock:
            last_full_us = self._full_at_us.get(key, now_us)
            full_at_us = max(last_full_us, now_us) + refill_us
            # An empty bucket is full after `maximum` refills; beyond that, a request has to wait.
            wait_us = full_at_us - (now_us + refill_us * maximum)
            if wait_us > 0:
                self.refused += 1
                wait_s = -(-wait_us // _SECOND_US)  # rounded up
                raise ApiError(RefusalKind.EXHAUSTED, sentence, wait_s)
            # Removed first, so that the key moves to the end: `_forget_keys` drops the oldest.
            self._full_at_us.pop(key, None)
            self._full_at_us[key] = full_at_us
            if len(self._full_at_us) > self._most_keys:
                self._forget_keys(now_us)

    def _forget_keys(self, now_us: int) -> None:
        """Keep only keys with a reduced allowance, and of these at most the latest half."""
        limited = [(key, full_us) for key, full_us in self._full_at_us.items() if full_us > now_us]
        self._full_at_us = dict(limited[-(self._most_keys // 2) :])
