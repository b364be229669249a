"""The tables of the store.

Invariants: submitted files and played games are written once and never changed (archives,
bot_versions, games, game_seats); floats are stored as `float.hex()`, so that equal texts are equal
bits; times are those of the database's clock, in milliseconds since 1970.
"""

from __future__ import annotations

from operator import attrgetter

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    ForeignKey,
    FromClause,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.schema import CreateIndex, CreateTable

from deepsea_ladder.accounts import AuditKind, AuthorState, Role, SecretKind
from deepsea_ladder.model import AttemptEnd, BotState, Presence, TaskKind
from deepsea_ladder.store.columns import (
    Choice,
    HexFloat,
    Record,
    Scopes,
    StateOfKind,
    forbid_other_values,
)
from deepsea_rules.faults import Fault

LONGEST_ERROR = 16 * 1024
"""Characters of the error output of a bot."""
LONGEST_NOTE = 2000
"""Characters of a sentence, such as a reason or a remedy."""

_Id = BigInteger()
_Hex = HexFloat()
_Name = String(40)
_Digest = String(64)


metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

authors = Table(
    "authors",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("name", _Name, nullable=False),
    Column("name_key", _Name, nullable=False, unique=True),  # the form in which names are compared
    Column("role", Choice(Role, attrgetter("word")), nullable=False),
    Column("state", Choice(AuthorState), nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

# Codes, tokens and sessions, by the SHA-256 of their secret. They are valid until they expire or
# end, and are deleted some time after that.
secrets = Table(
    "secrets",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("kind", Choice(SecretKind), nullable=False),
    Column("digest", _Digest, nullable=False, unique=True),
    # NULL for a code that anybody may redeem under a new name.
    Column("author_id", _Id, ForeignKey("authors.id")),
    # Of a session: the token that it was opened with, and with which it ends.
    Column("token_id", _Id, ForeignKey("secrets.id")),
    Column("scopes", Scopes(), nullable=False),  # a session has those of its token
    Column("label", Text, nullable=False),  # of a token
    Column("start", String(16), nullable=False),  # the first characters of a token
    # Of a session: the first part of the caller's address.
    Column("address", String(64), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),  # redeemed or revoked
    Column("last_used", BigInteger),  # of a token: the beginning of the last day of use
    Index(None, "author_id"),
    Index(None, "token_id"),
)

bots = Table(
    "bots",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("author_id", _Id, ForeignKey("authors.id"), nullable=False),
    Column("name", _Name, nullable=False),
    Column("name_key", _Name, nullable=False, unique=True),
    Column("version", Integer, nullable=False),  # the number of the version that plays
    Column("state", Choice(BotState), nullable=False),
    Column("reason", Text),  # why it is not active
    Column("is_damaged", Boolean, nullable=False),  # suspended since its stored files are damaged
    Column("created_at", BigInteger, nullable=False),
    # The last time it was submitted, taken out or enabled.
    Column("changed_at", BigInteger, nullable=False),
    # The newest job of any bot when this one was last enabled: jobs up to it are no strikes. 0 for
    # a bot that was never enabled.
    Column("pardoned_job", _Id, nullable=False),
    Index(None, "author_id"),
)

archives = Table(
    "archives",
    metadata,
    Column("digest", _Digest, primary_key=True),  # of the files, not of the packed bytes
    Column("content", LargeBinary, nullable=False),  # zlib of the packed files
)

bot_versions = Table(
    "bot_versions",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("bot_id", _Id, ForeignKey("bots.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("digest", _Digest, ForeignKey("archives.digest"), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    # The newest job of any bot when this version was submitted; 0 before the first job.
    Column("after_job", _Id, nullable=False),
    UniqueConstraint("bot_id", "number"),
)

seasons = Table(
    "seasons",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("name", _Name, nullable=False, unique=True),
    Column("settings", Text, nullable=False),
    Column("seed", _Digest, nullable=False),  # a secret until the season is closed
    Column("tournament", Text),  # the request for its tournament, as JSON; NULL for rated games
    Column("method", _Name, nullable=False),  # the name of the method that computes its ratings
    Column("created_at", BigInteger, nullable=False),
    Column("closed_at", BigInteger),
    Column("submissions_until", BigInteger),  # the deadline for bots; NULL for none
    Column("place", Integer, nullable=False),  # of the last link in its chain
    Column("head", _Digest, nullable=False),  # of the chain at that place
    Column("paused_at", BigInteger),  # no game is started as long as this is set
    Column("games", Integer, nullable=False),  # the number of played games
)

# Later deadlines of single authors.
extensions = Table(
    "extensions",
    metadata,
    Column("season_id", _Id, ForeignKey("seasons.id"), primary_key=True, autoincrement=False),
    Column("author_id", _Id, ForeignKey("authors.id"), primary_key=True, autoincrement=False),
    Column("until", BigInteger, nullable=False),
)

# Bots that were taken out during a tournament, which they do not join again.
tournament_exits = Table(
    "tournament_exits",
    metadata,
    Column("season_id", _Id, ForeignKey("seasons.id"), primary_key=True, autoincrement=False),
    Column("version_id", _Id, ForeignKey("bot_versions.id"), primary_key=True, autoincrement=False),
    # Of the newest job at that time; 0 before the first job.
    Column("after_number", Integer, nullable=False),
    # The number of bots that had left before.
    Column("place", Integer, nullable=False),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("season_id", _Id, ForeignKey("seasons.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("rotation", Integer, nullable=False),  # numbered within the season
    Column("shift", Integer, nullable=False),  # which game of its rotation, from 0
    Column("game_id", String(80), nullable=False, unique=True),
    UniqueConstraint("season_id", "number"),
    UniqueConstraint("season_id", "rotation", "shift"),
    Index(None, "season_id", "id", "rotation"),
)

job_seats = Table(
    "job_seats",
    metadata,
    Column("job_id", _Id, ForeignKey("jobs.id"), primary_key=True, autoincrement=False),
    Column("seat", Integer, primary_key=True, autoincrement=False),
    # That of the job, repeated here so that one index has the jobs of a version in a season.
    Column("season_id", _Id, ForeignKey("seasons.id"), nullable=False),
    Column("version_id", _Id, ForeignKey("bot_versions.id"), nullable=False),
    Index(None, "version_id", "season_id", "job_id"),
)

attempts = Table(
    "attempts",
    metadata,
    Column("job_id", _Id, ForeignKey("jobs.id"), primary_key=True, autoincrement=False),
    # The number of the lease, from 1.
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    Column("season_id", _Id, ForeignKey("seasons.id"), nullable=False),  # that of the job
    Column("owner", Text, nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
    Column("ended", Choice(AttemptEnd)),
    Column("seat", Integer),  # of a void game: the seat whose decision was due
    Column("note", Text),
    # The place in the season's chain. Its links are games and attempts that ended without a result.
    Column("place", Integer),
    Column("head", _Digest),  # of the chain at that place
    UniqueConstraint("season_id", "place"),
)
Index(
    "ix_attempts_void",
    attempts.c.season_id,
    attempts.c.job_id,
    attempts.c.seat,
    sqlite_where=attempts.c.seat.is_not(None),
)

games = Table(
    "games",
    metadata,
    # Numbered without gaps in the order in which games were stored, and are rated.
    Column("seq", _Id, primary_key=True, autoincrement=False),
    Column("job_id", _Id, ForeignKey("jobs.id"), nullable=False, unique=True),
    Column("season_id", _Id, ForeignKey("seasons.id"), nullable=False),
    Column("game_id", String(80), nullable=False, unique=True),
    Column("attempt", Integer, nullable=False),  # the number of the lease under which it was played
    Column("place", Integer, nullable=False),  # in the season's chain, as in attempts
    Column("head", _Digest, nullable=False),
    Column("played_at", BigInteger, nullable=False),
    Column("record", Record, nullable=False),
    UniqueConstraint("season_id", "place"),
    Index(None, "season_id", "seq"),
)

game_seats = Table(
    "game_seats",
    metadata,
    Column("seq", _Id, ForeignKey("games.seq"), primary_key=True, autoincrement=False),
    Column("seat", Integer, primary_key=True, autoincrement=False),
    # That of the game, repeated here so that one index has the games of a version in a season.
    Column("season_id", _Id, ForeignKey("seasons.id"), nullable=False),
    Column("version_id", _Id, ForeignKey("bot_versions.id"), nullable=False),
    Column("points", Integer, nullable=False),
    Column("placement", Integer, nullable=False),
    Column("decisions", Integer, nullable=False),
    Column("faults", Integer, nullable=False),
    Column("forfeit", Choice(Fault)),
    Column("mu", _Hex, nullable=False),  # the rating after the game
    Column("sigma", _Hex, nullable=False),
    Column("number", Integer, nullable=False),  # counts the games of the version in the season
    Index(None, "version_id", "season_id", "seq"),
)


def has_faults(seats: FromClause) -> ColumnElement[bool]:
    """Return the condition of seats with faults.

    The 0 is a literal, since SQLite uses a partial index only for a condition in the same words.
    """
    return seats.c.faults > text("0")


HAS_FAULTS = has_faults(game_seats)
Index(
    "ix_game_seats_faulty",
    game_seats.c.version_id,
    game_seats.c.season_id,
    game_seats.c.seq,
    sqlite_where=HAS_FAULTS,
)
Index("ix_game_seats_faulty_seq", game_seats.c.seq, sqlite_where=HAS_FAULTS)
COURSE_STEP = 8
"""Games of a version between two points of its course, where these have an index of their own."""
IS_EIGHTH = game_seats.c.number.op("&")(text("7")) == text("0")
"""The condition of each eighth game of a version: number & 7 is number % 8.

The numbers are literals, since SQLite uses a partial index only for a condition in the same words.
"""
Index(
    "ix_game_seats_eighth",
    game_seats.c.version_id,
    game_seats.c.season_id,
    game_seats.c.number,
    sqlite_where=IS_EIGHTH,
)

# Sums over the games of a season in which two versions met. The first one has the smaller id.
pair_sums = Table(
    "pair_sums",
    metadata,
    Column("season_id", _Id, ForeignKey("seasons.id"), primary_key=True, autoincrement=False),
    Column("version_id", _Id, ForeignKey("bot_versions.id"), primary_key=True, autoincrement=False),
    Column("other_id", _Id, ForeignKey("bot_versions.id"), primary_key=True, autoincrement=False),
    Column("games", Integer, nullable=False),
    # Games in which the first version was ahead of the other.
    Column("better", Integer, nullable=False),
    Column("level", Integer, nullable=False),  # games in which they shared a placement
    Index(None, "other_id", "season_id"),
)

# Sums over the games of a season that a version played in one seat of tables of one size.
seat_sums = Table(
    "seat_sums",
    metadata,
    Column("season_id", _Id, ForeignKey("seasons.id"), primary_key=True, autoincrement=False),
    Column("version_id", _Id, ForeignKey("bot_versions.id"), primary_key=True, autoincrement=False),
    Column("players", Integer, primary_key=True, autoincrement=False),
    Column("seat", Integer, primary_key=True, autoincrement=False),
    Column("games", Integer, nullable=False),
    Column("wins", Integer, nullable=False),
    Column("placements", BigInteger, nullable=False),
    Column("points", BigInteger, nullable=False),
    Column("faults", Integer, nullable=False),
    Column("faulty", Integer, nullable=False),  # games with faults
    # 2 for each seat that it was ahead of, 1 for a shared placement.
    Column("halves", BigInteger, nullable=False),
)

# Errors and output of bots in games with faults of their own, and their notes in other games. Only
# those of the newest games of each bot are stored.
game_logs = Table(
    "game_logs",
    metadata,
    Column("seq", _Id, ForeignKey("games.seq"), primary_key=True, autoincrement=False),
    Column("seat", Integer, primary_key=True, autoincrement=False),
    Column("bot_id", _Id, ForeignKey("bots.id"), nullable=False),
    Column("content", LargeBinary, nullable=False),  # zlib of JSON: error, output, notes
    Index(None, "bot_id", "seq"),
)

ratings = Table(
    "ratings",
    metadata,
    Column("season_id", _Id, ForeignKey("seasons.id"), primary_key=True, autoincrement=False),
    Column("version_id", _Id, ForeignKey("bot_versions.id"), primary_key=True, autoincrement=False),
    Column("mu", _Hex, nullable=False),
    Column("sigma", _Hex, nullable=False),
    Column("games", Integer, nullable=False),
    Column("wins", Integer, nullable=False),  # first places, shared ones too
    Column("placements", BigInteger, nullable=False),  # sums over its games
    Column("points", BigInteger, nullable=False),
    Column("decisions", BigInteger, nullable=False),
    Column("faults", Integer, nullable=False),
    Column("forfeits", Integer, nullable=False),
    Column("last_seq", _Id, nullable=False),
    Column("last_at", BigInteger, nullable=False),
)

submissions = Table(
    "submissions",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("author_id", _Id, ForeignKey("authors.id"), nullable=False),
    Column("key", String(64), nullable=False),  # the client's; it makes a retry the same submission
    # The name that the author gave; "" stands for the one in bot.toml.
    Column("bot", _Name, nullable=False),
    Column("size", BigInteger, nullable=False),  # of the archive
    Column("sha256", _Digest, nullable=False),
    Column("needs_sandbox", Boolean, nullable=False),  # it may come from a stranger
    Column("by_machine", Boolean, nullable=False),  # submitted by a command on the ladder's machine
    Column("games", Integer, nullable=False),  # admission games that were played so far
    Column("of_games", Integer, nullable=False),  # all admission games
    Column("took_ms", BigInteger, nullable=False),  # the time for all its checks
    Column("version", Integer),  # the number of the bot's version, once accepted
    Column("digest", _Digest),  # of the files, once they were read
    Column("found", Text),  # the reason of a refusal
    Column("remedy", Text),  # how the author can fix it
    Column("error", Text),  # the error output of the bot
    Column("log", Text),  # a list of lines, as JSON
    Column("created_at", BigInteger, nullable=False),
    UniqueConstraint("author_id", "key"),
    Index(None, "author_id", "created_at"),
)

# The archives of submissions that wait or are being checked, in parts, so that a front never holds
# a whole one in memory.
submission_parts = Table(
    "submission_parts",
    metadata,
    Column(
        "submission_id", _Id, ForeignKey("submissions.id"), primary_key=True, autoincrement=False
    ),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("content", LargeBinary, nullable=False),
)

# Games of people against bots: never rated, and in no chain.
person_games = Table(
    "person_games",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("game_id", String(80), nullable=False, unique=True),
    Column("season_id", _Id, ForeignKey("seasons.id"), nullable=False),  # the season of its bots
    Column("author_id", _Id, ForeignKey("authors.id")),  # NULL for a visitor
    Column("visitor", _Digest),  # the SHA-256 of a visitor's cookie
    Column("address", String(64), nullable=False),  # the first part of the person's address
    Column("rules", _Name, nullable=False),  # a preset
    Column("seed", _Digest, nullable=False),  # a secret until the game is over
    Column("seat", Integer, nullable=False),  # the person's
    Column("presence", Choice(Presence), nullable=False),  # if the person still decides
    Column("decisions", Text, nullable=False),  # those made so far, as JSON
    Column("answer", Text),  # the person's next action; "" is the default one
    Column("created_at", BigInteger, nullable=False),
    Column("record", Text),  # of a finished game
    Index(None, "author_id", "created_at"),
    Index(None, "address", "created_at"),
)

person_game_seats = Table(
    "person_game_seats",
    metadata,
    Column(
        "person_game_id", _Id, ForeignKey("person_games.id"), primary_key=True, autoincrement=False
    ),
    Column("seat", Integer, primary_key=True, autoincrement=False),  # all but the person's
    Column("version_id", _Id, ForeignKey("bot_versions.id"), nullable=False),
)

# Requested and finished analyses of games. A request that repeats another one has no row.
analyses = Table(
    "analyses",
    metadata,
    Column("id", _Id, primary_key=True),
    # Either a rated game or one of a person; the other column is NULL.
    Column("seq", _Id, ForeignKey("games.seq")),
    Column("person_game_id", _Id, ForeignKey("person_games.id")),
    # NULL for a request on the ladder's machine.
    Column("author_id", _Id, ForeignKey("authors.id")),
    Column("policy", _Name, nullable=False),  # the name of the policy with its version
    Column("settings", Text, nullable=False),  # as JSON
    Column("created_at", BigInteger, nullable=False),
    # The result: zlib of JSON. It is the last column, since SQLite has to read through a large
    # value to find the columns behind it.
    Column("document", LargeBinary),
    Index(None, "seq", "id"),
    Index(None, "person_game_id", "id"),
    Index(None, "author_id", "created_at"),
)

# Comparisons of versions with others on common luck: never rated, and in no chain.
comparisons = Table(
    "comparisons",
    metadata,
    Column("id", _Id, primary_key=True),
    # The season whose settings hold.
    Column("season_id", _Id, ForeignKey("seasons.id"), nullable=False),
    Column("author_id", _Id, ForeignKey("authors.id"), nullable=False),  # the author of the version
    Column("version_id", _Id, ForeignKey("bot_versions.id"), nullable=False),
    Column("other_id", _Id, ForeignKey("bot_versions.id"), nullable=False),
    # The opponent's name there; "" for the bot's former version.
    Column("panel", _Name, nullable=False),
    Column("seed", _Digest, nullable=False),  # the text that `compare --seed` takes
    Column("cpu_ms", BigInteger, nullable=False),  # used for all its blocks
    Column("standing", Text, nullable=False),  # after the last block, as JSON
    UniqueConstraint("version_id", "season_id", "panel"),
    Index(None, "season_id", "id"),
)

comparison_blocks = Table(
    "comparison_blocks",
    metadata,
    Column(
        "comparison_id", _Id, ForeignKey("comparisons.id"), primary_key=True, autoincrement=False
    ),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("at", BigInteger, nullable=False),
    Column("cpu_ms", Integer, nullable=False),
    Column("content", LargeBinary, nullable=False),  # zlib of JSON: results and luck, no records
    Index(None, "at"),
)

# The states of tasks for runners. Each kind has a table of its own with the request and the result.
tasks = Table(
    "tasks",
    metadata,
    Column("kind", Choice(TaskKind), primary_key=True),
    # The id in the table of the kind.
    Column("subject", _Id, primary_key=True, autoincrement=False),
    Column("season_id", _Id, ForeignKey("seasons.id")),  # of a game
    Column("priority", Integer, nullable=False),  # of a game: its shift; smaller ones come first
    # NULL for a game, a visitor or the ladder's machine.
    Column("author_id", _Id, ForeignKey("authors.id")),
    Column("state", StateOfKind(), nullable=False),
    Column("attempt", Integer, nullable=False),  # the number of leases so far
    # Leases that ended without a result; of a step or a comparison those since the last result.
    Column("failures", Integer, nullable=False),
    Column("owner", Text),  # of the lease: the runner
    # When the lease expires. If a person has to decide: when the default action is played instead.
    Column("until", BigInteger),
    Column("began_at", BigInteger),  # when the last attempt began
    Column("words", Text),  # the last failure, or why the task has ended
    Column("created_at", BigInteger, nullable=False),
    Column("changed_at", BigInteger, nullable=False),
    # The number of the last change, counted over all tasks of the kind. Readers compare it.
    Column("change", BigInteger, nullable=False),
    Index(None, "kind", "state", "season_id", "priority", "subject"),
    Index(None, "kind", "change"),
)
Index(
    "ix_tasks_began",
    tasks.c.kind,
    tasks.c.author_id,
    tasks.c.began_at,
    sqlite_where=tasks.c.author_id.is_not(None),
)

# Runners that pause on purpose and hold no lease, so that they do not count as lost.
rests = Table(
    "rests",
    metadata,
    Column("owner", Text, primary_key=True),  # the name of the runner, as in leases
    # When it counts as lost, unless it has a lease by then.
    Column("until", BigInteger, nullable=False),
    Column("words", Text, nullable=False),  # the reason
)

# Settings that an operator has changed. Others have their defaults.
settings = Table(
    "settings",
    metadata,
    Column("name", _Name, primary_key=True),
    Column("value", BigInteger, nullable=False),
)

# The audit log.
audit = Table(
    "audit",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("kind", Choice(AuditKind), nullable=False),
    Column("subject", Text, nullable=False),  # "" stands for the author
    Column("note", Text, nullable=False),
    Column("author_id", _Id, ForeignKey("authors.id")),  # the author whom the entry is about
    Column("actor_id", _Id, ForeignKey("authors.id")),  # the author who made the change
    Column("actor", _Name, nullable=False),  # the name of one who is no author
    Column("address", String(64), nullable=False),  # the first part of the caller's address
    Index(None, "author_id", "id"),
    Index(None, "actor_id", "id"),
)


forbid_other_values(metadata)


def create_tables(connection: Connection) -> None:
    """Create all tables and indexes in an empty database."""
    if connection.dialect.name == "postgresql":
        # Indexes are declared with conditions for SQLite alone, which are copied here. To declare
        # them for PostgreSQL, too, would import its dialect in each command, which takes a tenth
        # of the time of a short one.
        for table in metadata.tables.values():
            for index in table.indexes:
                where = index.dialect_options["sqlite"]["where"]
                index.dialect_options["postgresql"]["where"] = where
    for table in metadata.sorted_tables:
        connection.execute(CreateTable(table))
        # Of two indexes that fit a query equally, SQLite uses the newer one. So partial indexes are
        # created last, since they have fewer rows.
        for index in sorted(table.indexes, key=_condition_and_name):
            connection.execute(CreateIndex(index))


def _condition_and_name(index: Index) -> tuple[bool, str]:
    """Return the key by which indexes are sorted: those with a condition last, then by name."""
    has_condition = index.dialect_options["sqlite"]["where"] is not None
    return has_condition, str(index.name)


REVISION = "r0001"
"""The revision of these tables.

Tables that were released never change under the same revision: each later schema gets the next
number and a script in `migrations/`.
"""
