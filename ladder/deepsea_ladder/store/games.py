"""Games: reported results, the records and logs of played games, and how far a ladder is.

Invariants: the store re-runs a record before it accepts it, and stores the record as it would write
it; the game, its ratings and the end of its job are one transaction; the first valid result of a
job is its result, every other one changes nothing; refusals are in the audit log.

A log never costs a game its result, which is stored before and without it; of each bot the newest
games with faults have logs, and the newest others what it noted in them. Whatever standings, games,
bots or analyses show is a function of the revision: two states of one ladder have the same one only
if they show the same.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, Row, bindparam, delete, exists, func, insert, select, update

from deepsea_ladder.accounts import MACHINE, AuditKind
from deepsea_ladder.chain import game_line
from deepsea_ladder.errors import RecordForgotten, StoreDamaged, StoreError
from deepsea_ladder.model.bots import BotVersion
from deepsea_ladder.model.games import (
    AttemptEnd,
    GameNote,
    Job,
    JobStatus,
    Receipt,
    ReceiptStatus,
    SeatLog,
    StoredGame,
    StoredSeason,
    StoredSeat,
)
from deepsea_ladder.rating.totals import after_game, seat_results
from deepsea_ladder.rating.trueskill_fold import METHOD
from deepsea_ladder.store import schema
from deepsea_ladder.store.audit import add_link, last_link, note
from deepsea_ladder.store.bots import disable_strikers
from deepsea_ladder.store.database import Database, now
from deepsea_ladder.store.history import last_seq, no_such_game, read_tallies, write_tallies
from deepsea_ladder.store.leases import (
    GAMES,
    SEASON_CLOSED,
    RetryPolicy,
    count_failure,
    end_attempt,
)
from deepsea_ladder.store.seasons import by_id
from deepsea_ladder.store.sums import add_sums
from deepsea_ladder.store.versions import versions_of, visible
from deepsea_rules.errors import InvalidRecord
from deepsea_rules.printable import quoted
from deepsea_rules.randomness import game_seed
from deepsea_rules.record import GameRecord, verify

_logs, _games, _seats = schema.game_logs, schema.games, schema.game_seats
_LONGEST_RECORD = 1 << 20
KEPT = 20
"""For each bot: so many of its newest games with faults keep their logs,"""
KEPT_NOTES = 100
"""and so many of its newest other games their notes."""
LONGEST_OUTPUT = 64 * 1024
_PRIVATE = (AuditKind.CODE, AuditKind.TOKEN, AuditKind.SESSION, AuditKind.BACKUP)
"""Entries that change no page for strangers: a login must not empty their cache."""
_JOB = select(schema.jobs).where(schema.jobs.c.id == bindparam("job"))
_OWNER = select(schema.attempts.c.owner).where(
    schema.attempts.c.job_id == bindparam("job"),
    schema.attempts.c.attempt == bindparam("lease"),
)
_PERSONS_RECORD = select(schema.person_games.c.record).where(
    schema.person_games.c.game_id == bindparam("game")
)
_ADD_GAME = insert(_games)
_ADD_SEATS = insert(_seats)


class Games:
    def __init__(self, database: Database, policy: RetryPolicy, *, public: bool = False) -> None:
        self._database = database
        self._public = public
        self._policy = policy

    def report(self, job: Job, text: str, machine: str = "") -> Receipt:
        """Store the record of a job's game; retry it if there was no answer.

        machine  where it was played, which a refusal names; "" for the reporter's own
        The game in `job` is not trusted: the store's own job is what counts.
        """
        with self._database.read() as connection:
            row = _job(connection, job.id)
            season, secret = by_id(connection, row.season_id)
            seed = game_seed(secret, row.number, job.attempt - 1)
            lineup = versions_of(connection, row.id)
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
            record, written = _accepted(text, row, season, seed, lineup)
            with self._database.write() as connection:
                return self._store(connection, job, season, record, written, lineup)
        except _InvalidResult as refusal:
            played = f"played by {machine}: " if machine else ""
            return self._refuse(job, text, f"{played}{refusal}")

    def _store(
        self,
        connection: Connection,
        job: Job,
        season: StoredSeason,
        record: GameRecord,
        written: str,
        lineup: Sequence[BotVersion],
    ) -> Receipt:
        row = _job(connection, job.id)
        if row.status == JobStatus.DONE:
            query = select(_games.c.seq).where(_games.c.job_id == job.id)
            end_attempt(connection, row, job.attempt, AttemptEnd.DUPLICATE, None, now(connection))
            return Receipt(ReceiptStatus.DUPLICATE, connection.execute(query).scalar_one())
        if row.status == JobStatus.CANCELLED and row.note == SEASON_CLOSED:
            raise _InvalidResult(SEASON_CLOSED)  # and perhaps its seed was shown
        seq, at = last_seq(connection) + 1, now(connection)
        ids = [version.id for version in lineup]
        seats = seat_results(record, ids)
        before = read_tallies(connection, season, ids)
        after = after_game(season.season.rating, before, seats, seq, at)
        link = last_link(connection, season.id)
        game = StoredGame(
            seq=seq,
            game_id=row.game_id,
            season=season.name,
            played_at=at,
            place=link.place + 1,
            attempt=job.attempt - 1,
            seats=tuple(
                StoredSeat(version, seat, after[version.id].rating)
                for version, seat in zip(lineup, seats, strict=True)
            ),
            record=written,
        )
        connection.execute(
            _ADD_GAME,
            {
                "seq": seq,
                "job_id": job.id,
                "season_id": season.id,
                "game_id": game.game_id,
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
        GAMES.release(connection, row, at, status=JobStatus.DONE)
        end_attempt(connection, row, job.attempt, AttemptEnd.DONE, None, at)
        disabled: tuple[str, ...] = ()
        if faulty := [seat.version_id for seat in seats if seat.faults]:
            disabled = disable_strikers(
                connection, self._policy.strikes, season.id, faulty, record.game_id, at
            )
        return Receipt(ReceiptStatus.ACCEPTED, seq, disabled=disabled)

    def _refuse(self, job: Job, text: str, reason: str) -> Receipt:
        """Nothing but the log changes, and the reporter's own lease, if it has one, ends."""
        fingerprint = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
        with self._database.write() as connection:
            row, at = _job(connection, job.id), now(connection)
            words = f"{job.owner}, lease {job.attempt}: {reason} (SHA-256 {fingerprint})"
            note(connection, at, AuditKind.REFUSED, row.game_id, words)
            if GAMES.held(connection, job) is not None:
                end_attempt(connection, row, job.attempt, AttemptEnd.REFUSED, reason, at)
                count_failure(connection, row, reason, self._policy.failures, at)
        return Receipt(ReceiptStatus.REFUSED, reason=reason)

    def record(self, game_id: str) -> str:
        """The record of a game, one line of JSON."""
        seasons = schema.seasons
        query = (
            select(_games.c.record)
            .join(seasons, seasons.c.id == _games.c.season_id)
            .where(_games.c.game_id == game_id, visible(public=self._public))
        )
        with self._database.read() as connection:
            text = connection.execute(query).scalar()
            if text is None:  # everybody may see those of people that have ended
                text = connection.execute(_PERSONS_RECORD, {"game": game_id}).scalar()
        if text is None:
            raise no_such_game(game_id)
        if text == schema.FORGOTTEN:
            raise RecordForgotten(f"game {game_id}")
        return str(text)

    def forget_records(self, season: StoredSeason, where: str) -> int:
        """Forget the records of a season that is published; its results, heads and ratings stay."""
        forget = update(_games).where(_games.c.season_id == season.id)
        with self._database.write() as connection:
            games = connection.execute(forget.values(record=schema.FORGOTTEN)).rowcount
            words = f"{games} records were forgotten, which {where} has"
            note(connection, now(connection), AuditKind.SEASON, season.name, words, by=MACHINE)
        return games


class _InvalidResult(Exception):
    """A report that is not a valid result of the job."""


def _job(connection: Connection, job_id: int) -> Row[Any]:
    row = connection.execute(_JOB, {"job": job_id}).first()
    if row is None:
        raise StoreError(f"there is no job {job_id}")
    return row


def _accepted(
    text: str, job: Row[Any], season: StoredSeason, seed: bytes, lineup: Sequence[BotVersion]
) -> tuple[GameRecord, str]:
    """The record, if it is of this job's game and its re-run gives the same result.

    Also as it is written here, which may differ from the text that was reported.
    """
    if len(text) > _LONGEST_RECORD:
        raise _InvalidResult(f"the record has {len(text)} characters, more than {_LONGEST_RECORD}")
    try:
        record = GameRecord.from_json(text)
        _compare("game_id", record.game_id, job.game_id)
        _compare("seed", record.seed.hex(), seed.hex())
        _compare("clock", record.clock, season.season.clock)
        if record.rules != season.season.rules:
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


class _Content(msgspec.Struct, array_like=True):
    """The text of a log; those from before bots could note anything end with the output."""

    error: str
    output: str
    notes: tuple[GameNote, ...] = ()


class Logs:
    def __init__(self, database: Database, *, public: bool = False) -> None:
        self._database = database
        self._public = public

    def add(self, seq: int, logs: Sequence[SeatLog]) -> None:
        """Keep the logs of a game that is stored; may be repeated.

        Of a seat without a fault, only its notes are kept.
        """
        versions = schema.bot_versions
        with self._database.write() as connection:
            query = (
                select(_seats.c.seat, versions.c.bot_id, _seats.c.faults)
                .join(versions, versions.c.id == _seats.c.version_id)
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
                kept = log if faults else SeatLog(log.seat, "", "", log.notes)
                connection.execute(
                    insert(_logs).values(
                        seq=seq, seat=log.seat, bot_id=bot_id, content=_packed(kept)
                    )
                )
                _forget_old(connection, bot_id, faulty=bool(faults))

    def of_game(self, game_id: str) -> tuple[SeatLog, ...]:
        """The logs of a game, by seat; StoreError if there is no such game."""
        with self._database.read() as connection:
            query = (
                select(_games.c.seq)
                .join(schema.seasons, schema.seasons.c.id == _games.c.season_id)
                .where(_games.c.game_id == game_id, visible(public=self._public))
            )
            seq = connection.execute(query).scalar()
            if seq is None:
                raise no_such_game(game_id)
            rows = connection.execute(
                select(_logs.c.seat, _logs.c.content)
                .where(_logs.c.seq == seq)
                .order_by(_logs.c.seat)
            ).all()
        return tuple(_unpacked(row.seat, row.content) for row in rows)

    def of_bot(self, bot: str) -> dict[tuple[int, int], SeatLog]:
        """The logs of a bot's games, by the game's number in the order of rating and the seat."""
        bots = schema.bots
        with self._database.read() as connection:
            rows = connection.execute(
                select(_logs.c.seq, _logs.c.seat, _logs.c.content)
                .join(bots, bots.c.id == _logs.c.bot_id)
                .join(_games, _games.c.seq == _logs.c.seq)
                .join(schema.seasons, schema.seasons.c.id == _games.c.season_id)
                .where(bots.c.name == bot, visible(public=self._public))
            ).all()
        return {(row.seq, row.seat): _unpacked(row.seat, row.content) for row in rows}


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
    return zlib.compress(msgspec.json.encode(_Content(error, output, log.notes)))


def _unpacked(seat: int, content: bytes) -> SeatLog:
    try:
        found = msgspec.json.decode(zlib.decompress(content), type=_Content)
    except (ValueError, RecursionError, zlib.error) as damage:
        raise StoreDamaged(f"the log of seat {seat} is damaged: {damage}") from None
    return SeatLog(seat, found.error, found.output, found.notes)


def _end(text: str, most: int) -> str:
    data = text.encode("utf-8", "backslashreplace")
    return data[-most:].decode("utf-8", "ignore")


class Revision(NamedTuple):
    """A state of a ladder; each number only grows."""

    game: int
    """The last game, in the order in which games are rated."""
    entry: int
    """The last entry of the audit log that everybody can see the effect of: bots that come and go,
    seasons, names of authors, ratings made anew."""
    places: int
    """The last places of all seasons' chains together: games, and attempts without a result."""
    seasons: int
    """How many seasons there are to look at: one more when an embargo ends."""
    analyses: int
    """The last change of an analysis."""
    comparisons: int
    """The last change of a comparison, or its last block."""


def read_revision(database: Database, *, public: bool) -> Revision:
    """The revision now; quick however many games there are."""
    seasons, seen = schema.seasons, visible(public=public)
    # One look into an index for each season, so that old games are not read.
    last_of = (
        select(func.max(_games.c.seq)).where(_games.c.season_id == seasons.c.id).scalar_subquery()
    )
    query = select(
        select(func.max(last_of)).where(seen).scalar_subquery(),
        select(func.max(schema.audit.c.id))
        .where(schema.audit.c.kind.not_in(_PRIVATE))
        .scalar_subquery(),
        select(func.sum(seasons.c.place)).where(seen).scalar_subquery(),
        select(func.count(seasons.c.id)).where(seen).scalar_subquery(),
        select(func.max(schema.analyses.c.change)).scalar_subquery(),
        select(func.max(schema.comparisons.c.change)).scalar_subquery(),
    )
    with database.read() as connection:
        return Revision(*(int(one or 0) for one in connection.execute(query).one()))
