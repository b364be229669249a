"""Comparisons of new versions of bots with other versions, on common luck.

They are planned when a runner looks for work, and are played and stored block by block.

Invariants: in a season a version is compared once with the former version of its bot, and once with
the present version of each bot of the panel; only the holder of the lease can add a block; a block
with each number is added once, together with the standing after it; a verdict never changes; a
newer version ends the comparisons of the older one; a lease never allows more CPU time than is left
for the version, or for all comparisons in this hour.
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
from deepsea_ladder.store.seasons import limits_now, season_and_seed, seed_of
from deepsea_ladder.store.tasks import TaskLine, Tasks

_comparisons, _blocks = schema.comparisons, schema.comparison_blocks
_versions, _bots = schema.bot_versions, schema.bots
_Plan: TypeAlias = tuple[Row[Any], Row[Any], str]
"""The rows of a version and of its opponent, and the opponent's name in the panel.

The name is "" if the opponent is the former version of the same bot.
"""
_TASKS = Tasks(TaskKind.COMPARISON)
_COMPARISONS: Select[Any] = _TASKS.join(select(_comparisons), _comparisons.c.id)
_VERSIONS_WITH_BOTS = _versions.join(_bots, _bots.c.id == _versions.c.bot_id)
_CURRENT_VERSIONS = (
    select(_versions.c.id)
    .select_from(_VERSIONS_WITH_BOTS)
    .where(_versions.c.number == _bots.c.version)
)
_ACTIVE_VERSIONS = _CURRENT_VERSIONS.where(_bots.c.state == BotState.ACTIVE)


class Comparisons(TaskLine[ComparisonLease]):
    """The comparisons of a ladder, and their queue for runners."""

    tasks = _TASKS

    def of_season(
        self, season: StoredSeason, versions: Sequence[int] | None = None
    ) -> list[StoredComparison]:
        """Return the comparisons of a season in the order in which they were planned.

        Comparisons that cannot be read are left out.

        versions  the ids of the compared versions; None returns the comparisons of all
        """
        query = _COMPARISONS.where(_comparisons.c.season_id == season.id)
        if versions is not None:
            query = query.where(_comparisons.c.version_id.in_(versions))
        query = query.order_by(_comparisons.c.id)
        comparisons, _ = self._database.read_undamaged(
            query, _comparisons.c.id, _comparisons_of_rows
        )
        return comparisons

    def get(self, comparison_id: int) -> StoredComparison:
        """Return a comparison by its id. Raises `NotOnLadder` if there is none."""
        with self._database.read() as connection:
            rows = connection.execute(_COMPARISONS.where(_comparisons.c.id == comparison_id)).all()
            if not rows:
                raise NotOnLadder(f"there is no comparison {comparison_id}")
            return _comparisons_of_rows(connection, rows)[0]

    # For runners

    def due(self) -> bool:
        """Return True if a runner may find a comparison to lease now.

        It may be one that waits, one whose lease has expired, or one that is still to be planned.
        """
        with self._database.read() as connection:
            season = _open_season(connection)
            if season is None:
                return False
            now_ms = now(connection)
            if _cpu_ms_left_this_hour(connection, now_ms) <= 0:
                return False
            is_expired = _TASKS.is_running & (schema.tasks.c.until <= now_ms)
            leasable = _leasable(season, or_(_TASKS.is_waiting, is_expired))
            if connection.execute(leasable).first() is not None:
                return True
            return any(self._missing_comparisons(connection, season))

    def _leasable_in_order(self, connection: Connection, now_ms: int) -> list[int]:
        """Bring the waiting comparisons up to date, and return the ids of those to lease, in order.

        First the comparisons of outdated versions are ended, and those that current versions lack
        are planned. Then authors take turns, and of each author's comparisons the one with the
        least CPU time so far comes first.
        """
        season = _open_season(connection)
        if season is None:
            return []
        is_outdated = _comparisons.c.version_id.not_in(_CURRENT_VERSIONS)
        outdated = connection.execute(_COMPARISONS.where(_TASKS.is_waiting, is_outdated)).all()
        for row in outdated:
            _supersede(connection, row.id, now_ms)
        for plan in self._missing_comparisons(connection, season):
            _add_comparison(connection, season, plan, now_ms)
        if _cpu_ms_left_this_hour(connection, now_ms) <= 0:
            return []
        waiting = connection.execute(_leasable(season, _TASKS.is_waiting))
        return _TASKS.leasing_order(connection, [(row.id, row.author_id) for row in waiting])

    def _missing_comparisons(self, connection: Connection, season: StoredSeason) -> Iterator[_Plan]:
        """Yield the comparisons of a season that current versions of active bots still need.

        These are one with the former version of the bot, if there is one, and one with each bot of
        the panel, unless the bot itself is of the panel.
        """
        planned = select(_comparisons.c.version_id, _comparisons.c.panel).where(
            _comparisons.c.season_id == season.id
        )
        existing = {(row.version_id, row.panel) for row in connection.execute(planned)}
        newest_two = SELECT_BOTS.add_columns(IS_CURRENT.label("is_current"))
        newest_two = newest_two.where(_versions.c.number >= _bots.c.version - 1)
        rows, _ = self._database.read_undamaged(
            newest_two.order_by(_versions.c.number, _versions.c.id),
            _versions.c.id,
            lambda _, rows: list(rows),
            transaction=connection,
        )
        # The former and the current version of each bot, by the key of the bot's name.
        versions_of_bot: dict[str, list[Row[Any]]] = {}
        for row in rows:
            versions_of_bot.setdefault(row.name_key, []).append(row)
        # If the current version is damaged, only the former one was read: leave that bot out.
        versions_of_bot = {
            key: versions for key, versions in versions_of_bot.items() if versions[-1].is_current
        }
        unplayable = {BotState.DISABLED, BotState.SUSPENDED}
        if season.settings.isolation == "process":
            # Bots without a sandbox must be trusted, and on opening the season the operator saw
            # only the active ones.
            unplayable.add(BotState.WITHDRAWN)
        panel: dict[str, Row[Any]] = {}
        for name in season.settings.verdicts.panel:
            versions = versions_of_bot.get(names.key(name), [])
            if versions and versions[-1].state not in unplayable:
                panel[name] = versions[-1]
        panel_keys = {names.key(name) for name in panel}
        for key, (*former, current) in versions_of_bot.items():
            if current.state != BotState.ACTIVE:
                continue
            opponents = {"": former[-1]} if former else {}
            if key not in panel_keys:
                opponents |= panel
            for name, opponent in opponents.items():
                if (current.version_id, name) not in existing:
                    yield current, opponent, name

    def _read_lease(
        self, connection: Connection, task: Row[Any], owner: str, now_ms: int
    ) -> ComparisonLease:
        """Return the lease of a waiting comparison for `owner`, the runner that takes it.

        The lease has the blocks that were played before, and the CPU time that may still be used.
        Raises one of the errors `UNREADABLE_TASK` if the stored rows are damaged.
        """
        query = select(_comparisons).where(_comparisons.c.id == task.subject)
        row = connection.execute(query).one()
        season, _ = season_and_seed(connection, row.season_id)
        limit_ms = limits_now(connection).verdict_seconds * 1000
        cpu_ms_left_of_version = limit_ms - _used_cpu_ms(connection, row)
        versions = versions_by_id(connection, [row.version_id, row.other_id])
        return ComparisonLease(
            id=row.id,
            owner=owner,
            attempt=task.attempt + 1,
            season=season.settings,
            versions=(versions[row.version_id], versions[row.other_id]),
            seed=row.seed,
            kept=tuple(_block_contents(connection, row.id)),
            cpu_ms=min(_cpu_ms_left_this_hour(connection, now_ms), cpu_ms_left_of_version),
        )

    def add(
        self,
        lease: ComparisonLease,
        block_number: int,
        content: bytes,
        cpu_ms: int,
        standing: ComparisonStanding,
        seconds: float,
    ) -> bool:
        """Add a block to a comparison and renew its lease; return True if the lease is still held.

        block_number  from 0; a block that is stored already is not added again
        content       the block as JSON
        cpu_ms        the CPU time that the block took
        standing      the standing after the block; if it has a verdict, the comparison ends
        seconds       the time from now until the lease expires

        A comparison of an outdated version ends, and its lease is lost.
        """
        with self._database.write() as connection:
            is_block = (_blocks.c.comparison_id == lease.id, _blocks.c.number == block_number)
            if connection.execute(select(_blocks.c.number).where(*is_block)).first() is not None:
                return True
            if (task := _TASKS.leased_task(connection, lease)) is None:
                return False
            query = select(_comparisons).where(_comparisons.c.id == lease.id)
            row = connection.execute(query).one()
            now_ms = now(connection)
            is_version = _versions.c.id == row.version_id
            if connection.execute(_CURRENT_VERSIONS.where(is_version)).first() is None:
                _supersede(connection, row.id, now_ms)
                return False
            connection.execute(
                insert(_blocks).values(
                    comparison_id=row.id,
                    number=block_number,
                    at=now_ms,
                    cpu_ms=cpu_ms,
                    content=zlib.compress(content),
                )
            )
            connection.execute(
                update(_comparisons)
                .where(_comparisons.c.id == row.id)
                .values(
                    cpu_ms=row.cpu_ms + cpu_ms,
                    standing=msgspec.json.encode(standing).decode(),
                )
            )
            _TASKS.put(
                connection,
                row.id,
                now_ms,
                failures=0,
                words=None,
                until=now_ms + round(seconds * 1000),
                changed_at=task.changed_at,  # a new block is no change of the state
            )
            _end_if_complete(
                connection, row, block_number, now_ms, is_decided=standing.verdict is not None
            )
            return True


def _open_season(connection: Connection) -> StoredSeason | None:
    """Return the season in which versions are compared now; None if no comparisons are played.

    It is the newest open season that is no tournament's. No comparisons are played if there is
    none, if it is paused, or if comparisons are switched off.
    """
    table = schema.seasons
    newest_open = (
        select(table.c.id)
        .where(table.c.closed_at.is_(None), table.c.tournament.is_(None))
        .order_by(table.c.id.desc())
        .limit(1)
    )
    season_id = connection.execute(newest_open).scalar()
    if season_id is None:
        return None
    season, _ = season_and_seed(connection, season_id)
    are_switched_off = limits_now(connection).verdict_seconds == 0
    if season.paused_at is not None or are_switched_off:
        return None
    return season


def _add_comparison(connection: Connection, season: StoredSeason, plan: _Plan, now_ms: int) -> None:
    """Store a planned comparison without any blocks, and a task for runners to play it."""
    version, opponent, panel_name = plan
    # The seed follows from the version, so that it has the same luck against all opponents, and
    # from the season's secret seed, so that nobody can predict it.
    version_text = f"comparison:{version.name} v{version.number}"
    season_seed = seed_of(connection, season.id)
    seed = hashlib.sha256(season_seed + version_text.encode()).hexdigest()[:24]
    standing = ComparisonStanding(margin=season.settings.verdicts.margin)
    statement = insert(_comparisons).values(
        season_id=season.id,
        author_id=version.author_id,
        version_id=version.version_id,
        other_id=opponent.version_id,
        panel=panel_name,
        seed=seed,
        cpu_ms=0,
        standing=msgspec.json.encode(standing).decode(),
    )
    comparison_id = insert_row(connection, statement)
    _TASKS.add(connection, now_ms, [{"subject": comparison_id, "author_id": version.author_id}])


def _supersede(connection: Connection, comparison_id: int, now_ms: int) -> None:
    """End a comparison whose version is not the current one of its bot any more."""
    _TASKS.end(connection, comparison_id, now_ms, TaskState.ENDED, words="a newer version came")


def _end_if_complete(
    connection: Connection, row: Row[Any], block_number: int, now_ms: int, *, is_decided: bool
) -> None:
    """End a comparison after a block if it has a verdict, all its blocks, or no CPU time left.

    row           the comparison
    block_number  the number of the block, from 0
    is_decided    True if the block has led to a verdict
    """
    season, _ = season_and_seed(connection, row.season_id)
    block_limit = season.settings.verdicts.blocks
    if is_decided:
        _TASKS.end(connection, row.id, now_ms, TaskState.DECIDED)
    elif block_number + 1 >= block_limit:
        reason = f"the {block_limit} blocks that the season gives it are played"
        _TASKS.end(connection, row.id, now_ms, TaskState.SPENT, words=reason)
    # Even then, this block may have used up the time of the version's other comparisons.
    limit_s = limits_now(connection).verdict_seconds
    if _used_cpu_ms(connection, row) >= limit_s * 1000:
        reason = f"the {limit_s} s that a version gets are used"
        _end_comparisons_of_version(connection, row, reason, now_ms)


def _end_comparisons_of_version(
    connection: Connection, row: Row[Any], reason: str, now_ms: int
) -> None:
    """End a comparison and the waiting ones of the same version, which has no CPU time left.

    All comparisons of a version share its CPU time. A comparison that another runner plays at the
    moment is not ended here, but after its next block.

    row  the comparison of which a block was just played
    """
    is_this_and_runs = (_comparisons.c.id == row.id) & _TASKS.is_running
    query = _COMPARISONS.with_only_columns(_comparisons.c.id)
    query = query.where(_is_of_same_version(row), or_(_TASKS.is_waiting, is_this_and_runs))
    for comparison_id in connection.execute(query).scalars().all():
        _TASKS.end(connection, comparison_id, now_ms, TaskState.SPENT, words=reason)


def _is_of_same_version(row: Row[Any]) -> ColumnElement[bool]:
    """Return the condition of all comparisons of the same version in the same season as a row."""
    return and_(
        _comparisons.c.version_id == row.version_id, _comparisons.c.season_id == row.season_id
    )


def _used_cpu_ms(connection: Connection, row: Row[Any]) -> int:
    """Return the CPU time, in ms, that all comparisons of the version in a row have used."""
    query = select(func.sum(_comparisons.c.cpu_ms)).where(_is_of_same_version(row))
    return int(connection.execute(query).scalar_one())


def _cpu_ms_left_this_hour(connection: Connection, now_ms: int) -> int:
    """Return the CPU time, in ms, that comparisons may still use after those of the last hour."""
    last_hour = select(func.sum(_blocks.c.cpu_ms)).where(_blocks.c.at > now_ms - HOUR_MS)
    used_ms = int(connection.execute(last_hour).scalar() or 0)
    limits = limits_now(connection)
    return limits.verdict_seconds_per_hour * 1000 - used_ms


def _leasable(season: StoredSeason, can_be_leased: ColumnElement[bool]) -> Select[tuple[int, int]]:
    """Return a query for the ids and authors of a season's comparisons that a runner may lease.

    Only comparisons of current versions of active bots are played. Those that have used the least
    CPU time come first.

    can_be_leased  the condition on their tasks
    """
    query = _COMPARISONS.with_only_columns(_comparisons.c.id, _comparisons.c.author_id)
    is_active = _comparisons.c.version_id.in_(_ACTIVE_VERSIONS)
    query = query.where(_comparisons.c.season_id == season.id, is_active, can_be_leased)
    return query.order_by(_comparisons.c.cpu_ms, _comparisons.c.id)


def _block_contents(connection: Connection, comparison_id: int) -> Iterator[bytes]:
    """Yield the blocks of a comparison as JSON, in the order of their numbers.

    Raises `StoreDamaged` at a block that cannot be unpacked.
    """
    blocks = select(_blocks).where(_blocks.c.comparison_id == comparison_id)
    for row in connection.execute(blocks.order_by(_blocks.c.number)):
        try:
            yield zlib.decompress(row.content)
        except (zlib.error, TypeError) as error:
            raise StoreDamaged(
                f"block {row.number} of comparison {comparison_id} is damaged: {error}"
            ) from None


def _versions_of(connection: Connection, rows: Sequence[Row[Any]]) -> dict[int, BotVersion]:
    """Return the versions in rows of comparisons, and their opponents, by id."""
    version_ids = {row.version_id for row in rows} | {row.other_id for row in rows}
    return versions_by_id(connection, sorted(version_ids))


_read_standing = msgspec.json.Decoder(ComparisonStanding).decode


def _comparisons_of_rows(
    connection: Connection, rows: Sequence[Row[Any]]
) -> list[StoredComparison]:
    """Return the comparisons in rows of `_COMPARISONS`, in the same order."""
    versions = _versions_of(connection, rows)
    return [_comparison_of_row(row, versions) for row in rows]


def _comparison_of_row(row: Row[Any], versions: Mapping[int, BotVersion]) -> StoredComparison:
    """Return the comparison in a row of `_COMPARISONS`.

    Raises `StoreDamaged` if its standing cannot be read.

    versions  the two versions of the comparison, by id
    """
    # The errors of JSON that is malformed, has wrong types, or is nested too deeply.
    unreadable = (msgspec.MsgspecError, ValueError, TypeError, RecursionError)
    try:
        standing = _read_standing(row.standing)
    except unreadable as error:
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
