"""The present state of a ladder for its operator, and the overview of a class.

Start reading at `ladder_status`, `upkeep` and `overview`. The overview has the authors, their
submissions and their places in the standings.

Invariants: every author has one line in the overview, also before the first bot; the columns of its
table in the terminal and on the page are `OVERVIEW_COLUMNS`, and CSV has every field of a line;
versions have the same files if these are equal to the last byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from deepsea_arena.documents import Json, TableColumn, to_json, to_object
from deepsea_arena.seasons import SeasonInfo, find_season, open_seasons, season_info
from deepsea_arena.standings import listed, standings_candidates
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
"""Number of days for which a shortage of memory or CPU is shown."""
RATE_GAMES = 100
"""Number of newest games from which the rate of games is computed."""
AUDIT_ENTRIES = 10
"""Number of entries of the audit log that are shown, the newest ones."""
COLUMNS = {
    "submissions": ("id", "bot", "author", "state", "games", "of_games", "created_at"),
    "audit": ("id", "at", "kind", "subject", "note"),
}
"""The fields of a submission, and of an entry of the audit log, in the JSON of a status."""


class SeasonStatus(Struct, frozen=True, kw_only=True):
    """The queue of a season, and the conduct of its bots."""

    season: SeasonInfo
    extensions: tuple[Extension, ...]
    """Longer deadlines of single authors."""
    unplayable: str | None
    """The reason why no game can be scheduled; None if games can."""
    unknown_panel: tuple[str, ...]
    """Names in the panel of its verdicts that no bot has."""
    waiting: int
    """Number of games that wait."""
    leased: int
    """Number of games that are being played."""
    expired: int
    """Number of games whose leases have run out, and which no run has taken over yet."""
    done: int
    cancelled: int
    oldest_wait_seconds: float
    games_per_second: float | None
    """Rate of the newest games; None if there are too few."""
    last_game_at: Time | None
    lost: dict[AttemptEnd, int]
    """Number of attempts at games without a result, by the way in which they ended."""
    strikes: tuple[BotConduct, ...]
    """Faults of bots in the window of strikes; empty for a season that is closed."""
    leases: tuple[JobInfo, ...]
    quarantined: tuple[JobInfo, ...]
    """Games that failed too often and wait for the operator."""


class TakenOutBot(Struct, frozen=True):
    """A bot that gets no games."""

    bot: str
    state: BotState
    reason: str | None


class Copy(Struct, frozen=True):
    """A version with files that another author had submitted before."""

    version: str
    """The label of the version, such as "ben v1 by benjamin"."""
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
    """Names of the seasons whose games are being played."""
    seasons: tuple[SeasonStatus, ...]
    submissions: tuple[Submission, ...]
    """Submissions that are checked, then those that wait, in the order of their checks."""
    analyses: tuple[LadderAnalysis, ...]
    """Analyses under way, then those that wait, in the order in which they are done."""
    runner: str | None
    """The control groups that the newest run has reported, in words; None without a report."""
    audit: tuple[AuditEntry, ...]
    """The newest entries, newest first."""
    counts: LadderCounts


def status_document(status: LadderStatus) -> dict[str, Json]:
    """Return the status as JSON.

    Submissions and entries of the audit log have only the fields in `COLUMNS`.
    """
    document = to_object(status)
    document["submissions"] = _selected_fields(status.submissions, COLUMNS["submissions"])
    document["audit"] = _selected_fields(status.audit, COLUMNS["audit"])
    return document


def _selected_fields(rows: Sequence[object], fields: Sequence[str]) -> Json:
    """Return these fields of each row as JSON."""
    return [{field: to_json(getattr(row, field)) for field in fields} for row in rows]


def ladder_status(store: Store) -> LadderStatus:
    """Return the seasons, queues, leases and troubles of a ladder, for its operator."""
    bots, seasons = store.bots.all(), store.seasons.all()
    season_statuses = _season_statuses(store, seasons, bots)
    opened = open_seasons(seasons)
    taken_out = [
        TakenOutBot(bot.name, bot.state, bot.reason)
        for bot in bots
        if bot.state is not BotState.ACTIVE
    ]
    copies = [
        Copy(version.signed_label, same_files_as=first_version.signed_label)
        for first_version, *later_versions in store.bots.shared_files()
        for version in later_versions
        if version.author != first_version.author
    ]
    return LadderStatus(
        store=str(store.database),
        bots=len(bots),
        taken_out=tuple(taken_out),
        copies=tuple(copies),
        shown=opened[-1].name if opened else None,
        played=tuple(status.season.name for status in season_statuses if status.leased),
        seasons=season_statuses,
        submissions=tuple(store.submissions.queue()),
        analyses=tuple(store.analyses.queue()),
        runner=store.audit.control_groups(),
        audit=tuple(store.audit.latest(AUDIT_ENTRIES)),
        counts=store.counts.read(),
    )


def upkeep(counts: LadderCounts) -> list[CheckResult]:
    """Return checks of a ladder's disk, backup, memory, CPU, runner and damage, with remedies."""
    checks = [*_disk_check(counts), _backup_check(counts)]
    checks.append(
        _shortage_check(
            "memory",
            counts.shortage_age_seconds,
            good="no bot wanted for memory lately",
            bad="a machine that plays ran out of memory: bots within their limits were ended",
            remedy="give it more memory, or its unit a higher MemoryMax=; or have fewer --workers, "
            "or less --memory for each bot of a season",
        )
    )
    checks.append(
        _shortage_check(
            "CPU",
            counts.starved_age_seconds,
            good="no bot wanted for a CPU lately",
            bad="a machine that plays was too busy: a bot got no CPU, and its game is void",
            remedy="have fewer --workers, or let nothing else compute there",
        )
    )
    resting = "; ".join(counts.resting_runners) or "nothing waits without a runner"
    checks.append(
        CheckResult(
            "runner",
            ok=not counts.is_stalled,
            needed=True,
            found="no runner does what waits" if counts.is_stalled else resting,
            remedy="start `ladder run --forever`, or `ladder serve`",
        )
    )
    remedy = "`ladder refold --records` names all damage; restore a backup: `ladder restore`"
    checks += [
        CheckResult("damage", ok=False, needed=True, found=line, remedy=remedy)
        for line in counts.damage
    ]
    return checks


def _disk_check(counts: LadderCounts) -> list[CheckResult]:
    """Return the check that the disk has room for a backup; no check for a database on a server."""
    # Imported only here, since a client of a ladder needs no database.
    from deepsea_ladder.store.database import LEAST_FREE

    ladder_bytes, free_bytes = counts.store_bytes, counts.disk_free_bytes
    if free_bytes is None:
        return []
    sizes = f"{size_in_words(free_bytes)} free beside a ladder of {size_in_words(ladder_bytes)}"
    has_room = free_bytes >= max(ladder_bytes, LEAST_FREE) + MIB
    finding = sizes if has_room else f"no room for a backup, {sizes}"
    remedy = "free some space, or move the ladder to another disk"
    return [CheckResult("disk", ok=has_room, needed=True, found=finding, remedy=remedy)]


def _backup_check(counts: LadderCounts) -> CheckResult:
    """Return the check that the last backup is younger than two days."""
    age_seconds = counts.backup_age_seconds
    days = None if age_seconds is None else int(age_seconds // 86_400)
    return CheckResult(
        "backup",
        ok=days is not None and days < 2,
        needed=True,
        found="no backup lately" if days is None else f"the last backup is {days} days old",
        remedy="`ladder backup FILE`, best every night",
    )


def _shortage_check(
    name: str, age_seconds: float | None, *, good: str, bad: str, remedy: str
) -> CheckResult:
    """Return the check that no bot has lacked memory, or a CPU, in the last days.

    name         the name of the check
    age_seconds  time since a bot lacked it last; None if none ever did
    good, bad    the finding if the check is passed, and if it is not
    """
    is_passed = age_seconds is None or age_seconds > SHORTAGE_DAYS * 86_400
    finding = good if is_passed else bad
    return CheckResult(name, ok=is_passed, needed=True, found=finding, remedy=remedy)


def not_ready(store: Store, *, has_runner: bool) -> str | None:
    """Return why a ladder cannot do its work now, in a few words; None if it can.

    has_runner  True if the caller itself has a process that plays games; False looks in the store
                whether some runner is at work
    """
    try:
        store.database.check_writable()
    except StoreError:
        return "the store cannot be written"
    if has_runner:
        return None
    try:
        is_stalled = store.counts.is_stalled()
    except StoreError:
        return "the queues cannot be read"
    return "no runner" if is_stalled else None


def _unplayable(season: StoredSeason, bots: Sequence[LadderBot]) -> str | None:
    """Return why a season has too few bots for a game; None if games can be scheduled.

    `bots` are all bots of the ladder. Also return None for a closed season and for a tournament,
    which need no new games.
    """
    from deepsea_ladder.pairing import table_sizes

    if season.closed_at is not None or season.tournament is not None:
        return None
    pairing = season.settings.pairing
    active_bots = [bot for bot in bots if bot.state is BotState.ACTIVE]
    # The number of seats that can be filled in one game.
    if not pairing.same_author:
        available_seats = len({bot.author for bot in active_bots})
    elif pairing.former_versions:
        available_seats = sum(bot.current.number for bot in active_bots)
    else:
        available_seats = len(active_bots)
    try:
        table_sizes(available_seats, season.settings.seats, pairing)
    except PairingError as error:
        return str(error)
    return None


def _season_statuses(
    store: Store, seasons: Sequence[StoredSeason], bots: Sequence[LadderBot]
) -> tuple[SeasonStatus, ...]:
    """Return the status of each season.

    The number of statements is the same for any number of seasons.
    """
    bot_keys = {names.key(bot.name) for bot in bots}
    counts, lost = store.queue.counts_of(seasons), store.queue.lost_counts()
    paces, extensions = store.history.paces(RATE_GAMES), store.seasons.extensions()
    strikes = store.bots.strikes([season for season in seasons if season.closed_at is None])
    jobs = store.queue.listed(None, TaskState.RUNNING, TaskState.QUARANTINED)

    def jobs_of(season: StoredSeason, status: TaskState) -> tuple[JobInfo, ...]:
        return tuple(job for job in jobs if (job.season, job.status) == (season.name, status))

    def season_status(season: StoredSeason) -> SeasonStatus:
        """Return the status of one season, from the values that were read for all seasons."""
        pace = paces.get(season.id)  # None without games
        season_counts = counts[season.id]
        return SeasonStatus(
            season=season_info(season),
            extensions=tuple(extensions.get(season.id, ())),
            unplayable=_unplayable(season, bots),
            unknown_panel=tuple(
                name for name in season.settings.verdicts.panel if names.key(name) not in bot_keys
            ),
            waiting=season_counts.waiting,
            leased=season_counts.leased,
            expired=season_counts.expired,
            done=season_counts.done,
            cancelled=season_counts.cancelled,
            oldest_wait_seconds=season_counts.oldest_wait_ms / 1000,
            games_per_second=pace.games_per_second if pace else None,
            last_game_at=utc_time(pace.last_at) if pace else None,
            lost=dict(lost.get(season.id, {})),
            strikes=tuple(strikes.get(season.id, ())),
            leases=jobs_of(season, TaskState.RUNNING),
            quarantined=jobs_of(season, TaskState.QUARANTINED),
        )

    return tuple(map(season_status, seasons))


# ------------------------------------------------------------------------- the overview of a class

NAMED = 3
"""Number of versions with the same files that a sentence names."""


class AuthorOverview(Struct, frozen=True, kw_only=True):
    """An author in the overview, with the bot that stands best in the season."""

    author: str
    state: AuthorState
    joined_at: Time | None
    """When a code was redeemed for the first token; None before that."""
    submissions: int = 0
    """Number of submissions."""
    submitted_at: Time | None = None
    """The time of the newest submission."""
    refused_at: Time | None = None
    """The time of the newest submission that was not accepted."""
    refusal: str = ""
    """The reason why that was not accepted."""
    bots: int
    """Number of bots."""
    bot: str = ""
    """The bot with the best rank, or one that plays; "" for none."""
    version: int | None = None
    bot_state: BotState | None = None
    games: int = 0
    """Number of games of that version in the season."""
    rating: float | None = None
    """The rating of that version; None before its first game."""
    rank: int | None = None
    same_files: tuple[str, ...]
    """Labels of versions of other authors that have the files of one of this author's versions."""


class Overview(Struct, frozen=True, kw_only=True):
    """All authors, by name, with their bots in a season."""

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
"""Groups of versions with the same files; a group has several authors."""


def overview(store: Store, season_name: str | None = None) -> Overview:
    """Return all authors with their places in a season, by default the open one."""
    season = find_season(store, season_name)
    entries = standings_candidates(store, season)
    lines = standings(listed(store, season, entries), pairing=season.settings.pairing)
    ranks = {(line.bot, line.version): line.rank for line in lines}

    def rank(entry: RatedVersion) -> int | None:
        return ranks.get((entry.version.bot, entry.version.number))

    def sort_key(entry: RatedVersion) -> tuple[float, bool]:
        # The best rank first; of bots without a rank those that play first.
        return rank(entry) or inf, entry.state is not BotState.ACTIVE

    best: dict[str, RatedVersion] = {}  # by author
    for entry in sorted(entries, key=sort_key):
        best.setdefault(entry.version.author, entry)
    submissions, joined = store.submissions.by_author(), store.audit.first_tokens()
    shared = store.bots.shared_files()

    def line(author: AuthorLine) -> AuthorOverview:
        """Return the line of an author, with submissions and a bot if there are any."""
        name = author.author
        author_overview = AuthorOverview(
            author=name,
            state=author.state,
            joined_at=joined.get(name),
            bots=author.bots,
            same_files=same_files_of_others(shared, name),
        )
        if name in submissions:
            author_submissions = submissions[name]
            author_overview = replace(
                author_overview,
                submissions=author_submissions.number,
                submitted_at=author_submissions.newest.created_at,
                refused_at=author_submissions.refused.created_at
                if author_submissions.refused
                else None,
                refusal=author_submissions.refused.found if author_submissions.refused else "",
            )
        if name in best:
            entry = best[name]
            tally = entry.tally
            author_overview = replace(
                author_overview,
                bot=entry.version.bot,
                version=entry.version.number,
                bot_state=entry.state,
                games=tally.games,
                rating=tally.rating.conservative if tally.games else None,
                rank=rank(entry),
            )
        return author_overview

    return Overview(season=season.name, authors=tuple(map(line, store.authors.all())))


def same_files_of_others(
    shared: SharedFiles, author: str, bot: str | None = None, number: int | None = None
) -> tuple[str, ...]:
    """Return the labels of versions of other authors with the same files as a version of `author`.

    shared  the groups of versions with the same files
    bot     look only at this bot of the author; None looks at all
    number  look only at this version of the bot; None looks at all
    """

    def is_looked_at(version: BotVersion) -> bool:
        if version.author != author:
            return False
        return bot in (None, version.bot) and number in (None, version.number)

    labels: dict[str, None] = {}  # keys in order, each once
    for same_versions in shared:
        if any(map(is_looked_at, same_versions)):
            others = [version for version in same_versions if version.author != author]
            labels |= dict.fromkeys(version.signed_label for version in others)
    return tuple(labels)


def same_files_as(labels: Iterable[str]) -> str:
    """Return a phrase such as "same files as ann v1 by anna and 2 more"; "" without labels."""
    all_labels = list(labels)
    if not all_labels:
        return ""
    phrase = f"same files as {', '.join(all_labels[:NAMED])}"
    others = len(all_labels) - NAMED
    return f"{phrase} and {others} more" if others > 0 else phrase
