"""The types that the store, workers and front ends exchange: tasks, bots, games and seasons.

Invariants: plain values, compared by content; nothing here depends on a database, so unpickling one
in a worker loads no SQLAlchemy; times of documents have a time zone, all other times are those of
the database, in milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from operator import attrgetter
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta, Struct

from deepsea_ladder.rating import Rating, RatingTotals, SeatResult
from deepsea_ladder.season import SeasonSettings
from deepsea_rules.game import Decision
from deepsea_rules.ruleset import RuleSet, preset

# Times and large integers

Time = Annotated[datetime, Meta(tz=True)]
"""A time in a document, with its time zone."""
NO_TIME = "no time with its offset, such as 2027-01-31T18:00Z"
"""The end of a message about a text that is no time."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Int64(int):
    """An integer of up to 64 bits, such as an id of a database; a text in JSON."""


def utc_time(ms: int) -> datetime:
    """Return a time of the database, in milliseconds since 1970, as a time in UTC."""
    return _EPOCH + timedelta(milliseconds=ms)


def parse_time(text: str) -> datetime | None:
    """Return the time of a text in the format of RFC 3339, in UTC.

    Return None if the text is no time, if the time lies outside the years 1 to 9999, or if it has
    no offset from UTC, so that its meaning would depend on the reader's time zone.
    """
    try:
        time = datetime.fromisoformat(text)
        return time.astimezone(UTC) if time.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def milliseconds(time: datetime) -> int:
    """Return a time as the database stores it, in milliseconds since 1970, rounded down."""
    return (time - _EPOCH) // timedelta(milliseconds=1)


# Tasks


class TaskKind(StrEnum):
    """The kinds of tasks that runners do."""

    GAME = "game"
    """A rated game."""
    CHECK = "check"
    """The check of a submission."""
    ANALYSIS = "analysis"
    COMPARISON = "comparison"
    STEP = "step"
    """A person's game, up to the next decision of the person."""


class TaskState(StrEnum):
    """The state of a task; which ones a kind of tasks has is in `KINDS`."""

    QUEUED = "queued"
    """The task waits for a runner."""
    RUNNING = "running"
    """A runner has leased the task."""
    ASKED = "asked"
    """The task waits for a person's decision."""
    ACCEPTED = "accepted"
    REFUSED = "refused"
    DONE = "done"
    DECIDED = "decided"
    """The comparison has a verdict."""
    SPENT = "spent"
    """All CPU time or blocks that the season gives the comparison are used, without a verdict."""
    ENDED = "ended"
    """The comparison ended because a newer version came, or the season was closed."""
    VOID = "void"
    """The ladder could not continue the person's game, or the person dropped it."""
    FAILED = "failed"
    """The task failed as often as it may be tried."""
    QUARANTINED = "quarantined"
    """The game failed as often as it may be tried; it waits for the operator."""
    CANCELLED = "cancelled"
    """A bot of the game was taken out, or its season closed, before it was played."""

    @property
    def is_final(self) -> bool:
        """True if the task has ended, unless an operator changes its state."""
        return self not in UNDER_WAY


UNDER_WAY = (TaskState.QUEUED, TaskState.RUNNING, TaskState.ASKED)
"""The states of a task that has not ended."""


class KindRules(NamedTuple):
    """The states of a kind of tasks besides "queued" and "running", and when a task has failed."""

    failed: TaskState
    """The state after too many attempts without a result."""
    most_failures: attrgetter[int]
    """Returns the limit of failures from a `RetryPolicy`."""
    others: tuple[TaskState, ...]
    """The other states of the kind, besides "queued", "running" and `failed`."""

    @property
    def states(self) -> tuple[TaskState, ...]:
        """All states that a task of this kind can have."""
        return (TaskState.QUEUED, TaskState.RUNNING, *self.others, self.failed)


KINDS: Mapping[TaskKind, KindRules] = {
    TaskKind.GAME: KindRules(
        TaskState.QUARANTINED, attrgetter("failures"), (TaskState.DONE, TaskState.CANCELLED)
    ),
    TaskKind.CHECK: KindRules(
        TaskState.FAILED, attrgetter("checks"), (TaskState.ACCEPTED, TaskState.REFUSED)
    ),
    TaskKind.ANALYSIS: KindRules(TaskState.FAILED, attrgetter("analyses"), (TaskState.DONE,)),
    TaskKind.COMPARISON: KindRules(
        TaskState.FAILED,
        attrgetter("comparisons"),
        (TaskState.DECIDED, TaskState.SPENT, TaskState.ENDED),
    ),
    TaskKind.STEP: KindRules(
        TaskState.VOID, attrgetter("steps"), (TaskState.ASKED, TaskState.DONE)
    ),
}


# Bots and submissions


class BotState(StrEnum):
    """States of a bot, for which games are scheduled or not."""

    ACTIVE = "active"
    SUSPENDED = "suspended"
    """The ladder took it out, for its strikes or for damaged files."""
    DISABLED = "disabled"
    """An operator took it out."""
    WITHDRAWN = "withdrawn"
    """The author took it out."""


class BotVersion(Struct, frozen=True):
    """One version of a bot: what plays, under the name that records give it."""

    id: int
    bot: str
    author: str
    number: int
    digest: str
    created_at: int

    @property
    def label(self) -> str:
        """The name in records: the bot and its version."""
        return f"{self.bot} v{self.number}"

    @property
    def signed_label(self) -> str:
        """The name in records, followed by the author."""
        return f"{self.label} by {self.author}"


class LadderBot(Struct, frozen=True):
    """A bot, with the version that plays."""

    name: str
    author: str
    current: BotVersion
    state: BotState
    reason: str | None
    """The reason for which it is not active."""
    is_damaged: bool
    """True if it is suspended for damaged files."""
    changed_at: int


class BotConduct(Struct, frozen=True, kw_only=True):
    """The faults and absences of an active bot; their limits are in `StrikeRules`."""

    bot: str
    absences: int
    """Games in a row in which it did not start, or crashed."""
    spoiled: int
    """The number of its last games that it forfeited or had two faults in."""
    voids: int
    """The number of its last attempts that became void while it was asked."""


class RatedVersion(Struct, frozen=True):
    """A bot version in a season's standings."""

    version: BotVersion
    tally: RatingTotals
    state: BotState
    """The bot's."""
    is_current: bool
    """True if this is the bot's newest version."""

    def takes_part(self, season: SeasonSettings) -> bool:
        """Return True if this version takes part in the season while it is open.

        Then it gets games, is listed in the standings, and counts for the certainty of their order.
        """
        plays_on = self.is_current or season.pairing.former_versions
        return plays_on and self.state is BotState.ACTIVE


class NewSubmission(Struct, frozen=True, kw_only=True):
    """An upload of an author."""

    author_id: int
    bot: str
    """The bot's name; "" is that of its bot.toml."""
    key: str
    """Chosen by the client: the same one again is the same submission."""
    size: int
    """The size of the archive in bytes."""
    sha256: str
    """The SHA-256 of the archive in hex."""
    needs_sandbox: bool = True
    """False if it can only come from the ladder's own machine: such a bot may play in a season
    without a sandbox."""
    by_machine: bool = False
    """True if a command on the ladder's machine submits it, for which there are no limits."""


class Submission(Struct, frozen=True, kw_only=True):
    """A bot that was uploaded."""

    id: Int64
    bot: str
    """The bot's name; "" as long as only its bot.toml says it."""
    author: str
    state: TaskState
    ahead: int
    """The number of submissions that are checked before this one, if it waits."""
    games: int
    """Admission games that were played."""
    of_games: int
    version: int | None
    """The bot's version, if it was accepted."""
    digest: str
    """The digest of its files; "" before they were read."""
    found: str
    """The reason for which it was not accepted."""
    remedy: str
    error: str
    """The author's part of a traceback."""
    log: tuple[str, ...]
    """The end of its output."""
    created_at: Time
    changed_at: Time
    same_files: tuple[str, ...] = ()
    """Other authors' versions with the same files as an accepted one, for admins alone."""


class AuthorSubmissions(Struct, frozen=True):
    """The submissions of an author, in short."""

    number: int
    newest: Submission
    refused: Submission | None
    """The newest one that was not accepted."""


class SubmissionLease(Struct, frozen=True, kw_only=True):
    """A submission that its owner is to check now."""

    id: int
    author_id: int
    author: str
    bot: str
    needs_sandbox: bool
    by_machine: bool
    owner: str
    attempt: int
    """The number of the lease, from 1."""


class SubmissionRefusal(Struct, frozen=True):
    """The reason for which a submission is not accepted; the store keeps it safe to print."""

    found: str
    remedy: str = ""
    log: tuple[str, ...] = ()
    error: str = ""


# Games, seasons, analyses, games of people

Seating = Sequence[int]
"""The line-up of one game: ids of versions by seat."""
Rotation = Sequence[Seating]
"""Games of the same bots, each in other seats."""
PERSON = "person"
"""The name of a person in records: they are kept when an author's name is removed."""


class AttemptEnd(StrEnum):
    """The ways in which an attempt at a game ends."""

    DONE = "done"
    """The attempt gave the job's result."""
    DUPLICATE = "duplicate"
    """The job had a result by then, from a lease that had expired."""
    VOID = "void"
    """The game could not be played through, and no bot was to blame."""
    REFUSED = "refused"
    """The report was no valid result of this job."""
    EXPIRED = "expired"
    """The lease expired without a report."""
    HANDED_BACK = "handed back"
    """The runner stopped before the game was played."""


class Job(Struct, frozen=True):
    """A game that its owner is to play now."""

    id: int
    game_id: str
    season: SeasonSettings
    seed: bytes
    """The seed of this attempt."""
    seats: tuple[BotVersion, ...]
    rotation: int
    """The same for games of the same bots in other seats."""
    attempt: int
    """The number of the lease, from 1."""
    owner: str
    void_seats: tuple[int, ...] = ()
    """The seats that were asked when an earlier attempt became void."""
    suspects: tuple[int, ...] = ()
    """The seats whose version was asked when this or another game of the season became void."""


class JobInfo(Struct, frozen=True):
    """A job as people look at it."""

    game_id: str
    season: str
    status: TaskState
    lineup: tuple[str, ...]
    attempt: int
    failures: int
    owner: str | None
    note: str | None


class LostAttempt(Struct, frozen=True):
    """An attempt at a job that ended without a result: everybody may see how often that was."""

    place: int
    """The place in the season's chain, among games and other such attempts."""
    game_id: str
    attempt: int
    """The number that its seed was made with, from 0."""
    ended: AttemptEnd
    ended_at: int
    reason: str | None
    seat: int | None
    """The seat that was asked when the game became void."""
    lineup: tuple[BotVersion, ...]
    head: str = ""
    """The head of the season's chain at this place; "" until it is known."""


class QueuedJob(NamedTuple):
    """A job as a schedule looks at it."""

    number: int
    rotation: int
    lineup: tuple[int, ...]
    """Ids of versions by seat."""
    game_id: str
    is_open: bool
    """True while a result may still come."""
    seats: tuple[SeatResult, ...] = ()
    """The result, where it is asked for; empty for good if the game was cancelled."""


class PairingQueue(Struct, frozen=True):
    """A season's jobs as the pairing looks at them; versions by their ids."""

    rotations: int
    """The number of rotations; they are numbered from 1."""
    recent_lineups: Sequence[frozenset[int]]
    """The line-ups of the newest rotations, the oldest first."""
    bot_and_author: Mapping[int, tuple[int, int]]
    """The ids of bot and author, of each version in them and of each that gets games."""
    last_rotation: Mapping[int, int]
    """The last rotation of each version that gets games; for one that has not played, the season's
    last rotation when it was submitted."""
    pending: Mapping[int, int]
    """Games that have no result yet."""


class QueueLoad(Struct, frozen=True):
    """Tasks that wait for runners, and those that they do."""

    waiting: int
    leased: int
    expired: int
    """Expired leases that no run has taken over yet."""
    oldest_wait_ms: int
    """The age of the oldest one that waits."""


class QueueCounts(QueueLoad, frozen=True):
    """A season's jobs by status."""

    done: int
    quarantined: int
    cancelled: int


class LadderCounts(Struct, frozen=True, kw_only=True):
    """A whole ladder in numbers, by the names of its metrics."""

    games: int
    lost_attempts: dict[AttemptEnd, int]
    """Attempts at games that ended without a result, by how they ended."""
    faults: int
    forfeits: int
    quarantined_games: int
    waiting: dict[str, int]
    """The number of waiting tasks by queue, without the games of paused seasons."""
    leased: dict[str, int]
    expired: dict[str, int]
    oldest_wait_seconds: dict[str, float]
    runners: int
    """The number of runners that have renewed a lease in time, or that rest."""
    resting_runners: tuple[str, ...]
    """A line for each runner that has no lease on purpose, with the reason."""
    recent_submissions: dict[TaskState, int]
    recent_games: int
    """The newest games, which the next three are about."""
    recent_faults: dict[str, int]
    """The number of faults in the newest games, by kind."""
    recent_decision_seconds: dict[str, float]
    """The time of a decision in the newest games, by quantile."""
    recent_record_bytes: int
    backup_age_seconds: float | None
    shortage_age_seconds: float | None
    """The time since a machine that plays had no memory left for a bot."""
    starved_age_seconds: float | None
    """The time since one was too busy to give a bot a CPU."""
    store_bytes: int
    disk_free_bytes: int | None
    damage: tuple[str, ...]
    """A line for each value that cannot be read, and with which its bot, rating, season or record
    is left out: in small tables, and in the newest records."""

    @property
    def is_stalled(self) -> bool:
        """True if something waits, and no runner has renewed a lease or rests."""
        return is_stalled(self.waiting, self.expired, self.runners)


def is_stalled(waiting: Mapping[str, int], expired: Mapping[str, int], runners: int) -> bool:
    """Return True if tasks wait for a runner, and there is none.

    waiting  the number of tasks that wait, by the name of their queue
    expired  the number of tasks whose runner has not reported in time, by the name of their queue
    runners  the number of runners
    """
    if runners:
        return False
    # A comparison also waits if the CPU time for comparisons in an hour is used up, so it does not
    # tell that a runner is missing.
    return any(waiting[queue] + expired[queue] > 0 for queue in waiting if queue != "comparisons")


class ReceiptStatus(StrEnum):
    """The verdict on a reported result."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    """The job has its result already; nothing changed."""
    REFUSED = "refused"
    """The record is no valid result of this job; only the audit log changed."""


class Receipt(Struct, frozen=True):
    """The store's answer to a reported result of a game."""

    status: ReceiptStatus
    seq: int | None = None
    """The game's place in the order in which games are rated."""
    reason: str | None = None
    """The reason of the refusal."""
    is_late: bool = False
    """True if it was refused because its season was closed, which is nobody's mistake."""
    suspended: tuple[str, ...] = ()
    """Bots that this result has taken out."""


class VoidReceipt(Struct, frozen=True):
    """The store's answer to the report of a void game."""

    status: TaskState
    """The job's state after the report."""
    suspended: tuple[str, ...] = ()
    """Names of bots that were suspended for too many games that became void at their decisions."""


class GameSeat(Struct, frozen=True, kw_only=True):
    """A seat's result in a game."""

    bot: str
    version: int
    author: str
    digest: str
    points: int
    placement: int
    decisions: int
    faults: int
    forfeit: str | None
    """The fault that forfeited the seat."""
    mu: float
    """The rating after the game."""
    sigma: float

    @property
    def label(self) -> str:
        """The name in records: the bot and its version."""
        return f"{self.bot} v{self.version}"

    @property
    def rating(self) -> Rating:
        """The rating after the game."""
        return Rating(self.mu, self.sigma)


class GameLine(Struct, frozen=True, kw_only=True):
    """A game that was played."""

    seq: Int64
    """The game's place in the order in which games are rated."""
    game_id: str
    season: str
    place: int
    """The game's place in the season's chain, among games and attempts without a result."""
    attempt: int
    """The number of attempts at this game that ended before without a result."""
    played_at: Time
    seats: tuple[GameSeat, ...]

    def by_placement(self) -> list[GameSeat]:
        """Return the seats, the best placement first; ties in the order of the seats."""
        return sorted(self.seats, key=lambda seat: seat.placement)


class StoredGame(Struct, frozen=True):
    """A game with its record."""

    line: GameLine
    record: str
    head: str = ""
    """The head of the season's chain at this place; "" until it is known."""

    @property
    def place(self) -> int:
        """The game's place in the season's chain."""
        return self.line.place


class GameNote(Struct, frozen=True):
    """The note of a bot at a decision; a stranger's text, to be escaped."""

    decision: int
    """The index of the decision in the record."""
    text: str
    numbers: Mapping[str, float]


class SeatLog(Struct, frozen=True):
    """The error and output of a bot in a game, for its author; a stranger's text, to be escaped."""

    seat: int
    bot: str
    """The bot's name and version."""
    error: str
    """The bot's faults, with the author's part of tracebacks; "" without one."""
    output: str
    """The end of what its process printed, in a game with a fault."""
    notes: tuple[GameNote, ...] = ()


class GameFilter(Struct, frozen=True, kw_only=True):
    """The conditions that games of a list have to meet, all of them.

    A bot's name stands for all its versions.
    """

    bot: str | None = None
    """Only games in which this bot has a seat."""
    against: str | None = None
    """Only games in which this other bot has a seat, too."""
    faults: bool = False
    """True for only games in which `bot` had a fault, or any bot if none is named."""
    lost: bool = False
    """True for only games in which `bot` was placed behind `against`, or without it, not first."""


class StoredSeason(Struct, frozen=True):
    """A season of the ladder as the store has it: its settings, and its state when it was read.

    The settings never change; the state, such as `closed_at`, `paused_at` and `head`, does.
    """

    id: int
    settings: SeasonSettings
    commitment: str
    """SHA-256 of the season's seed, in hex."""
    method: str
    """The arithmetic that its ratings were made with, `rating.METHOD` of that time."""
    created_at: int
    closed_at: int | None
    place: int
    """The last place of its chain: its games, and its attempts without a result."""
    head: str
    """The head of its chain at that place, in hex."""
    tournament: str | None = None
    """The plan of the tournament that it was opened for, as JSON; None for rated games."""
    submissions_until: int | None = None
    """The deadline of submissions in milliseconds since 1970; None without one."""
    paused_at: int | None = None
    """The time since which no games are started; None if the season is not paused."""
    games: int = 0
    """The number of its games when it was read."""

    @property
    def name(self) -> str:
        """The season's name."""
        return self.settings.name


class Extension(Struct, frozen=True):
    """An author who may submit to a season until another time than its deadline."""

    author: str
    until: Time


class SubmissionWindow(Struct, frozen=True):
    """The answer to whether somebody may submit at a moment, and until when."""

    until: int | None
    """The end of submissions, the first one if several seasons are open, in milliseconds since
    1970; None: that of the season."""
    refusal: str
    """The reason for which nothing is taken in; "" if bots are."""


class AnalysisPlan(Struct, frozen=True):
    """The policy and settings of an analysis; another plan gives another result."""

    policy: str
    """The policy of the roll-outs, with its version."""
    settings: str
    """The settings, as a JSON object."""


CurrentPlan = Callable[[], AnalysisPlan]
"""Returns the plan of this ladder, by which a game is analysed that is asked for now."""


class LadderAnalysis(Struct, frozen=True, kw_only=True):
    """An analysis of a game as it stands, without what was found."""

    id: Int64
    game_id: str
    state: TaskState
    ahead: int
    """The number of analyses that are done before this one, if it waits."""
    policy: str
    """The policy of its roll-outs, with its version."""
    outdated: bool
    """True if it is done, but not by the policy and settings of this ladder: ask again."""
    reason: str
    """The reason for which it failed, or waits again."""
    created_at: Time
    changed_at: Time


class AnalysedGame(NamedTuple):
    """A game that has an analysis, and a bot's seat in it."""

    analysis: int
    game_id: str
    seat: int


class AnalysisLease(Struct, frozen=True, kw_only=True):
    """An analysis that its owner is to do now."""

    id: int
    game_id: str
    record: str
    settings: str
    owner: str
    attempt: int
    """The number of the lease, from 1."""


class Presence(StrEnum):
    """The presence of the person at a game."""

    HERE = "here"
    """The person decides."""
    SILENT = "silent"
    """The person did not answer in time: default actions are played until the next answer."""
    LEFT = "left"
    """The person has left: default actions are played to the end."""


class PersonGame(Struct, frozen=True, kw_only=True):
    """A game of a person; to a runner that has leased it, the lease."""

    id: int
    game_id: str
    season: SeasonSettings
    """The season of the bots, which has their clock, isolation and limits."""
    author_id: int | None
    visitor: str | None
    person: str
    """The author's name; "" of a visitor."""
    rules: str
    seed: bytes
    seat: int
    versions: tuple[BotVersion, ...]
    """The bots, in the order of their seats."""
    state: TaskState
    presence: Presence
    until: int | None
    """The time at which the default action is played, if the game waits for the person."""
    decisions: tuple[Decision, ...]
    answer: str | None
    """The person's next action; "" is the default one."""
    reason: str
    """The reason for which it is void, or waits again."""
    record: str
    created_at: int
    changed_at: int
    owner: str
    attempt: int

    @property
    def ruleset(self) -> RuleSet:
        """The rules of the game: the season's, if they have the game's name, else the preset."""
        season_rules = self.season.rules
        return season_rules if season_rules.name == self.rules else preset(self.rules)

    @property
    def names(self) -> list[str]:
        """The names of bots and person in the record, by seat."""
        names = [version.label for version in self.versions]
        names.insert(self.seat, PERSON)
        return names


# Comparisons

Verdict = Literal["better", "worse", "level"]
"""The verdict on a version against another one; they are level if they differ by no more than the
season's margin."""


class ComparisonStanding(Struct, frozen=True, kw_only=True):
    """The figures of a comparison after some blocks."""

    blocks: int = 0
    lead: float = 0.0
    """The version's lead in placement score, less the luck in it."""
    low: float = -1.0
    high: float = 1.0
    """The interval of the lead, with 95 % at all times together."""
    margin: float = 0.05
    """The largest difference that counts as none."""
    verdict: Verdict | None = None
    blocks_to_go: int | None = None
    """A guess; None with a verdict, and after a few blocks."""
    faults: int = 0
    """Faults of the version."""


class StoredComparison(Struct, frozen=True, kw_only=True):
    """A comparison as it stands."""

    version: BotVersion
    other: BotVersion
    panel: str
    """The name of the other in the panel; "" is a former version of the same bot."""
    seed: str
    """The text that `compare --seed` takes."""
    state: TaskState
    standing: ComparisonStanding
    cpu_ms: int
    reason: str
    changed_at: int

    @property
    def against(self) -> str:
        """The name of the bot that the version is compared with."""
        return self.panel or f"version {self.other.number}"


class ComparisonLease(Struct, frozen=True, kw_only=True):
    """A comparison of which its owner is to play some blocks now."""

    id: int
    owner: str
    attempt: int
    """The number of the lease, from 1."""
    season: SeasonSettings
    versions: tuple[BotVersion, BotVersion]
    seed: str
    kept: tuple[bytes, ...]
    """The blocks that were played, as JSON, in order."""
    cpu_ms: int
    """The most CPU time to spend."""

    @property
    def label(self) -> str:
        """The comparison's name in messages."""
        return " against ".join(version.label for version in self.versions)
