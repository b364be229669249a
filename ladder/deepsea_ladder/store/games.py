"""Results of games, and the logs of bots in them, as they come into the store.

Start reading at `Games.report`.

Invariants: the store plays a record again before it accepts it, and stores it in its own notation;
the game, its ratings and the end of its job are one transaction; the first valid result of a job is
its result, every other one changes nothing; refusals are in the audit log. A log has a bot's
errors, output and notes. It is stored after the game's result, and a failure to store it does not
touch the result; only the newest games of each bot keep their logs.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection, Row, and_, bindparam, delete, exists, insert, select

from deepsea_ladder.accounts import AuditKind
from deepsea_ladder.bot_states import RetryPolicy
from deepsea_ladder.chain import game_line
from deepsea_ladder.errors import StoreDamaged, StoreError
from deepsea_ladder.model import (
    AttemptEnd,
    BotVersion,
    GameLine,
    GameNote,
    Int64,
    Job,
    Receipt,
    ReceiptStatus,
    SeatLog,
    StoredGame,
    StoredSeason,
    TaskState,
    utc_time,
)
from deepsea_ladder.rating import METHOD, after_game, seat_results
from deepsea_ladder.store import schema
from deepsea_ladder.store.audit import add_link, last_link, note
from deepsea_ladder.store.bots import suspend_strikers
from deepsea_ladder.store.database import Database, StorePart, now
from deepsea_ladder.store.history import game_seat, last_seq, no_such_game, versions_of
from deepsea_ladder.store.jobs import Jobs
from deepsea_ladder.store.seasons import season_and_seed
from deepsea_ladder.store.sums import add_sums, read_tallies, write_tallies
from deepsea_ladder.store.tasks import GAMES, end_attempt
from deepsea_rules.errors import InvalidRecord
from deepsea_rules.game import GameRecord, verify
from deepsea_rules.printable import quoted
from deepsea_rules.randomness import game_seed

_logs, _games, _seats = schema.game_logs, schema.games, schema.game_seats
_LONGEST_RECORD = 1 << 20
"""The largest number of characters of a record that is accepted."""
_jobs, _tasks = schema.jobs.c, schema.tasks
_TASK_OF_JOB = (
    select(_tasks, _jobs.number, _jobs.game_id)
    .join(schema.jobs, _jobs.id == _tasks.c.subject)
    .where(GAMES.is_of_kind, _tasks.c.subject == bindparam("job"))
)
_CLOSED_AT = select(schema.seasons.c.closed_at).where(schema.seasons.c.id == bindparam("season"))
_OWNER_OF_ATTEMPT = select(schema.attempts.c.owner).where(
    schema.attempts.c.job_id == bindparam("job"),
    schema.attempts.c.attempt == bindparam("lease"),
)
_RECORD_OF_PERSON_GAME = select(schema.person_games.c.record).where(
    schema.person_games.c.game_id == bindparam("game")
)
_INSERT_GAME = insert(_games)
_INSERT_SEATS = insert(_seats)


class Games(StorePart):
    """The store's part for the results of games."""

    def __init__(self, database: Database, policy: RetryPolicy, jobs: Jobs) -> None:
        super().__init__(database, policy)
        self._jobs = jobs

    def report(self, job: Job, text: str, machine: str = "") -> Receipt:
        """Check and store the record of a job's game. It is safe to call again after an error.

        An invalid record is refused: only the audit log changes, and the lease ends. The game in
        `job` is not trusted but compared with the stored job.

        text     the record, as JSON
        machine  the machine that played the game, which a refusal names; "" for the reporter's own
        Raises `StoreError` if the season was rated by another arithmetic than this program's.
        """
        with self._database.read() as connection:
            task = _task_of_job(connection, job.id)
            season, season_seed = season_and_seed(connection, task.season_id)
            seed = game_seed(season_seed, task.number, job.attempt - 1)
            lineup = versions_of(connection, task.subject)
            parameters = {"job": job.id, "lease": job.attempt}
            owner = connection.execute(_OWNER_OF_ATTEMPT, parameters).scalar()
        if season.method != METHOD:
            raise StoreError(
                f"season {season.name!r} was rated by {season.method}, this program rates by "
                f"{METHOD}: compute the season's ratings again with `ladder refold --rewrite`"
            )
        try:
            if owner != job.owner:
                raise _InvalidResult(f"{job.owner} never had the lease {job.attempt} of this job")
            # Outside of the transaction: playing it again would keep other writers waiting.
            record, own_text = _check_record(text, task.game_id, season, seed, lineup)
            with self._database.write() as connection:
                return self._store_result(connection, job, season, record, own_text, lineup)
        except _InvalidResult as refusal:
            prefix = f"played by {machine}: " if machine else ""
            is_late = isinstance(refusal, _LateResult)
            return self._refuse_result(job, text, f"{prefix}{refusal}", is_late=is_late)

    def _store_result(
        self,
        connection: Connection,
        job: Job,
        season: StoredSeason,
        record: GameRecord,
        record_text: str,
        lineup: Sequence[BotVersion],
    ) -> Receipt:
        """Store a checked record with all that follows from it, in a transaction of the caller.

        That is the game with its place in the chain, ratings and sums, the end of the job, and the
        suspension of bots with too many faults. If the job has a result already, only the attempt
        ends. Raises `_LateResult` if the season was closed, or its tournament went on meanwhile.

        record_text  the record in the store's own notation
        """
        task = _task_of_job(connection, job.id)
        if task.state is TaskState.DONE:
            query = select(_games.c.seq).where(_games.c.job_id == job.id)
            end_attempt(connection, task, job.attempt, AttemptEnd.DUPLICATE, None, now(connection))
            return Receipt(ReceiptStatus.DUPLICATE, connection.execute(query).scalar_one())
        if task.state is not TaskState.RUNNING and _is_closed(connection, season):
            # Its seed may have been shown: with it games can be played as one likes.
            raise _LateResult("the season was closed")
        if task.state is TaskState.CANCELLED and season.tournament is not None:
            raise _LateResult(task.words)  # the tournament went on without this game
        seq, now_ms = last_seq(connection) + 1, now(connection)
        version_ids = [version.id for version in lineup]
        seats = seat_results(record, version_ids)
        tallies_before = read_tallies(connection, season, version_ids)
        tallies = after_game(season.settings.rating, tallies_before, seats, seq, now_ms)
        link = last_link(connection, season.id)
        line = GameLine(
            seq=Int64(seq),
            game_id=task.game_id,
            season=season.name,
            place=link.place + 1,
            attempt=job.attempt - 1,
            played_at=utc_time(now_ms),
            seats=tuple(
                game_seat(version, seat, tallies[version.id].rating)
                for version, seat in zip(lineup, seats, strict=True)
            ),
        )
        game = StoredGame(line, record_text)
        connection.execute(
            _INSERT_GAME,
            {
                "seq": seq,
                "job_id": job.id,
                "season_id": season.id,
                "game_id": line.game_id,
                "attempt": job.attempt,
                "place": game.place,
                "head": add_link(connection, season.id, link, game_line(game)),
                "played_at": now_ms,
                "record": game.record,
            },
        )
        seat_rows = []
        for index, seat in enumerate(seats):
            tally = tallies[seat.version_id]
            mu, sigma = tally.rating.to_hex()
            seat_rows.append(
                seat._asdict()
                | {"seq": seq, "season_id": season.id, "seat": index}
                | {"mu": mu, "sigma": sigma, "number": tally.games}
            )
        connection.execute(_INSERT_SEATS, seat_rows)
        write_tallies(connection, season, tallies, known=tallies_before)
        add_sums(connection, seq)
        GAMES.end(connection, job.id, now_ms, TaskState.DONE)
        end_attempt(connection, task, job.attempt, AttemptEnd.DONE, None, now_ms)
        suspended: tuple[str, ...] = ()
        faulty_versions = [seat.version_id for seat in seats if seat.faults]
        if faulty_versions:
            suspended = suspend_strikers(
                connection, self._policy.strikes, season.id, faulty_versions, record.game_id, now_ms
            )
        return Receipt(ReceiptStatus.ACCEPTED, seq, suspended=suspended)

    def _refuse_result(self, job: Job, text: str, reason: str, *, is_late: bool) -> Receipt:
        """Note in the audit log that a reported result was refused, and return the refusal.

        If the reporter's lease still holds, it ends, and a failed attempt is counted.

        text     the reported record
        is_late  True if the record was refused only since nobody plays the job any more
        """
        # A record may have half of a surrogate pair, which UTF-8 cannot express.
        digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
        with self._database.write() as connection:
            task = _task_of_job(connection, job.id)
            now_ms = now(connection)
            message = f"{job.owner}, lease {job.attempt}: {reason} (SHA-256 {digest})"
            note(connection, now_ms, AuditKind.REFUSED, task.game_id, message)
            if GAMES.leased_task(connection, job) is not None:
                end_attempt(connection, task, job.attempt, AttemptEnd.REFUSED, reason, now_ms)
                self._jobs.count_failure(connection, task, reason, now_ms)
        return Receipt(ReceiptStatus.REFUSED, reason=reason, is_late=is_late)

    def record(self, game_id: str) -> str:
        """Return the record of a rated game, or of a person's game that has ended, as JSON.

        Raises `NotOnLadder` if there is no such game.
        """
        query = select(_games.c.record).where(_games.c.game_id == game_id)
        with self._database.read() as connection:
            text = connection.execute(query).scalar()
            if text is None:
                text = connection.execute(_RECORD_OF_PERSON_GAME, {"game": game_id}).scalar()
        if text is None:
            raise no_such_game(game_id)
        return str(text)


class _InvalidResult(Exception):
    """A report that is not a valid result of the job."""


class _LateResult(_InvalidResult):
    """A report of a job that nobody plays any more.

    Its season was closed, or its tournament went on without it.
    """


def _is_closed(connection: Connection, season: StoredSeason) -> bool:
    """Return True if the season is closed now; `season` may have been read before that."""
    return connection.execute(_CLOSED_AT, {"season": season.id}).scalar_one() is not None


def _task_of_job(connection: Connection, job_id: int) -> Row[Any]:
    """Return the row of a job's task with its number and game id. Raises `StoreError` if none."""
    row = connection.execute(_TASK_OF_JOB, {"job": job_id}).first()
    if row is None:
        raise StoreError(f"there is no job {job_id}")
    return row


def _check_record(
    text: str, game_id: str, season: StoredSeason, seed: bytes, lineup: Sequence[BotVersion]
) -> tuple[GameRecord, str]:
    """Return a reported record, parsed, and its text as the program itself writes it.

    That text may differ from the reported one. Raises `_InvalidResult` if the record is of another
    game than expected, or if playing it again does not give the same result.
    """
    if len(text) > _LONGEST_RECORD:
        raise _InvalidResult(f"the record has {len(text)} characters, more than {_LONGEST_RECORD}")
    try:
        record = GameRecord.from_json(text)
        _require_equal("game_id", record.game_id, game_id)
        _require_equal("seed", record.seed.hex(), seed.hex())
        _require_equal("clock", record.clock, season.settings.clock)
        if record.rules != season.settings.rules:
            raise _InvalidResult(f"the rules are not those of season {season.name!r}")
        _require_equal("number of seats", len(record.seats), len(lineup))
        for seat, version in zip(record.seats, lineup, strict=True):
            _require_equal("name of a seat", seat.name, version.label)
            _require_equal(f"digest of {version.label}", seat.digest, version.digest)
        verify(record)
        own_text = record.to_json()
        own_text.encode()  # fails for half of a surrogate pair, which no database takes
    except (InvalidRecord, UnicodeEncodeError) as error:
        raise _InvalidResult(str(error)) from None
    return record, own_text


def _require_equal(name: str, value: object, expected: object) -> None:
    """Raise `_InvalidResult` if a value of a record, with this name, is not the expected one."""
    if value != expected:
        raise _InvalidResult(f"the {name} is {quoted(value, 80)}, not {quoted(expected, 80)}")


# ----- Logs


_bots, _versions = schema.bots, schema.bot_versions
_LOGS_WITH_BOT = (
    select(_games.c.seq, _logs.c.seat, _bots.c.name, _versions.c.number, _logs.c.content)
    .select_from(_games)
    .outerjoin(_logs, _logs.c.seq == _games.c.seq)
    .outerjoin(_seats, (_seats.c.seq == _logs.c.seq) & (_seats.c.seat == _logs.c.seat))
    .outerjoin(_versions, _versions.c.id == _seats.c.version_id)
    .outerjoin(_bots, _bots.c.id == _versions.c.bot_id)
)
"""Selects each log with its bot and version; a game without logs has one row without a seat."""
GAMES_WITH_LOGS = 20
"""The number of a bot's newest games with faults that keep their logs."""
GAMES_WITH_NOTES = 100
"""The number of a bot's newest games without faults that keep their notes."""
LONGEST_OUTPUT = 64 * 1024
"""The largest number of bytes that are stored of a bot's output in a game: its end."""


class Logs(StorePart):
    """The store's part for the logs of bots in their games."""

    def add(self, seq: int, logs: Sequence[SeatLog]) -> None:
        """Store the logs of a game's seats, and delete logs of the bots' older games.

        For a seat without a fault only its notes are stored. Logs that are stored already are left
        out, so that the method may be called again for the same game.

        seq  the sequence number of the stored game
        """
        with self._database.write() as connection:
            seats_query = (
                select(_seats.c.seat, _versions.c.bot_id, _seats.c.faults)
                .join(_versions, _versions.c.id == _seats.c.version_id)
                .where(_seats.c.seq == seq)
            )
            seat_rows = {row.seat: row for row in connection.execute(seats_query)}
            stored_query = select(_logs.c.seat).where(_logs.c.seq == seq)
            stored_seats = set(connection.execute(stored_query).scalars())
            for log in logs:
                seat = seat_rows.get(log.seat)
                if seat is None or log.seat in stored_seats:
                    continue
                has_faults = seat.faults > 0
                if not has_faults and not log.notes:
                    continue
                stored_log = log if has_faults else replace(log, error="", output="")
                stored_seats.add(log.seat)
                values = {
                    "seq": seq,
                    "seat": log.seat,
                    "bot_id": seat.bot_id,
                    "content": _packed(stored_log),
                }
                connection.execute(insert(_logs).values(**values))
                _delete_old_logs(connection, seat.bot_id, has_faults=has_faults)

    def of_game(self, game_id: str) -> tuple[SeatLog, ...]:
        """Return the stored logs of a game, in the order of the seats.

        A seat may have none. Raises `NotOnLadder` if there is no such game.
        """
        query = _LOGS_WITH_BOT.where(_games.c.game_id == game_id).order_by(_logs.c.seat)
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        if not rows:
            raise no_such_game(game_id)
        # A game without any logs has one row, in which the seat is NULL.
        return tuple(_seat_log(row) for row in rows if row.seat is not None)

    def of_bot(self, bot: str) -> dict[tuple[int, int], SeatLog]:
        """Return the logs of a bot, by the game's sequence number and the seat."""
        bot_id = select(_bots.c.id).where(_bots.c.name == bot).scalar_subquery()
        with self._database.read() as connection:
            rows = connection.execute(_LOGS_WITH_BOT.where(_logs.c.bot_id == bot_id)).all()
        return {(row.seq, row.seat): _seat_log(row) for row in rows}


def _delete_old_logs(connection: Connection, bot_id: int, *, has_faults: bool) -> None:
    """Delete all logs of a bot except those of its newest games.

    has_faults  True to delete logs of games with faults, False for games without: each kind has
                its own number of games whose logs stay
    """
    kept_games = GAMES_WITH_LOGS if has_faults else GAMES_WITH_NOTES
    is_seat_of_log = (_seats.c.seq == _logs.c.seq) & (_seats.c.seat == _logs.c.seat)
    is_game_of_kind = _seats.c.faults > 0 if has_faults else _seats.c.faults == 0
    is_of_kind = and_(_logs.c.bot_id == bot_id, exists().where(is_seat_of_log, is_game_of_kind))
    newest_first = select(_logs.c.seq).where(is_of_kind).distinct().order_by(_logs.c.seq.desc())
    # The newest of the games whose logs are deleted; None if there are too few games.
    newest_deleted = newest_first.offset(kept_games).limit(1)
    newest_deleted_seq = connection.execute(newest_deleted).scalar()
    if newest_deleted_seq is not None:
        connection.execute(delete(_logs).where(is_of_kind, _logs.c.seq <= newest_deleted_seq))


def _packed(log: SeatLog) -> bytes:
    """Return the stored content of a log: compressed JSON with the ends of long texts."""
    error = _end_of_text(log.error, schema.LONGEST_ERROR)
    output = _end_of_text(log.output, LONGEST_OUTPUT)
    return zlib.compress(msgspec.json.encode((error, output, log.notes)))


_unpack_json = msgspec.json.Decoder(tuple[str, str, tuple[GameNote, ...]]).decode


def _seat_log(row: Row[*tuple[Any, ...]]) -> SeatLog:
    """Return the log in a row of `_LOGS_WITH_BOT`. Raises `StoreDamaged` if it cannot be read."""
    try:
        error, output, notes = _unpack_json(zlib.decompress(row.content))
    except (ValueError, RecursionError, zlib.error) as damage:
        raise StoreDamaged(f"the log of seat {row.seat} is damaged: {damage}") from None
    return SeatLog(row.seat, f"{row.name} v{row.number}", error, output, notes)


def _end_of_text(text: str, max_bytes: int) -> str:
    """Return the end of a text that has at most `max_bytes` bytes in UTF-8."""
    # Half of a surrogate pair, which UTF-8 cannot express, is written as an escape.
    content = text.encode("utf-8", "backslashreplace")
    # The cut may go through a character, whose rest is dropped.
    return content[-max_bytes:].decode("utf-8", "ignore")
