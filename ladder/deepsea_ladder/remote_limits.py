"""The limits of a ladder that is reached from afar: one table, which `ladder limits` prints.

Invariant: whoever enforces a limit reads it here; each has a test.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Final

KIB: Final = 1 << 10
MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Limit:
    """One line of the table."""

    name: str
    value: int
    unit: str
    """What is counted."""
    about: str


def _limit(value: int, unit: str, about: str) -> int:
    made: int = field(default=value, metadata={"unit": unit, "about": about})
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteLimits:
    """The limits; tests take others."""

    archive_bytes: int = _limit(16 * MIB, "bytes", "A bot's archive.")
    chunk_bytes: int = _limit(32 * KIB, "bytes", "A part of a download.")
    upload_seconds: int = _limit(120, "seconds", "An upload.")
    upload_bytes_per_second: int = _limit(
        8 * KIB, "bytes a second", "The least speed of an upload."
    )
    open_submissions: int = _limit(
        3, "submissions", "Of an author: one that is being checked, and two that wait."
    )
    submissions_per_hour: int = _limit(10, "submissions", "Of an author in an hour.")
    submissions_per_day: int = _limit(40, "submissions", "Of an author in a day.")
    check_seconds_per_hour: int = _limit(
        600, "seconds", "The checks of an author's bots in an hour."
    )
    queue: int = _limit(100, "submissions", "That wait to be checked, of all authors.")
    bots: int = _limit(5, "bots", "Of an author.")
    author_bytes: int = _limit(200 * MIB, "bytes", "The archives of an author together.")

    analyses_per_day: int = _limit(20, "analyses", "Of games, that an author asks for in a day.")
    analysis_queue: int = _limit(100, "analyses", "That wait, of all authors.")
    analysis_bytes: int = _limit(MIB, "bytes", "What an analysis found, as JSON.")

    failures_per_hour: int = _limit(
        20, "failures", "Wrong codes and logins from an address in an hour; the wait grows before."
    )
    tokens: int = _limit(50, "tokens", "Of an author, that are valid.")
    sessions: int = _limit(50, "sessions", "Of an author in the pages.")
    codes: int = _limit(500, "codes", "That are made at once.")
    token_days: int = _limit(365, "days", "How long a token is valid.")
    session_days: int = _limit(14, "days", "How long a login to the pages is valid.")
    code_days: int = _limit(365, "days", "How long a code is valid; 14 unless said otherwise.")

    calls_per_minute: int = _limit(
        120, "requests a minute", "Calls of an author, with all tokens together."
    )
    pages_per_minute: int = _limit(
        300, "requests a minute", "Pages, and calls without a known token, from an address."
    )
    connections_of_address: int = _limit(
        500, "connections", "Open ones of an address, unless it is a trusted proxy."
    )
    answer_seconds: int = _limit(60, "seconds", "For a reader to take a part of an answer.")
    heavy: int = _limit(2, "requests", "Exports and downloads at once, of an author or an address.")
    streams_of_address: int = _limit(200, "streams", "Open event streams from an address.")
    streams: int = _limit(2000, "streams", "Open event streams of all.")

    def table(self) -> tuple[Limit, ...]:
        """Every limit, in the order of this file."""
        return tuple(
            Limit(one.name, getattr(self, one.name), one.metadata["unit"], one.metadata["about"])
            for one in fields(self)
        )


USUAL_LIMITS: Final = RemoteLimits()
