"""The present state of a ladder, for its operator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from deepsea_arena.coach.ladder_analyses import LadderAnalysis, shown
from deepsea_arena.documents import Json, to_json, to_object
from deepsea_arena.seasons import SeasonInfo, open_seasons, season_info
from deepsea_bundle import names
from deepsea_ladder.accounts import AuditEntry
from deepsea_ladder.errors import PairingError, StoreError
from deepsea_ladder.limits import MIB, size_in_words
from deepsea_ladder.model.bots import BotConduct, BotState, LadderBot, Submission
from deepsea_ladder.model.games import (
    AttemptEnd,
    Extension,
    JobInfo,
    JobStatus,
    LadderCounts,
    StoredGame,
    StoredSeason,
)
from deepsea_ladder.values import Time, utc_time
from deepsea_referee.workbench.advice import CheckResult

if TYPE_CHECKING:
    from deepsea_ladder.store import Store

RATE_GAMES = 100
"""The number of newest games for the rate of games."""
AUDIT_ENTRIES = 10
"""The number of entries of the audit log that are shown."""
COLUMNS = {
    "submissions": ("id", "bot", "author", "state", "games", "of_games", "created_at"),
    "audit": ("id", "at", "kind", "subject", "note"),
}
"""The fields of a submission, and of an entry of the audit log, in the JSON of a status."""


class SeasonStatus(Struct, frozen=True, kw_only=True):
    """A season's queue."""

    season: SeasonInfo
    extensions: tuple[Extension, ...]
    unplayable: str | None
    """The reason why no game can be scheduled."""
    unknown_panel: tuple[str, ...]
    """Names in the panel of its verdicts that no bot has."""
    waiting: int
    leased: int
    expired: int
    """Expired leases that no run has taken over yet."""
    done: int
    cancelled: int
    oldest_wait_seconds: float
    games_per_second: float | None
    """Over the newest games; None if there are too few."""
    last_game_at: Time | None
    lost: dict[AttemptEnd, int]
    """Attempts at games that ended without a result, by how they ended."""
    strikes: tuple[BotConduct, ...]
    leases: tuple[JobInfo, ...]
    quarantined: tuple[JobInfo, ...]
    """Quarantined games: they failed too often and wait for the operator."""


class TakenOutBot(Struct, frozen=True):
    """A bot that gets no games."""

    bot: str
    state: BotState
    reason: str | None


class LadderStatus(Struct, frozen=True, kw_only=True):
    """A ladder at this moment."""

    store: str
    bots: int
    taken_out: tuple[TakenOutBot, ...]
    shown: str | None
    """The season that pages show: the newest that is open and no tournament's."""
    played: tuple[str, ...]
    """The seasons of which games are being played."""
    seasons: tuple[SeasonStatus, ...]
    submissions: tuple[Submission, ...]
    """What is being checked, and what waits, in the order in which it is checked."""
    analyses: tuple[LadderAnalysis, ...]
    """Those that run, and those that wait, in the order in which they are done."""
    audit: tuple[AuditEntry, ...]
    """The newest entries, newest first."""
    counts: LadderCounts


def status_document(status: LadderStatus) -> dict[str, Json]:
    """The status as JSON, with what an operator looks at of submissions and entries."""
    rows: dict[str, Sequence[object]]
    rows = {"submissions": status.submissions, "audit": status.audit}
    return to_object(status) | {
        name: [{key: to_json(getattr(row, key)) for key in COLUMNS[name]} for row in rows[name]]
        for name in rows
    }


def ladder_status(store: Store) -> LadderStatus:
    """The queues, leases and problems of a ladder."""
    bots, seasons = store.bots.all(), store.seasons.all()
    found = tuple(_season(store, season, bots) for season in seasons)
    opened = open_seasons(seasons)
    return LadderStatus(
        store=str(store.database),
        bots=len(bots),
        taken_out=tuple(
            TakenOutBot(bot.name, bot.state, bot.reason)
            for bot in bots
            if bot.state is not BotState.ACTIVE
        ),
        shown=opened[-1].name if opened else None,
        played=tuple(one.season.name for one in found if one.leased),
        seasons=found,
        submissions=tuple(store.submissions.queue()),
        analyses=tuple(map(shown, store.analyses.queue())),
        audit=tuple(store.audit.latest(AUDIT_ENTRIES)),
        counts=store.counts.read(),
    )


def upkeep(counts: LadderCounts) -> list[CheckResult]:
    """The room, the backup and the runner of a ladder, and what to do where one is missing."""
    from deepsea_ladder.store.database import LEAST_FREE  # a client needs no database

    size, free, age = counts.store_bytes, counts.disk_free_bytes, counts.backup_age_seconds
    days = None if age is None else int(age // 86_400)
    checks = []
    if free is not None:
        room = f"{size_in_words(free)} free beside a ladder of {size_in_words(size)}"
        enough = free >= max(size, LEAST_FREE) + MIB
        found = room if enough else f"no room for a backup, {room}"
        remedy = "free some space, or move the ladder to another disk"
        checks.append(CheckResult("disk", enough, True, found, remedy))
    found = "no backup lately" if days is None else f"the last backup is {days} days old"
    remedy = "`ladder backup FILE`, best every night"
    checks.append(CheckResult("backup", days is not None and days < 2, True, found, remedy))
    found = "no runner does what waits" if counts.is_stalled else "nothing waits without a runner"
    remedy = "start `ladder run --forever`, or `ladder serve`"
    checks.append(CheckResult("runner", not counts.is_stalled, True, found, remedy))
    return checks


def not_ready(store: Store, *, has_runner: bool) -> str | None:
    """Why a ladder cannot do its work now, in a word or two; None if it can.

    has_runner  whether a runner's process runs beside the caller; one elsewhere is known by its
                leases, of which it has none when there is nothing to do
    """
    try:
        store.database.check_writable()
        stalled = store.counts.read().is_stalled
    except StoreError:
        return "the store cannot be written"
    return "no runner" if stalled and not has_runner else None


def games_per_second(newest: Sequence[StoredGame]) -> float | None:
    """The rate of these games, the newest first; None if they took no time."""
    span = newest[0].played_at - newest[-1].played_at if newest else 0
    return (len(newest) - 1) * 1000 / span if span > 0 else None


def _unplayable(store: Store, season: StoredSeason) -> str | None:
    from deepsea_ladder.scheduling.pairing import Matchmaker, table_sizes

    if season.closed_at is not None or season.tournament is not None:
        return None
    settings = season.season
    try:
        table_sizes(Matchmaker(store, season).candidates(), settings.seats, settings.pairing)
    except PairingError as error:
        return str(error)
    return None


def _season(store: Store, season: StoredSeason, bots: Sequence[LadderBot]) -> SeasonStatus:
    known = {names.key(bot.name) for bot in bots}
    counts = store.queue.counts(season)
    newest = store.history.latest(RATE_GAMES, season)
    return SeasonStatus(
        season=season_info(season),
        extensions=tuple(store.seasons.extensions(season)),
        unplayable=_unplayable(store, season),
        unknown_panel=tuple(
            name for name in season.season.verdicts.panel if names.key(name) not in known
        ),
        waiting=counts.waiting,
        leased=counts.leased,
        expired=counts.expired,
        done=counts.done,
        cancelled=counts.cancelled,
        oldest_wait_seconds=counts.oldest_wait_ms / 1000,
        games_per_second=games_per_second(newest),
        last_game_at=utc_time(newest[0].played_at) if newest else None,
        lost=store.queue.lost_counts(season),
        strikes=tuple(store.bots.strikes(season)),
        leases=tuple(store.queue.listed(season, JobStatus.LEASED)),
        quarantined=tuple(store.queue.listed(season, JobStatus.QUARANTINED)),
    )
