"""Games that have a result, and what is kept of them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from deepsea_ladder.model.bots import BotVersion
from deepsea_ladder.rating.totals import SeatResult
from deepsea_ladder.rating.trueskill_fold import Rating


class ReceiptStatus(StrEnum):
    """The verdict on a reported result."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    """The job has its result already; nothing changed."""
    REFUSED = "refused"
    """It is not a valid result of this job; only the audit log changed."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The answer to a report."""

    verdict: ReceiptStatus
    seq: int | None = None
    """The game's place in the order in which games are rated."""
    reason: str | None = None
    """Why it was refused."""
    disabled: tuple[str, ...] = ()
    """Bots that this result has taken out."""


@dataclass(frozen=True, slots=True)
class StoredSeat:
    """One seat of a played game."""

    version: BotVersion
    result: SeatResult
    rating: Rating
    """After the game."""


@dataclass(frozen=True, slots=True)
class StoredGame:
    """A game with its result."""

    seq: int
    game_id: str
    season: str
    played_at: int
    place: int
    """Its place in the season's chain, among games and attempts without a result."""
    attempt: int
    """From 0: the number that its seed was made with."""
    seats: tuple[StoredSeat, ...]
    record: str
    head: str = ""
    """The head of the season's chain at this place; "" until it is known."""


@dataclass(frozen=True, slots=True)
class SeatLog:
    """What a bot left of a game with a fault of its own; a stranger's text, to be escaped."""

    seat: int
    error: str
    """Its faults, with the author's part of tracebacks."""
    output: str
    """The end of what its process printed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GameFilter:
    """Which games somebody wants to see: those to which all of this applies. Bots by name, any
    version of them."""

    bot: str | None = None
    """One of the seats is this bot's."""
    against: str | None = None
    """Another is this bot's."""
    faults: bool = False
    """The bot had a fault; without a bot, any had."""
    lost: bool = False
    """The bot was placed behind the other, or if there is none, not first."""
