"""Results: how a game that was played comes into the store.

Invariants: the store re-runs a record before it accepts it, and stores the record as it would write
it; the game, its ratings and the end of its job are one transaction; the first valid result of a
job is its result, every other one changes nothing; refusals are in the audit log.

Texts of bots in their games: errors, output and notes.

Invariants: a log never costs a game its result, which is stored before and without it; of each bot
the newest games with faults have logs, and the newest others what it noted in them.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace
from sqlalchemy import Connection, Row, bindparam, delete, exists, insert, select

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
from deepsea_ladder.store.seasons import by_id
from deepsea_ladder.store.sums import add_sums, read_tallies, write_tallies
from deepsea_ladder.store.tasks import GAMES, end_attempt
from deepsea_rules.errors import InvalidRecord
from deepsea_rules.game import GameRecord, verify
from deepsea_rules.printable import quoted
from deepsea_rules.randomness import game_seed

_logs, _games, _seats = schema.game_logs, schema.games, schema.game_seats
_LONGEST_RECORD = 1 << 20
_jobs, _tasks = schema.jobs.c, schema.tasks
_TASK = (
    select(_tasks, _jobs.number, _jobs.game_id)
    .join(schema.jobs, _jobs.id == _tasks.c.subject)
    .where(GAMES.is_of_kind, _tasks.c.subject == bindparam("job"))
)
_CLOSED_AT = select(schema.seasons.c.closed_at).where(schema.seasons.c.id == bindparam("season"))
_OWNER = select(schema.attempts.c.owner).where(
    schema.attempts.c.job_id == bindparam("job"),
    schema.attempts.c.attempt == bindparam("lease"),
)
_PERSONS_RECORD = select(schema.person_games.c.record).where(
    schema.person_games.c.game_id == bindparam("game")
)
_ADD_GAME = insert(_games)
_ADD_SEATS = insert(_seats)


class Games(StorePart):
    def __init__(self, database: Database, policy: RetryPolicy, jobs: Jobs) -> None:
        super().__init__(database, policy)
        self._jobs = jobs

    def report(self, job: Job, text: str, machine: str = "") -> Receipt:
        """Store the record of a job's game; retry it if there was no answer.

        machine  where it was played, which a refusal names; "" for the reporter's own
        The game in `job` is not trusted: the store's own job is what counts.
        """
        with self._database.read() as connection:
            task = _task(connection, job.id)
            season, secret = by_id(connection, task.season_id)
            seed = game_seed(secret, task.number, job.attempt - 1)
            lineup = versions_of(connection, task.subject)
            which = {"job": job.id, "lease": job.attempt}
            owner = connection.execute(_OWNER, which).scalar()
        if season.method != METHOD:
            raise StoreError(
                f"season {season.name!r} was rated by {season.method}, this program rates by "
                f"{METHOD}: compute the season's ratings again with `ladder refold --rewrite`"
            )
        try:
            if owner != job.owner:
                raise _InvalidResult(f"{job.owner} never had the lease {job.attempt} of this job")
            record, written = _accepted(text, task.game_id, season, seed, lineup)
            with self._database.write() as connection:
                return self._store(connection, job, season, record, written, lineup)
        except _InvalidResult as refusal:
            played = f"played by {machine}: " if machine else ""
            is_late = isinstance(refusal, _LateResult)
            return self._refuse(job, text, f"{played}{refusal}", is_late=is_late)

    def _store(
        self,
        connection: Connection,
        job: Job,
        season: StoredSeason,
        record: GameRecord,
        written: str,
        lineup: Sequence[BotVersion],
    ) -> Receipt:
        task = _task(connection, job.id)
        if task.state is TaskState.DONE:
            query = select(_games.c.seq).where(_games.c.job_id == job.id)
            end_attempt(connection, task, job.attempt, AttemptEnd.DUPLICATE, None, now(connection))
            return Receipt(ReceiptStatus.DUPLICATE, connection.execute(query).scalar_one())
        if task.state is not TaskState.RUNNING and _is_closed(connection, season):
            raise _LateResult("the season was closed")  # and perhaps its seed was shown
        if task.state is TaskState.CANCELLED and season.tournament is not None:
            raise _LateResult(task.words)  # the tournament went on without it
        seq, at = last_seq(connection) + 1, now(connection)
        ids = [version.id for version in lineup]
        seats = seat_results(record, ids)
        before = read_tallies(connection, season, ids)
        after = after_game(season.settings.rating, before, seats, seq, at)
        link = last_link(connection, season.id)
        line = GameLine(
            seq=Int64(seq),
            game_id=task.game_id,
            season=season.name,
            place=link.place + 1,
            attempt=job.attempt - 1,
            played_at=utc_time(at),
            seats=tuple(
                game_seat(version, seat, after[version.id].rating)
                for version, seat in zip(lineup, seats, strict=True)
            ),
        )
        game = StoredGame(line, written)
        connection.execute(
            _ADD_GAME,
            {
                "seq": seq,
                "job_id": job.id,
                "season_id": season.id,
                "game_id": line.game_id,
                "attempt": job.attempt,
                "place": game.place,
                "head": add_link(connection, season.id, link, game_line(game)),
                "played_at": at,
                "record": game.record,
            },
        )
        connection.execute(
            _ADD_SEATS,
            [
                {"seq": seq, "season_id": season.id, "seat": index, **seat._asdict()}
                | dict(zip(("mu", "sigma"), after[seat.version_id].rating.to_hex(), strict=True))
                | {"number": after[seat.version_id].games}
                for index, seat in enumerate(seats)
            ],
        )
        write_tallies(connection, season, after, known=before)
        add_sums(connection, seq)
        GAMES.end(connection, job.id, at, TaskState.DONE)
        end_attempt(connection, task, job.attempt, AttemptEnd.DONE, None, at)
        suspended: tuple[str, ...] = ()
        if faulty := [seat.version_id for seat in seats if seat.faults]:
            suspended = suspend_strikers(
                connection, self._policy.strikes, season.id, faulty, record.game_id, at
            )
        return Receipt(ReceiptStatus.ACCEPTED, seq, suspended=suspended)

    def _refuse(self, job: Job, text: str, reason: str, *, is_late: bool) -> Receipt:
        """Nothing but the log changes, and the reporter's own lease, if it has one, ends."""
        fingerprint = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
        with self._database.write() as connection:
            task, at = _task(connection, job.id), now(connection)
            words = f"{job.owner}, lease {job.attempt}: {reason} (SHA-256 {fingerprint})"
            note(connection, at, AuditKind.REFUSED, task.game_id, words)
            if GAMES.leased_task(connection, job) is not None:
                end_attempt(connection, task, job.attempt, AttemptEnd.REFUSED, reason, at)
                self._jobs.count_failure(connection, task, reason, at)
        return Receipt(ReceiptStatus.REFUSED, reason=reason, is_late=is_late)

    def record(self, game_id: str) -> str:
        """The record of a game, one line of JSON."""
        query = select(_games.c.record).where(_games.c.game_id == game_id)
        with self._database.read() as connection:
            text = connection.execute(query).scalar()
            if text is None:  # everybody may see those of people that have ended
                text = connection.execute(_PERSONS_RECORD, {"game": game_id}).scalar()
        if text is None:
            raise no_such_game(game_id)
        return str(text)


class _InvalidResult(Exception):
    """A report that is not a valid result of the job."""


class _LateResult(_InvalidResult):
    """A report after its season was closed, or its tournament went on, of a job that nobody plays
    any more."""


def _is_closed(connection: Connection, season: StoredSeason) -> bool:
    return connection.execute(_CLOSED_AT, {"season": season.id}).scalar_one() is not None


def _task(connection: Connection, job_id: int) -> Row[Any]:
    row = connection.execute(_TASK, {"job": job_id}).first()
    if row is None:
        raise StoreError(f"there is no job {job_id}")
    return row


def _accepted(
    text: str, game_id: str, season: StoredSeason, seed: bytes, lineup: Sequence[BotVersion]
) -> tuple[GameRecord, str]:
    """The record, if it is of this job's game and its re-run gives the same result.

    Also as it is written here, which may differ from the text that was reported.
    """
    if len(text) > _LONGEST_RECORD:
        raise _InvalidResult(f"the record has {len(text)} characters, more than {_LONGEST_RECORD}")
    try:
        record = GameRecord.from_json(text)
        _compare("game_id", record.game_id, game_id)
        _compare("seed", record.seed.hex(), seed.hex())
        _compare("clock", record.clock, season.settings.clock)
        if record.rules != season.settings.rules:
            raise _InvalidResult(f"the rules are not those of season {season.name!r}")
        _compare("number of seats", len(record.seats), len(lineup))
        for seat, version in zip(record.seats, lineup, strict=True):
            _compare("name of a seat", seat.name, version.label)
            _compare(f"digest of {version.label}", seat.digest, version.digest)
        verify(record)
        written = record.to_json()
        written.encode()
    except (InvalidRecord, UnicodeEncodeError) as error:
        raise _InvalidResult(str(error)) from None
    return record, written


def _compare(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise _InvalidResult(f"the {what} is {quoted(found, 80)}, not {quoted(expected, 80)}")


_bots, _versions = schema.bots, schema.bot_versions
_WITH_BOT = (
    select(_games.c.seq, _logs.c.seat, _bots.c.name, _versions.c.number, _logs.c.content)
    .select_from(_games)
    .outerjoin(_logs, _logs.c.seq == _games.c.seq)
    .outerjoin(_seats, (_seats.c.seq == _logs.c.seq) & (_seats.c.seat == _logs.c.seat))
    .outerjoin(_versions, _versions.c.id == _seats.c.version_id)
    .outerjoin(_bots, _bots.c.id == _versions.c.bot_id)
)
"""Each log with its bot and version; a game without logs has a row without one."""
KEPT = 20
"""For each bot: so many of its newest games with faults keep their logs,"""
KEPT_NOTES = 100
"""and so many of its newest other games their notes."""
LONGEST_OUTPUT = 64 * 1024


class Logs(StorePart):
    def add(self, seq: int, logs: Sequence[SeatLog]) -> None:
        """Keep the logs of a game that is stored; may be repeated.

        Of a seat without a fault, only its notes are kept.
        """
        with self._database.write() as connection:
            query = (
                select(_seats.c.seat, _versions.c.bot_id, _seats.c.faults)
                .join(_versions, _versions.c.id == _seats.c.version_id)
                .where(_seats.c.seq == seq)
            )
            seats = {row.seat: row for row in connection.execute(query)}
            there = set(
                connection.execute(select(_logs.c.seat).where(_logs.c.seq == seq)).scalars()
            )
            for log in logs:
                if log.seat not in seats or log.seat in there:
                    continue
                _, bot_id, faults = seats[log.seat]
                if not faults and not log.notes:
                    continue
                there.add(log.seat)
                kept = log if faults else replace(log, error="", output="")
                connection.execute(
                    insert(_logs).values(
                        seq=seq, seat=log.seat, bot_id=bot_id, content=_packed(kept)
                    )
                )
                _forget_old(connection, bot_id, faulty=bool(faults))

    def of_game(self, game_id: str) -> tuple[SeatLog, ...]:
        """The logs of a game, by seat; StoreError if there is no such game."""
        query = _WITH_BOT.where(_games.c.game_id == game_id).order_by(_logs.c.seat)
        with self._database.read() as connection:
            rows = connection.execute(query).all()
        if not rows:
            raise no_such_game(game_id)
        return tuple(_seat_log(row) for row in rows if row.seat is not None)

    def of_bot(self, bot: str) -> dict[tuple[int, int], SeatLog]:
        """The logs of a bot's games, by the game's number in the order of rating and the seat."""
        of_bot = select(_bots.c.id).where(_bots.c.name == bot).scalar_subquery()
        with self._database.read() as connection:
            rows = connection.execute(_WITH_BOT.where(_logs.c.bot_id == of_bot)).all()
        return {(row.seq, row.seat): _seat_log(row) for row in rows}


def _forget_old(connection: Connection, bot_id: int, *, faulty: bool) -> None:
    """Delete what a bot left of all but its newest games with faults, or without."""
    same = (_seats.c.seq == _logs.c.seq) & (_seats.c.seat == _logs.c.seat)
    kind = exists().where(same, _seats.c.faults > 0 if faulty else _seats.c.faults == 0)
    own = select(_logs.c.seq).where(_logs.c.bot_id == bot_id, kind).distinct()
    oldest = own.order_by(_logs.c.seq.desc()).limit(1).offset(KEPT if faulty else KEPT_NOTES)
    if (last := connection.execute(oldest).scalar()) is not None:
        connection.execute(delete(_logs).where(_logs.c.bot_id == bot_id, _logs.c.seq <= last, kind))


def _packed(log: SeatLog) -> bytes:
    error, output = _end(log.error, schema.LONGEST_ERROR), _end(log.output, LONGEST_OUTPUT)
    return zlib.compress(msgspec.json.encode((error, output, log.notes)))


_unpacked = msgspec.json.Decoder(tuple[str, str, tuple[GameNote, ...]]).decode


def _seat_log(row: Row[*tuple[Any, ...]]) -> SeatLog:
    """The log in a row of `_WITH_BOT`."""
    try:
        error, output, notes = _unpacked(zlib.decompress(row.content))
    except (ValueError, RecursionError, zlib.error) as damage:
        raise StoreDamaged(f"the log of seat {row.seat} is damaged: {damage}") from None
    return SeatLog(row.seat, f"{row.name} v{row.number}", error, output, notes)


def _end(text: str, most: int) -> str:
    data = text.encode("utf-8", "backslashreplace")
    return data[-most:].decode("utf-8", "ignore")
