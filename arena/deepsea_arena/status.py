"""The present state of a ladder, for its operator.

The overview of a class: who has joined, what each author has submitted, and where they stand.

Invariants: every author has one line, also before the first bot; the columns of the table in the
terminal and on the page are `COLUMNS`, and CSV has every field of a line; versions have the same
files if these are equal to the last byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from deepsea_arena.documents import Json, TableColumn, to_json, to_object
from deepsea_arena.seasons import SeasonInfo, find_season, open_seasons, season_info
from deepsea_arena.standings import eligible, listed
from deepsea_bundle import names
from deepsea_ladder.accounts import AuditEntry, AuthorLine, AuthorState
from deepsea_ladder.errors import PairingError, StoreError
from deepsea_ladder.limits import MIB, size_in_words
from deepsea_ladder.model import (
    AttemptEnd,
    BotConduct,
    BotState,
    BotVersion,
    Extension,
    JobInfo,
    LadderAnalysis,
    LadderBot,
    LadderCounts,
    RatedVersion,
    StoredSeason,
    Submission,
    TaskState,
    Time,
    utc_time,
)
from deepsea_ladder.standings import standings
from deepsea_referee.workbench.advice import CheckResult

if TYPE_CHECKING:
    from deepsea_ladder.store import Store


SHORTAGE_DAYS = 1
"""Days for which a shortage of memory, or of a CPU, is shown."""
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
    """Faults of bots in the window of strikes; empty for a season that is closed."""
    leases: tuple[JobInfo, ...]
    quarantined: tuple[JobInfo, ...]
    """Quarantined games: they failed too often and wait for the operator."""


class TakenOutBot(Struct, frozen=True):
    """A bot that gets no games."""

    bot: str
    state: BotState
    reason: str | None


class Copy(Struct, frozen=True):
    """A version with files that another author had submitted before."""

    version: str
    """Such as "ben v1 by benjamin"."""
    same_files_as: str
    """The first version with these files, in the same form."""


class LadderStatus(Struct, frozen=True, kw_only=True):
    """A ladder at this moment."""

    store: str
    bots: int
    taken_out: tuple[TakenOutBot, ...]
    copies: tuple[Copy, ...]
    shown: str | None
    """The season that pages show: the newest that is open and no tournament's."""
    played: tuple[str, ...]
    """The seasons of which games are being played."""
    seasons: tuple[SeasonStatus, ...]
    submissions: tuple[Submission, ...]
    """Submissions that are checked, then those that wait, in the order of their checks."""
    analyses: tuple[LadderAnalysis, ...]
    """Those that run, and those that wait, in the order in which they are done."""
    runner: str | None
    """The control groups that the newest run said it has; None if none has said it."""
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
    found = _season_statuses(store, seasons, bots)
    opened = open_seasons(seasons)
    return LadderStatus(
        store=str(store.database),
        bots=len(bots),
        taken_out=tuple(
            TakenOutBot(bot.name, bot.state, bot.reason)
            for bot in bots
            if bot.state is not BotState.ACTIVE
        ),
        copies=tuple(
            Copy(one.signed_label, versions[0].signed_label)
            for versions in store.bots.shared_files()
            for one in versions
            if one.author != versions[0].author
        ),
        shown=opened[-1].name if opened else None,
        played=tuple(status.season.name for status in found if status.leased),
        seasons=found,
        submissions=tuple(store.submissions.queue()),
        analyses=tuple(store.analyses.queue()),
        runner=store.audit.runner(),
        audit=tuple(store.audit.latest(AUDIT_ENTRIES)),
        counts=store.counts.read(),
    )


def upkeep(counts: LadderCounts) -> list[CheckResult]:
    """The room, the backup, the runner and the damage of a ladder, with what to do about them."""
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
    remedy = (
        "give it more memory, or its unit a higher MemoryMax=; or have fewer --workers, or less "
        "--memory for each bot of a season"
    )
    good = "no bot wanted for memory lately"
    found = "a machine that plays ran out of memory: bots within their limits were ended"
    checks.append(_shortage("memory", counts.shortage_age_seconds, good, found, remedy))
    remedy = "have fewer --workers, or let nothing else compute there"
    good = "no bot wanted for a CPU lately"
    found = "a machine that plays was too busy: a bot got no CPU, and its game is void"
    checks.append(_shortage("CPU", counts.starved_age_seconds, good, found, remedy))
    resting = "; ".join(counts.resting_runners) or "nothing waits without a runner"
    found = "no runner does what waits" if counts.is_stalled else resting
    remedy = "start `ladder run --forever`, or `ladder serve`"
    checks.append(CheckResult("runner", not counts.is_stalled, True, found, remedy))
    remedy = "`ladder refold --records` names all damage; restore a backup: `ladder restore`"
    checks += [CheckResult("damage", False, True, line, remedy) for line in counts.damage]
    return checks


def _shortage(
    name: str, age_seconds: float | None, good: str, found: str, remedy: str
) -> CheckResult:
    """The check of what bots lacked last so long ago, None if they never did."""
    enough = age_seconds is None or age_seconds > SHORTAGE_DAYS * 86_400
    return CheckResult(name, enough, True, good if enough else found, remedy)


def not_ready(store: Store, *, has_runner: bool) -> str | None:
    """The reason for which a ladder cannot do its work now, in a word or two; None if it can.

    has_runner  whether a runner's process runs beside the caller; one elsewhere is known by its
                leases and its rests
    """
    try:
        store.database.check_writable()
    except StoreError:
        return "the store cannot be written"
    if has_runner:
        return None
    try:
        return "no runner" if store.counts.is_stalled() else None
    except StoreError:
        return "the queues cannot be read"


def _unplayable(season: StoredSeason, bots: Sequence[LadderBot]) -> str | None:
    from deepsea_ladder.pairing import table_sizes

    if season.closed_at is not None or season.tournament is not None:
        return None
    pairing = season.settings.pairing
    playing = [bot for bot in bots if bot.state is BotState.ACTIVE]
    if not pairing.same_author:
        available = len({bot.author for bot in playing})
    elif pairing.former_versions:
        available = sum(bot.current.number for bot in playing)
    else:
        available = len(playing)
    try:
        table_sizes(available, season.settings.seats, pairing)
    except PairingError as error:
        return str(error)
    return None


def _season_statuses(
    store: Store, seasons: Sequence[StoredSeason], bots: Sequence[LadderBot]
) -> tuple[SeasonStatus, ...]:
    """The queues of all seasons, however many there are by the same few statements."""
    known = {names.key(bot.name) for bot in bots}
    counts, lost = store.queue.counts_of(seasons), store.queue.lost_counts()
    paces, extensions = store.history.paces(RATE_GAMES), store.seasons.extensions()
    strikes = store.bots.strikes([one for one in seasons if one.closed_at is None])
    jobs = store.queue.listed(None, TaskState.RUNNING, TaskState.QUARANTINED)

    def jobs_of(season: StoredSeason, status: TaskState) -> tuple[JobInfo, ...]:
        return tuple(job for job in jobs if (job.season, job.status) == (season.name, status))

    return tuple(
        SeasonStatus(
            season=season_info(season),
            extensions=tuple(extensions.get(season.id, ())),
            unplayable=_unplayable(season, bots),
            unknown_panel=tuple(
                name for name in season.settings.verdicts.panel if names.key(name) not in known
            ),
            waiting=counts[season.id].waiting,
            leased=counts[season.id].leased,
            expired=counts[season.id].expired,
            done=counts[season.id].done,
            cancelled=counts[season.id].cancelled,
            oldest_wait_seconds=counts[season.id].oldest_wait_ms / 1000,
            games_per_second=pace.games_per_second if pace else None,
            last_game_at=utc_time(pace.last_at) if pace else None,
            lost=dict(lost.get(season.id, {})),
            strikes=tuple(strikes.get(season.id, ())),
            leases=jobs_of(season, TaskState.RUNNING),
            quarantined=jobs_of(season, TaskState.QUARANTINED),
        )
        for season in seasons
        for pace in [paces.get(season.id)]
    )


NAMED = 3
"""Versions with the same files that a sentence names."""


class AuthorOverview(Struct, frozen=True, kw_only=True):
    """An author in the overview, with the bot that stands best in the season."""

    author: str
    state: AuthorState
    joined_at: Time | None
    """The first token; None before a code was redeemed."""
    submissions: int = 0
    submitted_at: Time | None = None
    """The newest submission."""
    refused_at: Time | None = None
    """The newest submission that was not accepted."""
    refusal: str = ""
    """The reason of that."""
    bots: int
    bot: str = ""
    """Of several bots one with the best rank, else one that plays; "" for none."""
    version: int | None = None
    bot_state: BotState | None = None
    games: int = 0
    """Of that version in the season."""
    rating: float | None = None
    """None before the first game."""
    rank: int | None = None
    same_files: tuple[str, ...]
    """Versions of other authors that have the files of one of this author's versions."""


class Overview(Struct, frozen=True, kw_only=True):
    """All authors, by name, and a season."""

    season: str
    authors: tuple[AuthorOverview, ...]


OVERVIEW_COLUMNS = (
    TableColumn(
        "author",
        "author",
        "text",
        beside=("state",),
        meaning="all authors, by name; on the page with the state",
    ),
    TableColumn(
        "joined", "joined_at", spare=2, meaning="when a code was redeemed for the first token"
    ),
    TableColumn("tries", "submissions", spare=6, meaning="the number of submissions"),
    TableColumn("submitted", "submitted_at", meaning="the newest submission"),
    TableColumn("rank", "rank", meaning="the rank of that version in the season"),
    TableColumn(
        "bot",
        "bot",
        "text",
        beside=("bots",),
        meaning="the author's bot that stands best, on the page with the number of all",
    ),
    TableColumn("version", "version", spare=3, meaning="the version of that bot in the season"),
    TableColumn("state", "bot_state", "text", spare=5, meaning="the state of that bot"),
    TableColumn("games", "games", meaning="games of that version in the season"),
    TableColumn("rating", "rating", spare=4, meaning="mu − 3 sigma; none before the first game"),
    TableColumn(
        "refused", "refused_at", spare=7, meaning="the newest submission that was not accepted"
    ),
    TableColumn("last refusal", "refusal", "note", meaning="the reason why that was not accepted"),
    TableColumn(
        "same files as",
        "same_files",
        "note",
        meaning="versions of other authors that have the same files to the last byte",
    ),
)
CSV_COLUMNS = AuthorOverview.__struct_fields__
SharedFiles = Sequence[tuple[BotVersion, ...]]
"""Versions of several authors with the same files, by their files."""


def overview(store: Store, season_name: str | None = None) -> Overview:
    """All authors, and where they stand in a season; by default the open one."""
    season = find_season(store, season_name)
    entries = eligible(store, season)
    lines = standings(listed(store, season, entries), pairing=season.settings.pairing)
    ranks = {(line.bot, line.version): line.rank for line in lines}

    def rank(entry: RatedVersion) -> int | None:
        return ranks.get((entry.version.bot, entry.version.number))

    def is_behind(entry: RatedVersion) -> tuple[float, bool]:
        return rank(entry) or inf, entry.state is not BotState.ACTIVE

    best: dict[str, RatedVersion] = {}
    for entry in sorted(entries, key=is_behind):
        best.setdefault(entry.version.author, entry)
    submissions, joined = store.submissions.by_author(), store.audit.first_tokens()
    shared = store.bots.shared_files()

    def line(author: AuthorLine) -> AuthorOverview:
        name = author.author
        overview = AuthorOverview(
            author=name,
            state=author.state,
            joined_at=joined.get(name),
            bots=author.bots,
            same_files=copies(shared, name),
        )
        if (sent := submissions.get(name)) is not None:
            overview = replace(
                overview,
                submissions=sent.number,
                submitted_at=sent.newest.created_at,
                refused_at=sent.refused.created_at if sent.refused else None,
                refusal=sent.refused.found if sent.refused else "",
            )
        if (entry := best.get(name)) is not None:
            tally = entry.tally
            overview = replace(
                overview,
                bot=entry.version.bot,
                version=entry.version.number,
                bot_state=entry.state,
                games=tally.games,
                rating=tally.rating.conservative if tally.games else None,
                rank=rank(entry),
            )
        return overview

    return Overview(season=season.name, authors=tuple(map(line, store.authors.all())))


def copies(
    shared: SharedFiles, author: str, bot: str | None = None, number: int | None = None
) -> tuple[str, ...]:
    """Versions of other authors that have the files of one of an author's versions: of any, of one
    of this bot, or of the one with this number."""
    labels: dict[str, None] = {}
    for versions in shared:
        own = [one for one in versions if one.author == author]
        if any(bot in (None, one.bot) and number in (None, one.number) for one in own):
            labels |= {one.signed_label: None for one in versions if one not in own}
    return tuple(labels)


def same_files_as(labels: Iterable[str]) -> str:
    """`same files as ann v1 by anna and 2 others`; "" for none."""
    names = list(labels)
    if not names:
        return ""
    more = len(names) - NAMED
    return f"same files as {', '.join(names[:NAMED])}{f' and {more} more' if more > 0 else ''}"
