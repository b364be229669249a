"""Comparisons of new versions on common luck: planned, played block by block, and kept.

Invariants: a version is compared once in a season with its bot's former version, and with each bot
of the panel as that is then; only who holds the lease adds a block, and each number once, together
with the standing after it; a verdict is never changed; a newer version ends the comparisons of the
older one; no lease is given for more CPU time than the version, or the hour, has left.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    func,
    insert,
    or_,
    select,
    update,
)

from deepsea_bundle import names
from deepsea_ladder.errors import NotOnLadder, StoreDamaged
from deepsea_ladder.limits import HOUR_MS
from deepsea_ladder.model import (
    BotState,
    BotVersion,
    ComparisonLease,
    ComparisonStanding,
    StoredComparison,
    StoredSeason,
    TaskKind,
    TaskState,
)
from deepsea_ladder.store import schema
from deepsea_ladder.store.database import insert_row, now
from deepsea_ladder.store.history import IS_CURRENT, SELECT_BOTS, versions_by_id
from deepsea_ladder.store.seasons import by_id, limits_now
from deepsea_ladder.store.tasks import TaskLine, Tasks

_rows, _blocks = schema.comparisons, schema.comparison_blocks
_versions, _bots = schema.bot_versions, schema.bots
_Plan: TypeAlias = tuple[Row[Any], Row[Any], str]
"""A version, the one that it is compared with, and that one's name in the panel."""
_TASKS = Tasks(TaskKind.COMPARISON)
_SELECT: Select[Any] = _TASKS.join(select(_rows), _rows.c.id)
_OF_BOT = _versions.join(_bots, _bots.c.id == _versions.c.bot_id)
_CURRENT = select(_versions.c.id).select_from(_OF_BOT).where(_versions.c.number == _bots.c.version)
_READY = _CURRENT.where(_bots.c.state == BotState.ACTIVE)


class Comparisons(TaskLine[ComparisonLease]):
    tasks = _TASKS

    def listed(
        self, season: StoredSeason, versions: Sequence[int] | None = None
    ) -> list[StoredComparison]:
        """The comparisons of a season, or of these versions in it, in the order of their plan."""
        query = _SELECT.where(_rows.c.season_id == season.id).order_by(_rows.c.id)
        if versions is not None:
            query = query.where(_rows.c.version_id.in_(versions))
        return self._database.read_undamaged(query, _rows.c.id, _comparisons)[0]

    def get(self, number: int) -> StoredComparison:
        """A comparison by its id. Raises `NotOnLadder` if there is none."""
        with self._database.read() as connection:
            rows = connection.execute(_SELECT.where(_rows.c.id == number)).all()
            if not rows:
                raise NotOnLadder(f"there is no comparison {number}")
            return _comparisons(connection, rows)[0]

    # The runner

    def due(self) -> bool:
        """True if there may be something to lease now."""
        with self._database.read() as connection:
            if (found := _open_season(connection)) is None:
                return False
            season, now_ms = found[0], now(connection)
            if _left_of_hour(connection, now_ms) <= 0:
                return False
            expired = _TASKS.is_running & (schema.tasks.c.until <= now_ms)
            waits = _waiting(season, or_(_TASKS.is_waiting, expired))
            first = connection.execute(waits).first()
            return first is not None or any(self._lacking(connection, season))

    def _order(self, connection: Connection, now_ms: int) -> list[int]:
        """Plan what new versions need; authors take turns, and of one version that comparison is
        next which has used the least CPU time."""
        if (found := _open_season(connection)) is None:
            return []
        season, secret = found
        outdated = _rows.c.version_id.not_in(_CURRENT)
        for row in connection.execute(_SELECT.where(_TASKS.is_waiting, outdated)).all():
            _supersede(connection, row.id, now_ms)
        for plan in self._lacking(connection, season):
            _add(connection, season, secret, plan, now_ms)
        if _left_of_hour(connection, now_ms) <= 0:
            return []
        waiting = connection.execute(_waiting(season, _TASKS.is_waiting))
        return _TASKS.order(connection, [(row.id, row.author_id) for row in waiting])

    def _lacking(self, connection: Connection, season: StoredSeason) -> Iterator[_Plan]:
        """The comparisons that current versions lack."""
        ours = select(_rows.c.version_id, _rows.c.panel).where(_rows.c.season_id == season.id)
        there = set(map(tuple, connection.execute(ours)))
        newest = SELECT_BOTS.add_columns(IS_CURRENT.label("is_current"))
        newest = newest.where(_versions.c.number >= _bots.c.version - 1)
        rows, _ = self._database.read_undamaged(
            newest.order_by(_versions.c.number, _versions.c.id),
            _versions.c.id,
            lambda _, rows: list(rows),
            transaction=connection,
        )
        bots: dict[str, list[Row[Any]]] = {}
        for row in rows:
            bots.setdefault(row.name_key, []).append(row)
        # The newest version of a bot may be one that cannot be read.
        bots = {key: versions for key, versions in bots.items() if versions[-1].is_current}
        # Where there is no sandbox, only bots that play were looked at when the season was opened.
        out = {BotState.DISABLED, BotState.SUSPENDED}
        if season.settings.isolation == "process":
            out.add(BotState.WITHDRAWN)
        panel = {
            name: bots[names.key(name)][-1]
            for name in season.settings.verdicts.panel
            if names.key(name) in bots and bots[names.key(name)][-1].state not in out
        }
        for key, (*former, current) in bots.items():
            wanted = {"": former[-1]} if former else {}
            if key not in map(names.key, panel):
                wanted |= panel
            for name, other in wanted.items():
                if current.state == BotState.ACTIVE and (current.version_id, name) not in there:
                    yield current, other, name

    def _read(
        self, connection: Connection, task: Row[Any], owner: str, now_ms: int
    ) -> ComparisonLease:
        row = connection.execute(select(_rows).where(_rows.c.id == task.subject)).one()
        season, _ = by_id(connection, row.season_id)
        left_of_version = limits_now(connection).verdict_seconds * 1000 - _spent(connection, row)
        versions = versions_by_id(connection, [row.version_id, row.other_id])
        return ComparisonLease(
            id=row.id,
            owner=owner,
            attempt=task.attempt + 1,
            season=season.settings,
            versions=(versions[row.version_id], versions[row.other_id]),
            seed=row.seed,
            kept=tuple(_contents(connection, row.id)),
            cpu_ms=min(_left_of_hour(connection, now_ms), left_of_version),
        )

    def add(
        self,
        lease: ComparisonLease,
        number: int,
        content: bytes,
        cpu_ms: int,
        standing: ComparisonStanding,
        seconds: float,
    ) -> bool:
        """Add a block and renew the lease; whether it held. The same block again changes nothing.

        content   the block, as JSON
        standing  after it; with a verdict the comparison has ended
        """
        with self._database.write() as connection:
            key = (_blocks.c.comparison_id == lease.id, _blocks.c.number == number)
            if connection.execute(select(_blocks.c.number).where(*key)).first() is not None:
                return True
            if (task := _TASKS.held(connection, lease)) is None:
                return False
            row = connection.execute(select(_rows).where(_rows.c.id == lease.id)).one()
            now_ms = now(connection)
            if connection.execute(_CURRENT.where(_versions.c.id == row.version_id)).first() is None:
                _supersede(connection, row.id, now_ms)
                return False
            block = {"comparison_id": row.id, "number": number, "at": now_ms, "cpu_ms": cpu_ms}
            connection.execute(insert(_blocks).values(**block, content=zlib.compress(content)))
            values = {
                "cpu_ms": row.cpu_ms + cpu_ms,
                "standing": msgspec.json.encode(standing).decode(),
            }
            connection.execute(update(_rows).where(_rows.c.id == row.id).values(**values))
            lasts = {"until": now_ms + round(seconds * 1000), "changed_at": task.changed_at}
            _TASKS.put(connection, row.id, now_ms, failures=0, words=None, **lasts)
            _end(connection, row, number, now_ms, is_decided=standing.verdict is not None)
            return True


def _open_season(connection: Connection) -> tuple[StoredSeason, bytes] | None:
    """The newest open season with its secret, if it has comparisons now."""
    table = schema.seasons
    newest = (
        select(table.c.id)
        .where(table.c.closed_at.is_(None), table.c.tournament.is_(None))
        .order_by(table.c.id.desc())
    )
    if (number := connection.execute(newest.limit(1)).scalar()) is None:
        return None
    season, secret = by_id(connection, number)
    limits = limits_now(connection)
    idle = season.paused_at is not None or not limits.verdict_seconds
    return None if idle else (season, secret)


def _add(
    connection: Connection, season: StoredSeason, secret: bytes, plan: _Plan, now_ms: int
) -> None:
    version, other, panel = plan
    # The same luck against all others, which nobody can know who has not the season's secret.
    text = f"comparison:{version.name} v{version.number}"
    standing = ComparisonStanding(margin=season.settings.verdicts.margin)
    seed = hashlib.sha256(secret + text.encode()).hexdigest()[:24]
    row = insert(_rows).values(
        season_id=season.id,
        author_id=version.author_id,
        version_id=version.version_id,
        other_id=other.version_id,
        panel=panel,
        seed=seed,
        cpu_ms=0,
        standing=msgspec.json.encode(standing).decode(),
    )
    task = {"subject": insert_row(connection, row), "author_id": version.author_id}
    _TASKS.add(connection, now_ms, [task])


def _supersede(connection: Connection, number: int, now_ms: int) -> None:
    _TASKS.end(connection, number, now_ms, TaskState.ENDED, words="a newer version came")


def _end(
    connection: Connection, row: Row[Any], number: int, now_ms: int, *, is_decided: bool
) -> None:
    """End what has its verdict, or has used its blocks or its CPU time."""
    season, _ = by_id(connection, row.season_id)
    blocks, limits = season.settings.verdicts.blocks, limits_now(connection)
    if is_decided:
        _TASKS.end(connection, row.id, now_ms, TaskState.DECIDED)
    elif number + 1 >= blocks:
        words = f"the {blocks} blocks that the season gives it are played"
        _TASKS.end(connection, row.id, now_ms, TaskState.SPENT, words=words)
    if _spent(connection, row) >= limits.verdict_seconds * 1000:
        words = f"the {limits.verdict_seconds} s that a version gets are used"
        is_open = or_(_TASKS.is_waiting, (_rows.c.id == row.id) & _TASKS.is_running)
        numbers = _SELECT.with_only_columns(_rows.c.id).where(_of_version(row), is_open)
        for open_one in connection.execute(numbers).scalars().all():
            _TASKS.end(connection, open_one, now_ms, TaskState.SPENT, words=words)


def _of_version(row: Row[Any]) -> ColumnElement[bool]:
    """All comparisons of the version in the season."""
    return and_(_rows.c.version_id == row.version_id, _rows.c.season_id == row.season_id)


def _spent(connection: Connection, row: Row[Any]) -> int:
    """The CPU time of the version, in milliseconds."""
    query = select(func.sum(_rows.c.cpu_ms)).where(_of_version(row))
    return int(connection.execute(query).scalar_one())


def _left_of_hour(connection: Connection, now_ms: int) -> int:
    """The CPU time that is left for comparisons in this hour, in milliseconds."""
    lately = select(func.sum(_blocks.c.cpu_ms)).where(_blocks.c.at > now_ms - HOUR_MS)
    spent = connection.execute(lately).scalar() or 0
    limits = limits_now(connection)
    return limits.verdict_seconds_per_hour * 1000 - int(spent)


def _waiting(season: StoredSeason, waits: ColumnElement[bool]) -> Select[tuple[int, int]]:
    """Ids and authors of what may be leased, that which has used the least CPU time first."""
    query = _SELECT.with_only_columns(_rows.c.id, _rows.c.author_id)
    query = query.where(_rows.c.season_id == season.id, _rows.c.version_id.in_(_READY), waits)
    return query.order_by(_rows.c.cpu_ms, _rows.c.id)


def _contents(connection: Connection, number: int) -> Iterator[bytes]:
    """The blocks of a comparison, in order."""
    query = select(_blocks).where(_blocks.c.comparison_id == number).order_by(_blocks.c.number)
    for row in connection.execute(query):
        try:
            yield zlib.decompress(row.content)
        except (zlib.error, TypeError) as error:
            raise StoreDamaged(
                f"block {row.number} of comparison {number} is damaged: {error}"
            ) from None


def _versions_of(connection: Connection, rows: Sequence[Row[Any]]) -> dict[int, BotVersion]:
    ids = {key for row in rows for key in (row.version_id, row.other_id)}
    return versions_by_id(connection, sorted(ids))


_read_standing = msgspec.json.Decoder(ComparisonStanding).decode


def _comparisons(connection: Connection, rows: Sequence[Row[Any]]) -> list[StoredComparison]:
    """The comparisons in rows of `_SELECT`."""
    versions = _versions_of(connection, rows)
    return [_comparison(row, versions) for row in rows]


def _comparison(row: Row[Any], versions: Mapping[int, BotVersion]) -> StoredComparison:
    try:
        standing = _read_standing(row.standing)
    except (msgspec.MsgspecError, ValueError, TypeError, RecursionError) as error:
        raise StoreDamaged(f"comparison {row.id} is damaged: {error}") from None
    return StoredComparison(
        version=versions[row.version_id],
        other=versions[row.other_id],
        panel=row.panel,
        seed=row.seed,
        state=_TASKS.state(row),
        standing=standing,
        cpu_ms=row.cpu_ms,
        reason=row.words or "",
        changed_at=row.changed_at,
    )
