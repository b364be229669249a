"""The types that are exchanged between the store, workers and front ends.

Invariants: plain values, compared by content; nothing here knows a database, so unpickling one in
a worker loads no SQLAlchemy; times are the database's, in milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from deepsea_ladder.accounts import AuthorState, Role, Scope
from deepsea_ladder.rating.totals import RatingTotals, SeatResult
from deepsea_ladder.rating.trueskill_fold import Rating
from deepsea_ladder.season import Season
from deepsea_ladder.strikes import Conduct

Seating = Sequence[int]
"""The line-up of one game: ids of versions by seat."""
Rotation = Sequence[Seating]
"""Games of the same bots, each in other seats."""


class BotState(StrEnum):
    """Whether games are scheduled for a bot."""

    ACTIVE = "active"
    DISABLED = "disabled"
    """Taken out by the ladder, with the reason; `enable` or a new version brings it back."""
    WITHDRAWN = "withdrawn"
    """Taken out by its author."""


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


class ReceiptStatus(StrEnum):
    """The verdict on a reported result."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    """The job has its result already; nothing changed."""
    REFUSED = "refused"
    """It is not a valid result of this job; only the audit log changed."""


class AuditKind(StrEnum):
    """The kind of an entry of the audit log."""

    SUBMITTED = "submitted"
    WITHDRAWN = "withdrawn"
    DISABLED = "disabled"
    ENABLED = "enabled"
    REFUSED = "refused"
    """A result that is none; the subject is the game."""
    QUARANTINED = "quarantined"
    REQUEUED = "requeued"
    CANCELLED = "cancelled"
    REWRITTEN = "rewritten"
    """The ratings of a season were computed again and replaced."""
    SEASON = "season"
    """A season was opened or closed."""
    AUTHOR = "author"
    """An author came, or has another role, name or state."""
    CODE = "code"
    """A code was made, redeemed or revoked."""
    TOKEN = "token"
    """A token was made or revoked."""
    SESSION = "session"
    """A session of the pages was opened or ended."""
    RESTORED = "restored"
    """The ladder comes from a backup: codes, tokens and sessions of that time have ended."""


class SubmissionState(StrEnum):
    """The state of a submission from afar."""

    QUEUED = "queued"
    """Its archive is there, whole; it waits for a runner."""
    CHECKING = "checking"
    """A runner has a lease to check it."""
    ACCEPTED = "accepted"
    REFUSED = "refused"
    FAILED = "failed"
    """The ladder could not check it, however often it tried."""

    @property
    def is_final(self) -> bool:
        """Whether it stays so."""
        return self not in (SubmissionState.QUEUED, SubmissionState.CHECKING)


class AnalysisState(StrEnum):
    """The state of an analysis of a game."""

    QUEUED = "queued"
    """It waits for a runner."""
    RUNNING = "running"
    """A runner has a lease to do it."""
    DONE = "done"
    FAILED = "failed"
    """It could not be done; it may be asked for again."""

    @property
    def is_final(self) -> bool:
        """Whether it stays so."""
        return self in (AnalysisState.DONE, AnalysisState.FAILED)


@dataclass(frozen=True, slots=True)
class BotVersion:
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


@dataclass(frozen=True, slots=True)
class LadderBot:
    """A bot, with the version that plays."""

    name: str
    author: str
    current: BotVersion
    state: BotState
    reason: str | None
    """Why it is not active."""
    changed_at: int


@dataclass(frozen=True, slots=True)
class StoredSeason:
    """A season in the store."""

    id: int
    season: Season
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
    """The tournament that it was opened for, as its JSON; None for rated games."""
    embargo_until: int | None = None
    """When strangers may see its games and results; None if they always may."""
    submissions_until: int | None = None
    """After it no bots are taken in; None if they always are."""

    @property
    def name(self) -> str:
        """The season's name."""
        return self.season.name


class ClosedSeason(NamedTuple):
    """A season that gets no more games."""

    seed: str | None
    """The season's secret in hex; None as long as games are in play."""
    in_play: int
    """Games that are being played, and count."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSubmission:
    """What an author uploads."""

    author_id: int
    bot: str
    """The bot's name; "" is that of its bot.toml."""
    key: str
    """Chosen by the client: the same one again is the same submission."""
    size: int
    """Of the archive, in bytes."""
    sha256: str
    """Of the archive, in hex."""
    needs_sandbox: bool = True
    """False if it can only come from the ladder's own machine: such a bot may play in a season
    without a sandbox."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A submission from afar as it stands."""

    id: int
    author_id: int
    author: str
    key: str
    bot: str
    """The bot's name; "" as long as only its bot.toml says it."""
    size: int
    sha256: str
    needs_sandbox: bool
    state: SubmissionState
    ahead: int
    """Of one that waits: how many are checked before it."""
    games: int
    """Admission games that were played."""
    of_games: int
    version: int | None
    """The bot's version, if it was accepted."""
    digest: str
    """Of its files; "" before they were read."""
    found: str
    """Why it was not accepted."""
    remedy: str
    error: str
    """The author's part of a traceback."""
    log: tuple[str, ...]
    """The end of its output."""
    created_at: int
    changed_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmissionLease:
    """A submission that its owner is to check now."""

    id: int
    author_id: int
    author: str
    bot: str
    needs_sandbox: bool
    created_at: int
    owner: str
    attempt: int
    """The number of the lease, from 1."""


@dataclass(frozen=True, slots=True)
class SubmissionRefusal:
    """Why a submission is not accepted; the store keeps it in a form that is safe to print."""

    found: str
    remedy: str = ""
    log: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class AnalysisPlan:
    """How a game is analysed; another plan gives another result."""

    policy: str
    """The policy of the roll-outs, with its version."""
    settings: str
    """The settings, as a JSON object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """An analysis of a game as it stands, without what was found."""

    id: int
    game_id: str
    author_id: int | None
    """Who asked for it; None: somebody on the ladder's own machine."""
    author: str
    """The same by name, or ""."""
    state: AnalysisState
    ahead: int
    """Of one that waits: how many are done before it."""
    plan: AnalysisPlan
    """Of one that is done, what it was made by; else what was asked for."""
    reason: str
    """Why it failed, or waits again."""
    created_at: int
    changed_at: int


class GameAnalyses(NamedTuple):
    """What there is of a game."""

    done: Analysis | None
    """The newest one that has a result."""
    last: Analysis | None
    """The one that was asked for last, whatever became of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisLease:
    """An analysis that its owner is to do now."""

    id: int
    game_id: str
    record: str
    settings: str
    owner: str
    attempt: int
    """The number of the lease, from 1."""


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


class BotConduct(NamedTuple):
    """What counts against a bot."""

    bot: str
    conduct: Conduct


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

    @property
    def open(self) -> int:
        """Jobs that will still be played."""
        return self.todo + self.leased + self.expired


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


@dataclass(frozen=True, slots=True)
class RatedVersion:
    """A bot version in a season's standings."""

    version: BotVersion
    tally: RatingTotals
    state: BotState
    """The bot's."""
    reason: str | None
    is_current: bool
    """Whether this is the bot's newest version."""

    def gets_games(self, season: Season) -> bool:
        """Whether it plays in that season."""
        playing = self.is_current or season.pairing.former_versions
        return playing and self.state is BotState.ACTIVE


class AuditEntry(NamedTuple):
    """One line of the audit log."""

    id: int
    at: int
    kind: AuditKind
    subject: str
    note: str
    actor: str = ""
    """Who did it: an author's name, `machine` for the ladder's machine, "" for nobody."""
    address: str = ""
    """From where: the first part of an address."""


@dataclass(frozen=True, slots=True)
class StoredAuthor:
    """An author."""

    id: int
    name: str
    role: Role
    state: AuthorState
    created_at: int
    bots: int
    tokens: int
    """Those that are valid."""


@dataclass(frozen=True, slots=True)
class StoredCode:
    """A code that may be redeemed, without its secret."""

    id: int
    author: str
    """Whom it is for; "" if whoever redeems it chooses a name."""
    created_at: int
    expires_at: int


@dataclass(frozen=True, slots=True)
class StoredToken:
    """A token that is valid, without its secret."""

    id: int
    label: str
    start: str
    """Its first characters."""
    scopes: tuple[Scope, ...]
    created_at: int
    expires_at: int
    last_used: int | None
    """The beginning of the day of its last use."""


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session of the pages that is valid, without its secret."""

    id: int
    address: str
    """The first part of where it was opened from."""
    created_at: int
    expires_at: int


@dataclass(frozen=True, slots=True)
class Credential:
    """What a token or a session proves."""

    author_id: int
    author: str
    role: Role
    scopes: tuple[Scope, ...]
    token_id: int
    """0 for a session."""
    session_id: int
    """0 for a token."""
    expires_at: int
