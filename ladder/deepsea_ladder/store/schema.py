"""The tables of the store, of which every new ladder is made.

Invariants: what was submitted and what was played is written once and never changed (archives,
bot_versions, games, game_seats); floats are stored as `float.hex()`, so that a comparison is of
bits; times are the database's, in milliseconds since 1970.
"""

from __future__ import annotations

import hashlib
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
    allowed,
    forbid_other_values,
)
from deepsea_rules.faults import Fault

LONGEST_ERROR = 16 * 1024
LONGEST_NOTE = 2000
"""Characters of what is noted in words: a reason, an error."""

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
    Column("name_key", _Name, nullable=False, unique=True),  # `name` as names are compared
    Column("role", Choice(Role, attrgetter("word")), nullable=False),
    Column("state", Choice(AuthorState), nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

# Codes, tokens and sessions are known by the SHA-256 of their secret; they are valid until they
# expire or end, and deleted some time after that.
secrets = Table(
    "secrets",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("kind", Choice(SecretKind), nullable=False),
    Column("digest", _Digest, nullable=False, unique=True),
    # None: a code, whose redeemer chooses a name.
    Column("author_id", _Id, ForeignKey("authors.id")),
    # The token of a session, which ends with it.
    Column("token_id", _Id, ForeignKey("secrets.id")),
    Column("scopes", Scopes(), nullable=False),  # a session's are its token's
    Column("label", Text, nullable=False),  # of a token
    Column("start", String(16), nullable=False),  # the first characters of a token
    Column("address", String(64), nullable=False),  # the first part of a session's
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),  # redeemed or revoked
    Column("last_used", BigInteger),  # of a token: the beginning of that day
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
    Column("is_damaged", Boolean, nullable=False),  # whether it was suspended for damaged files
    Column("created_at", BigInteger, nullable=False),
    Column("changed_at", BigInteger, nullable=False),  # when it was submitted, taken out or enabled
    # The last job when it was enabled, of any bot: jobs up to it are no strikes. 0 until then.
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
    # The last job when it was submitted, of any bot; 0 before the first.
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
    Column("tournament", Text),  # what it was opened for, as its JSON
    Column("method", _Name, nullable=False),  # the arithmetic that its ratings were made with
    Column("created_at", BigInteger, nullable=False),
    Column("closed_at", BigInteger),
    # Until then strangers see nothing of it; never changed.
    Column("submissions_until", BigInteger),  # the deadline: after it no bots are taken in
    Column("place", Integer, nullable=False),  # the last one of its chain
    Column("head", _Digest, nullable=False),  # at that place
    Column("paused_at", BigInteger),  # no game is started, until it is none again
    Column("games", Integer, nullable=False),  # those that were played
)

# Authors who may submit until another time than the season's deadline.
extensions = Table(
    "extensions",
    metadata,
    Column("season_id", _Id, ForeignKey("seasons.id"), primary_key=True, autoincrement=False),
    Column("author_id", _Id, ForeignKey("authors.id"), primary_key=True, autoincrement=False),
    Column("until", BigInteger, nullable=False),
)

# Bots that were taken out while a tournament was open: they stay out of it.
tournament_exits = Table(
    "tournament_exits",
    metadata,
    Column("season_id", _Id, ForeignKey("seasons.id"), primary_key=True, autoincrement=False),
    Column("version_id", _Id, ForeignKey("bot_versions.id"), primary_key=True, autoincrement=False),
    Column("after_number", Integer, nullable=False),  # of the last job then; 0 before the first
    Column("place", Integer, nullable=False),  # how many had left before: who left last counts
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("season_id", _Id, ForeignKey("seasons.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("rotation", Integer, nullable=False),  # counted up in the season
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
    # The job's; it stands here so that one index finds a version's jobs of a season.
    Column("season_id", _Id, ForeignKey("seasons.id"), nullable=False),
    Column("version_id", _Id, ForeignKey("bot_versions.id"), nullable=False),
    Index(None, "version_id", "season_id", "job_id"),
)

attempts = Table(
    "attempts",
    metadata,
    Column("job_id", _Id, ForeignKey("jobs.id"), primary_key=True, autoincrement=False),
    Column("attempt", Integer, primary_key=True, autoincrement=False),  # the lease, from 1
    Column("season_id", _Id, ForeignKey("seasons.id"), nullable=False),  # the job's
    Column("owner", Text, nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
    Column("ended", Choice(AttemptEnd)),
    Column("seat", Integer),  # of a void game: who was asked when it became void
    Column("note", Text),
    # Counted up in a season over its games, and its attempts that ended without a result: the
    # order in which outsiders see them.
    Column("place", Integer),
    Column("head", _Digest),  # of the season's chain, where there is a place
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
    # Counted up by the writer, without gaps: the order in which games are rated.
    Column("seq", _Id, primary_key=True, autoincrement=False),
    Column("job_id", _Id, ForeignKey("jobs.id"), nullable=False, unique=True),
    Column("season_id", _Id, ForeignKey("seasons.id"), nullable=False),
    Column("game_id", String(80), nullable=False, unique=True),
    Column("attempt", Integer, nullable=False),  # the lease that it was played under
    Column("place", Integer, nullable=False),  # as that of an attempt without a result
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
    # The game's; it stands here so that one index finds a version's games of a season.
    Column("season_id", _Id, ForeignKey("seasons.id"), nullable=False),
    Column("version_id", _Id, ForeignKey("bot_versions.id"), nullable=False),
    Column("points", Integer, nullable=False),
    Column("placement", Integer, nullable=False),
    Column("decisions", Integer, nullable=False),
    Column("faults", Integer, nullable=False),
    Column("forfeit", Choice(Fault)),
    Column("mu", _Hex, nullable=False),  # after the game
    Column("sigma", _Hex, nullable=False),
    Column("number", Integer, nullable=False),  # of the version's games
    Index(None, "version_id", "season_id", "seq"),
)


def faulty(seats: FromClause) -> ColumnElement[bool]:
    """Seats with faults. With a literal: SQLite uses a partial index for its very words alone."""
    return seats.c.faults > text("0")


FAULTY = faulty(game_seats)
Index(
    "ix_game_seats_faulty",
    game_seats.c.version_id,
    game_seats.c.season_id,
    game_seats.c.seq,
    sqlite_where=FAULTY,
)
Index("ix_game_seats_faulty_seq", game_seats.c.seq, sqlite_where=FAULTY)
EVERY = 8
IS_EIGHTH = game_seats.c.number.op("&")(text("7")) == text("0")
"""Every eighth game of a version, from which its course is drawn; with literals, as above."""
Index(
    "ix_game_seats_eighth",
    game_seats.c.version_id,
    game_seats.c.season_id,
    game_seats.c.number,
    sqlite_where=IS_EIGHTH,
)

# Sums over a season's games: of two versions at one table, the first has the smaller id, and of a
# version at tables of one size in one seat.
pair_sums = Table(
    "pair_sums",
    metadata,
    Column("season_id", _Id, ForeignKey("seasons.id"), primary_key=True, autoincrement=False),
    Column("version_id", _Id, ForeignKey("bot_versions.id"), primary_key=True, autoincrement=False),
    Column("other_id", _Id, ForeignKey("bot_versions.id"), primary_key=True, autoincrement=False),
    Column("games", Integer, nullable=False),
    Column("better", Integer, nullable=False),  # games in which the first was placed before
    Column("level", Integer, nullable=False),
    Index(None, "other_id", "season_id"),
)

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
    Column("halves", BigInteger, nullable=False),  # others it was ahead of, twice; level once
)

# What bots left of games with faults of their own, and noted in others; of each bot's newest ones.
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
    Column("bot", _Name, nullable=False),  # as its author called it; "" is as bot.toml does
    Column("size", BigInteger, nullable=False),  # of the archive
    Column("sha256", _Digest, nullable=False),
    Column("needs_sandbox", Boolean, nullable=False),  # whether it came from where strangers can
    Column("by_machine", Boolean, nullable=False),  # by a command on the ladder's machine
    Column("games", Integer, nullable=False),  # admission games that were played
    Column("of_games", Integer, nullable=False),
    Column("took_ms", BigInteger, nullable=False),  # all its checks together
    Column("version", Integer),  # of the bot, where it was accepted
    Column("digest", _Digest),  # of the files, where they were read
    Column("found", Text),
    Column("remedy", Text),
    Column("error", Text),
    Column("log", Text),  # a list of lines, as JSON
    Column("created_at", BigInteger, nullable=False),
    UniqueConstraint("author_id", "key"),
    Index(None, "author_id", "created_at"),
)

# The archives of submissions that wait or are being checked, in pieces: the front must not hold a
# whole one in memory.
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
    Column("season_id", _Id, ForeignKey("seasons.id"), nullable=False),  # of its bots
    Column("author_id", _Id, ForeignKey("authors.id")),  # none: a visitor
    Column("visitor", _Digest),  # SHA-256 of the visitor's cookie
    Column("address", String(64), nullable=False),  # the first part of it
    Column("rules", _Name, nullable=False),  # a preset
    Column("seed", _Digest, nullable=False),  # a secret until the game is over
    Column("seat", Integer, nullable=False),  # the person's
    Column("presence", Choice(Presence), nullable=False),  # whether the person decides
    Column("decisions", Text, nullable=False),  # all that were made, as JSON
    Column("answer", Text),  # the person's next action; "" is the default one
    Column("created_at", BigInteger, nullable=False),
    Column("record", Text),  # of a finished one
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

# What was asked for and what was found, by game; each asking that was not for the same is a row.
analyses = Table(
    "analyses",
    metadata,
    Column("id", _Id, primary_key=True),
    # One of the two: a rated game, or one of a person.
    Column("seq", _Id, ForeignKey("games.seq")),
    Column("person_game_id", _Id, ForeignKey("person_games.id")),
    Column("author_id", _Id, ForeignKey("authors.id")),  # none: asked on the ladder's machine
    Column("policy", _Name, nullable=False),  # with its version
    Column("settings", Text, nullable=False),  # as JSON
    Column("created_at", BigInteger, nullable=False),
    # zlib of JSON. The last column: SQLite reads past what is large to find what is behind it.
    Column("document", LargeBinary),
    Index(None, "seq", "id"),
    Index(None, "person_game_id", "id"),
    Index(None, "author_id", "created_at"),
)

# Versions against others on common luck: never rated, and in no chain.
comparisons = Table(
    "comparisons",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("season_id", _Id, ForeignKey("seasons.id"), nullable=False),  # whose settings they have
    Column("author_id", _Id, ForeignKey("authors.id"), nullable=False),  # the version's
    Column("version_id", _Id, ForeignKey("bot_versions.id"), nullable=False),
    Column("other_id", _Id, ForeignKey("bot_versions.id"), nullable=False),
    Column("panel", _Name, nullable=False),  # the other's name in the panel; "" is a former version
    Column("seed", _Digest, nullable=False),  # the text that `compare --seed` takes
    Column("cpu_ms", BigInteger, nullable=False),  # of all its blocks
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

# The states of runners' tasks. Each kind's own table has the request and the result.
tasks = Table(
    "tasks",
    metadata,
    Column("kind", Choice(TaskKind), primary_key=True),
    Column("subject", _Id, primary_key=True, autoincrement=False),  # the id in the kind's table
    Column("season_id", _Id, ForeignKey("seasons.id")),  # of a game
    Column("priority", Integer, nullable=False),  # of a game: its shift; small ones first
    Column("author_id", _Id, ForeignKey("authors.id")),  # none: a game, a visitor, the machine
    Column("state", StateOfKind(), nullable=False),
    Column("attempt", Integer, nullable=False),  # the number of leases until now
    # Those that ended without a result; of a step and a comparison, in a row.
    Column("failures", Integer, nullable=False),
    Column("owner", Text),  # of the lease
    # When the lease expires; of a person who was asked, when the default action is played.
    Column("until", BigInteger),
    Column("began_at", BigInteger),  # the last attempt
    Column("words", Text),  # what went wrong last, or why it ended
    Column("created_at", BigInteger, nullable=False),
    Column("changed_at", BigInteger, nullable=False),
    # Counted up over all changes of a kind: what readers compare.
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

# Runners that do nothing on purpose: without a lease they would count as lost.
rests = Table(
    "rests",
    metadata,
    Column("owner", Text, primary_key=True),  # as that of leases
    Column("until", BigInteger, nullable=False),  # as that of a lease
    Column("words", Text, nullable=False),  # why
)

# What an operator has changed; a setting that is not here has its default.
settings = Table(
    "settings",
    metadata,
    Column("name", _Name, primary_key=True),
    Column("value", BigInteger, nullable=False),
)

audit = Table(
    "audit",
    metadata,
    Column("id", _Id, primary_key=True),
    Column("at", BigInteger, nullable=False),
    Column("kind", Choice(AuditKind), nullable=False),
    Column("subject", Text, nullable=False),  # "": the author
    Column("note", Text, nullable=False),
    Column("author_id", _Id, ForeignKey("authors.id")),  # whom it is about
    Column("actor_id", _Id, ForeignKey("authors.id")),  # the author who did it
    Column("actor", _Name, nullable=False),  # who did it, if that is no author
    Column("address", String(64), nullable=False),  # the first part of where it came from
    Index(None, "author_id", "id"),
    Index(None, "actor_id", "id"),
)


forbid_other_values(metadata)


def create_tables(connection: Connection) -> None:
    """Create every table, and every index, in an empty database."""
    if connection.dialect.name == "postgresql":
        # Named with the indexes, it would import that dialect: a tenth of a short command's time.
        for table in metadata.tables.values():
            for index in table.indexes:
                where = index.dialect_options["sqlite"]["where"]
                index.dialect_options["postgresql"]["where"] = where
    for table in metadata.sorted_tables:
        connection.execute(CreateTable(table))
        # Of two indexes that fit alike SQLite takes the one that was made last: that is the one
        # with a condition, which has fewer rows.
        for index in sorted(table.indexes, key=_condition_and_name):
            connection.execute(CreateIndex(index))


def _condition_and_name(index: Index) -> tuple[bool, str]:
    has_condition = index.dialect_options["sqlite"]["where"] is not None
    return has_condition, str(index.name)


def _digest() -> str:
    """Digest of all columns with their types, so that other tables have another revision."""
    columns = [
        f"{column}: {type(column.type).__name__} {column.nullable} {allowed(column)}"
        for table in metadata.tables.values()
        for column in table.columns
    ]
    return hashlib.sha256("\n".join(columns).encode()).hexdigest()[:8]


REVISION = f"0001_{_digest()}"
"""The revision of these tables. Before the first release a ladder of other tables is refused; the
first release sets "0001", and each later schema has a script in `migrations/` and its number."""
