"""Refusals of the service: a kind, which gRPC and HTTP have codes for, and one sentence.

Invariants: what is somebody else's and what is not there are refused with the same words; a
sentence names no file, no SQL, no secret and nothing of this program's inside.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from deepsea_bundle.errors import BundleError
from deepsea_ladder.errors import (
    AccountError,
    AnalysisError,
    CodeRefused,
    KeyReused,
    LadderError,
    LimitReached,
    NotOnLadder,
    PairingError,
    SeasonClosed,
    SeasonError,
    StoreError,
    StoreUnavailable,
    SubmissionError,
)
from deepsea_referee.errors import UserError
from deepsea_rules.printable import one_line

LONGEST: Final = 300
"""Characters of a sentence."""
BUSY: Final = "the ladder's store is busy; try again"
FAILED: Final = "the ladder cannot do this; the operator's log says why"
INVALID: Final = (
    "this token is not valid: it was mistyped, has ended, or its author is blocked; "
    "an admin of the ladder can give you a code for a new one"
)
ENDED: Final = "your login has ended; log in again"


class Kind(Enum):
    """Kinds of refusals."""

    UNAUTHENTICATED = auto()
    DENIED = auto()
    NOT_FOUND = auto()
    INVALID = auto()
    NOT_NOW = auto()
    """What is asked for makes sense, but not in the present state."""
    EXHAUSTED = auto()
    UNAVAILABLE = auto()
    INTERNAL = auto()


class ServiceError(UserError):
    """A refusal. `retry_after` is in seconds, where waiting helps."""

    def __init__(self, kind: Kind, sentence: str, retry_after: int | None = None) -> None:
        super().__init__(sentence)
        self.kind = kind
        self.retry_after = retry_after


def refusal_of(error: Exception) -> ServiceError:
    """The refusal that an exception of a handler stands for."""
    text = one_line(str(error), LONGEST)
    match error:
        case ServiceError():
            return error
        case NotOnLadder():
            return ServiceError(Kind.NOT_FOUND, text)
        case StoreUnavailable():
            return ServiceError(Kind.UNAVAILABLE, BUSY, 1)
        case CodeRefused():
            return ServiceError(Kind.UNAUTHENTICATED, text)
        case LimitReached():
            return ServiceError(Kind.EXHAUSTED, text, error.retry_after)
        case KeyReused():
            return ServiceError(Kind.INVALID, text)
        case AccountError() | AnalysisError() | SubmissionError() | SeasonClosed() | PairingError():
            return ServiceError(Kind.NOT_NOW, text)
        case UserError() | BundleError() | SeasonError():
            return ServiceError(Kind.INVALID, text)
        case StoreError() | LadderError():
            return ServiceError(Kind.INTERNAL, FAILED)
    return ServiceError(Kind.INTERNAL, FAILED)
