"""Scheduled games, from the queue to the end of an attempt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from deepsea_ladder.model.bots import BotVersion
from deepsea_ladder.season import Season

Seating = Sequence[int]
"""The line-up of one game: ids of versions by seat."""
Rotation = Sequence[Seating]
"""Games of the same bots, each in other seats."""


class JobStatus(StrEnum):
    """The status of a job."""

    TODO = "todo"
    LEASED = "leased"
    DONE = "done"
    QUARANTINED = "quarantined"
    """It failed too often; it waits for the operator."""
    CANCELLED = "cancelled"
    """A bot of its line-up was taken out before it was played."""


class AttemptEnd(StrEnum):
    """How an attempt at a job ended."""

    DONE = "done"
    """It gave the job's result."""
    DUPLICATE = "duplicate"
    """The job had a result by then, from a lease that had expired."""
    VOID = "void"
    """The game could not be played through, and no bot was to blame."""
    REFUSED = "refused"
    """What it reported was no valid result of this job."""
    EXPIRED = "expired"
    """The lease expired without a report."""
    HANDED_BACK = "handed back"
    """The runner stopped before the game was played."""


@dataclass(frozen=True, slots=True)
class Job:
    """A game that its owner is to play now."""

    id: int
    game_id: str
    season: Season
    seed: bytes
    """This attempt's own."""
    seats: tuple[BotVersion, ...]
    rotation: int
    """The same for games of the same bots in other seats."""
    attempt: int
    """The number of the lease, from 1."""
    owner: str
    void_seats: tuple[int, ...] = ()
    """The seats that were asked when an earlier attempt became void."""


@dataclass(frozen=True, slots=True)
class JobInfo:
    """A job as people look at it."""

    game_id: str
    season: str
    status: JobStatus
    lineup: tuple[str, ...]
    attempt: int
    failures: int
    owner: str | None
    note: str | None


@dataclass(frozen=True, slots=True)
class LostAttempt:
    """An attempt at a job that ended without a result: everybody may see how often that was."""

    place: int
    """Its place in the season's chain, among games and other such attempts."""
    game_id: str
    attempt: int
    """From 0: the number that its seed was made with."""
    ended: AttemptEnd
    ended_at: int
    reason: str | None
    seat: int | None
    """Who was asked when the game became void."""
    lineup: tuple[BotVersion, ...]
    head: str = ""
    """The head of the season's chain at this place; "" until it is known."""


@dataclass(frozen=True, slots=True)
class VoidReceipt:
    """The answer to the report of a void game."""

    status: JobStatus
    """The job's."""
    disabled: tuple[str, ...] = ()
    """Bots that were disabled, since too many games became void while they were asked."""


class QueuedJob(NamedTuple):
    """A job as a schedule looks at it."""

    number: int
    rotation: int
    lineup: tuple[int, ...]
    """Ids of versions by seat."""


@dataclass(frozen=True, slots=True)
class PairingQueue:
    """A season's jobs as the pairing looks at them; versions by their ids."""

    rotations: int
    """How many there are; they are numbered from 1."""
    lately: Sequence[frozenset[int]]
    """The line-ups of the newest rotations, the oldest first."""
    names: Mapping[int, tuple[str, str]]
    """The bot and the author of each version in them."""
    last_rotation: Mapping[int, int]
    """For each version that gets games, its last rotation, or the season's last when it came."""
    pending: Mapping[int, int]
    """Games that have no result yet."""


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """How a season's jobs stand."""

    todo: int
    leased: int
    expired: int
    """Expired leases that no run has taken over yet."""
    done: int
    quarantined: int
    cancelled: int
    oldest_wait_ms: int
    """How long the oldest waiting job has waited."""
