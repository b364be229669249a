"""Games: stores reported results, and reads played games.

Invariants: the store re-runs a record before it accepts it, and stores the record as it would
write it; the game, its ratings and the end of its job are one transaction; the first valid result
of a job is its result, every other one changes nothing; refusals are in the audit log.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import Connection, Row, insert, select, update

from deepsea_ladder.errors import StoreError
from deepsea_ladder.model import (
    AttemptEnd,
    AuditKind,
    BotState,
    BotVersion,
    Job,
    JobStatus,
    Receipt,
    ReceiptStatus,
    StoredSeason,
)
from deepsea_ladder.rating.totals import SeatResult, after_game, seat_results
from deepsea_ladder.rating.trueskill_fold import METHOD
from deepsea_ladder.store import schema
from deepsea_ladder.store.audit import note
from deepsea_ladder.store.bots import take_out, versions_by_id
from deepsea_ladder.store.database import Database, now
from deepsea_ladder.store.job_transitions import count_failure, end_attempt
from deepsea_ladder.store.lineups import lineup_of
from deepsea_ladder.store.retry_policy import RetryPolicy
from deepsea_ladder.store.seasons import by_id
from deepsea_ladder.store.totals import last_seq, read_tallies, write_tallies
from deepsea_rules.errors import InvalidRecord
from deepsea_rules.printable import quoted
from deepsea_rules.record import GameRecord, verify

LONGEST_RECORD: Final = 1 << 20


class InvalidResult(Exception):
    """A report that is not a valid result of the job."""


class Games:
    """The played games of a ladder."""

    def __init__(self, database: Database, policy: RetryPolicy) -> None:
        self._database = database
        self._policy = policy

    def report(self, job: Job, text: str) -> Receipt:
        """Store the record of a job's game; retry it if there was no answer.

        The game in `job` is not trusted: the store's own job is what counts.
        """
        with self._database.read() as connection:
            row = _job(connection, job.id)
            season = by_id(connection, row.season_id)
            lineup = lineup_of(connection, row.id)
            versions = versions_by_id(connection, list(lineup))
        if season.method != METHOD:
            raise StoreError(
                f"season {season.name!r} was rated by {season.method}, this program rates by "
                f"{METHOD}: compute the season's ratings again with `ladder refold --rewrite`"
            )
        try:
            record = _accepted(text, row, season, [versions[version] for version in lineup])
            with self._database.write() as connection:
                return self._store(connection, job, season, record)
        except InvalidResult as refusal:
            return self._refuse(job, text, str(refusal))

    def _store(
        self, connection: Connection, job: Job, season: StoredSeason, record: GameRecord
    ) -> Receipt:
        row = _job(connection, job.id)
        if not _was_leased(connection, job):
            raise InvalidResult(f"{job.owner} never had the lease {job.attempt} of this job")
        table = schema.games
        if row.status == JobStatus.DONE:
            query = select(table.c.seq).where(table.c.job_id == job.id)
            return Receipt(ReceiptStatus.DUPLICATE, connection.execute(query).scalar_one())
        seq, at = last_seq(connection) + 1, now(connection)
        seats = seat_results(record, lineup_of(connection, row.id))
        before = read_tallies(connection, season, [seat.version_id for seat in seats])
        after = after_game(season.season.rating, before, seats, seq, at)
        connection.execute(
            insert(table).values(
                seq=seq,
                job_id=job.id,
                season_id=season.id,
                game_id=row.game_id,
                played_at=at,
                record=record.to_json(),
            )
        )
        connection.execute(
            insert(schema.game_seats),
            [
                {"seq": seq, "season_id": season.id, "seat": index, **seat._asdict()}
                | dict(zip(("mu", "sigma"), after[seat.version_id].rating.to_hex(), strict=True))
                for index, seat in enumerate(seats)
            ],
        )
        write_tallies(connection, season, after, known=before)
        connection.execute(
            update(schema.jobs)
            .where(schema.jobs.c.id == job.id)
            .values(status=JobStatus.DONE, owner=None, until=None)
        )
        end_attempt(connection, job.id, job.attempt, AttemptEnd.DONE, None, at)
        disabled = self._count_strikes(connection, record.game_id, seats, at)
        return Receipt(ReceiptStatus.ACCEPTED, seq, disabled=disabled)

    def _refuse(self, job: Job, text: str, reason: str) -> Receipt:
        """Nothing but the log changes, and the reporter's own lease, if it has one, ends."""
        fingerprint = hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
        with self._database.write() as connection:
            row, at = _job(connection, job.id), now(connection)
            words = f"{job.owner}, lease {job.attempt}: {reason} (SHA-256 {fingerprint})"
            note(connection, at, AuditKind.REFUSED, row.game_id, words)
            if (row.status, row.attempt, row.owner) == (JobStatus.LEASED, job.attempt, job.owner):
                end_attempt(connection, job.id, job.attempt, AttemptEnd.REFUSED, reason, at)
                count_failure(connection, row, reason, self._policy.failures, at)
        return Receipt(ReceiptStatus.REFUSED, reason=reason)

    def _count_strikes(
        self, connection: Connection, game_id: str, seats: Sequence[SeatResult], at: int
    ) -> tuple[str, ...]:
        """Disable bots that did not start or crashed too often in a row; returns their names."""
        bots, versions = schema.bots, schema.bot_versions
        absent = {seat.version_id: seat.forfeit for seat in seats if seat.absent}
        playing = connection.execute(
            select(bots.c.id, bots.c.name, bots.c.strikes, versions.c.id.label("version_id"))
            .join(versions, versions.c.bot_id == bots.c.id)
            .where(
                versions.c.id.in_([seat.version_id for seat in seats]),
                # An older version's troubles are not those of the one that plays.
                versions.c.number == bots.c.version,
                bots.c.state == BotState.ACTIVE,
            )
        ).all()
        disabled = []
        for bot in playing:
            strikes = bot.strikes + 1 if bot.version_id in absent else 0
            if strikes != bot.strikes:
                connection.execute(update(bots).where(bots.c.id == bot.id).values(strikes=strikes))
            if strikes >= self._policy.strikes:
                reason = (
                    f"{strikes} games in a row without it, the last {game_id} "
                    f"({absent[bot.version_id]}); fix it and submit it again, or enable it"
                )
                take_out(connection, bot.id, bot.name, BotState.DISABLED, reason, at)
                disabled.append(str(bot.name))
        return tuple(disabled)

    def record(self, game_id: str) -> str:
        """The record of a game, one line of JSON."""
        table = schema.games
        with self._database.read() as connection:
            query = select(table.c.record).where(table.c.game_id == game_id)
            text = connection.execute(query).scalar()
        if text is None:
            raise StoreError(f"no game {game_id!r} was played on this ladder")
        return str(text)


def _job(connection: Connection, job_id: int) -> Row[Any]:
    row = connection.execute(select(schema.jobs).where(schema.jobs.c.id == job_id)).first()
    if row is None:
        raise StoreError(f"there is no job {job_id}")
    return row


def _was_leased(connection: Connection, job: Job) -> bool:
    table = schema.attempts
    query = select(table.c.owner).where(table.c.job_id == job.id, table.c.attempt == job.attempt)
    return connection.execute(query).scalar() == job.owner


def _accepted(
    text: str, job: Row[Any], season: StoredSeason, lineup: Sequence[BotVersion]
) -> GameRecord:
    """The record, if it is of this job's game and its re-run gives the same result."""
    if len(text) > LONGEST_RECORD:
        raise InvalidResult(f"the record has {len(text)} characters, more than {LONGEST_RECORD}")
    try:
        record = GameRecord.from_json(text)
        _compare("game_id", record.game_id, job.game_id)
        _compare("seed", record.seed.hex(), job.seed)
        _compare("clock", record.clock, season.season.clock)
        if record.rules != season.season.rules:
            raise InvalidResult(f"the rules are not those of season {season.name!r}")
        _compare("number of seats", len(record.seats), len(lineup))
        for seat, version in zip(record.seats, lineup, strict=True):
            _compare("name of a seat", seat.name, version.label)
            _compare(f"digest of {version.label}", seat.digest, version.digest)
        verify(record)
        record.to_json().encode()
    except (InvalidRecord, UnicodeEncodeError) as error:
        raise InvalidResult(str(error)) from None
    return record


def _compare(what: str, found: object, expected: object) -> None:
    if found != expected:
        raise InvalidResult(f"the {what} is {quoted(found, 80)}, not {quoted(expected, 80)}")
