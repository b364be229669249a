"""What a request is refused with: a status and one sentence.

Invariant: a sentence names no file, no SQL, no token and nothing of this program's inside; only
messages that are about what was asked for are shown.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final, NamedTuple

from starlette.exceptions import HTTPException

from deepsea_arena.api.errors import STATUS, ApiError
from deepsea_ladder.errors import NotOnLadder, StoreError, StoreUnavailable
from deepsea_referee.errors import UserError
from deepsea_rules.printable import one_line

LONGEST: Final = 300
"""Characters of a sentence."""
_SENTENCES: Final = {
    404: "There is no such page.",
    405: "This address can be read, and nothing else.",
    503: "The ladder cannot be read at the moment; try again.",
}
_FAILED: Final = "This page cannot be made; the operator's log says why."


class Refusal(NamedTuple):
    """The answer to a request that gets no page."""

    status: int
    sentence: str
    retry_after: int | None = None
    """In so many seconds it is worth another try."""

    @property
    def headers(self) -> dict[str, str]:
        """The headers that say more."""
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}

    @property
    def title(self) -> str:
        """The status in words."""
        return HTTPStatus(self.status).phrase


def refusal(error: Exception) -> Refusal:
    """The refusal that an error stands for; 500 for a mistake of this program's own."""
    match error:
        case ApiError(kind=kind, retry_after=after):
            return Refusal(STATUS[kind], _sentence(error), after)
        case NotOnLadder():
            return Refusal(404, _sentence(error))
        case UserError():
            return Refusal(400, _sentence(error))
        case StoreUnavailable():
            return Refusal(503, _SENTENCES[503])
        case StoreError():
            return Refusal(500, _FAILED)
        case HTTPException(status_code=status, detail=detail):
            usual = detail == HTTPStatus(status).phrase
            return Refusal(status, _SENTENCES.get(status, detail) if usual else detail)
    return Refusal(500, _FAILED)


def _sentence(error: Exception) -> str:
    text = one_line(str(error), LONGEST)
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
