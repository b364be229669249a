"""Analyses of games: asked for, done by a runner, and kept.

Invariants: only games that everybody may see are analysed; of a game one analysis at most waits or
runs, and one at most is done by a plan, so that asking again is the same one; only who holds its
lease writes a result; a result is there whole or not at all, and never changed; every change of a
state counts up `change`.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, func, insert, or_, select, update

from deepsea_ladder.errors import AnalysisError, NotOnLadder, StoreDamaged
from deepsea_ladder.limits import DAY_MS, RemoteLimits, check_analysis_queue, check_analysis_rate
from deepsea_ladder.model import (
    AnalysedGame,
    AnalysisLease,
    AnalysisPlan,
    CurrentPlan,
    Int64,
    LadderAnalysis,
    StoredSeason,
    TaskKind,
    TaskState,
    utc_time,
)
from deepsea_ladder.store import schema
from deepsea_ladder.store.database import insert_row, now
from deepsea_ladder.store.history import no_such_game
from deepsea_ladder.store.tasks import TaskLine, Tasks

_rows, _games = schema.analyses, schema.games
_people = schema.person_games
_TASKS = Tasks(TaskKind.ANALYSIS)
_IS_DONE = _rows.c.document.is_not(None)
_SELECT: Select[Any] = _TASKS.join(
    select(
        # Everything but the document, which is large.
        *(column for column in _rows.c if column is not _rows.c.document),
        func.coalesce(_games.c.game_id, _people.c.game_id).label("game_id"),
    )
    .outerjoin(_games, _games.c.seq == _rows.c.seq)
    .outerjoin(_people, _people.c.id == _rows.c.person_game_id),
    _rows.c.id,
)


class Analyses(TaskLine[AnalysisLease]):
    tasks = _TASKS

    # Who asks

    def request(
        self, game_id: str, author_id: int | None, plan: AnalysisPlan, limits: RemoteLimits
    ) -> LadderAnalysis:
        """Ask for an analysis; the one that waits, runs or is done by this plan, if there is one.

        author_id  None: on the ladder's own machine, where no daily limit holds
        Raises `NotOnLadder` or `LimitReached`.
        """
        with self._database.write() as connection:
            game = _ended_game(connection, game_id)
            found = _present(connection, game, plan)
            if found is not None:
                return _analysis(found, _TASKS.places(connection), lambda: plan)
            now_ms = now(connection)
            if author_id is not None:
                check_analysis_rate(limits, _times(connection, author_id, now_ms - DAY_MS), now_ms)
            check_analysis_queue(limits, len(_TASKS.line(connection)))
            row = insert(_rows).values(
                **game,
                author_id=author_id,
                policy=plan.policy,
                settings=plan.settings,
                created_at=now_ms,
            )
            number = insert_row(connection, row)
            _TASKS.add(connection, now_ms, [{"subject": number, "author_id": author_id}])
            return _get(connection, number, lambda: plan)

    def of_game(
        self, game_id: str, current: CurrentPlan | None = None
    ) -> tuple[LadderAnalysis | None, LadderAnalysis | None]:
        """A game's newest analysis that has a result, and the one that was asked for last; none of
        a game that there is not.

        current  the plan of this ladder; without it no analysis is outdated
        """
        newest = self._newest(game_id)
        with self._database.read() as connection:
            last = connection.execute(newest).first()
            if last is None:
                return None, None
            done = connection.execute(newest.where(_IS_DONE)).first()
            order = _TASKS.places(connection) if last.state is TaskState.QUEUED else {}
            newest_done = None if done is None else _analysis(done, {}, current)
            return newest_done, _analysis(last, order, current)

    def of_version(
        self, season: StoredSeason, version_id: int, limit: int
    ) -> tuple[AnalysedGame, ...]:
        """The newest games of a version in the season that have an analysis."""
        seats, seq = schema.game_seats, _rows.c.seq + 0
        query = (
            select(func.max(_rows.c.id), _games.c.game_id, seats.c.seat)
            # Sums, so that analyses are read first: few games have one.
            .join(_games, _games.c.seq == seq)
            .join(seats, seats.c.seq == seq)
            .where(
                seats.c.version_id + 0 == version_id,
                seats.c.season_id == season.id,
                _IS_DONE,
            )
            .group_by(_rows.c.seq, _games.c.game_id, seats.c.seat)
            .order_by(_rows.c.seq.desc())
            .limit(limit)
        )
        with self._database.read() as connection:
            return tuple(AnalysedGame(*row) for row in connection.execute(query))

    def document(self, game_id: str) -> str:
        """The result of the newest analysis of a game, as JSON. Raises `NotOnLadder` for none."""
        query = self._newest(game_id).where(_IS_DONE)
        with self._database.read() as connection:
            found = query.with_only_columns(_rows.c.id, _rows.c.document)
            row = connection.execute(found).first()
        if row is None:
            raise NotOnLadder("there is no analysis of that game")
        try:
            return zlib.decompress(row.document).decode()
        except (zlib.error, UnicodeDecodeError, TypeError) as error:
            raise StoreDamaged(f"analysis {row.id} is damaged: {error}") from None

    def _newest(self, game_id: str) -> Select[Any]:
        rated = select(_games.c.seq).where(_games.c.game_id == game_id).scalar_subquery()
        persons = select(_people.c.id).where(_people.c.game_id == game_id).scalar_subquery()
        of_game = or_(_rows.c.seq == rated, _rows.c.person_game_id == persons)
        return _SELECT.where(of_game).order_by(_rows.c.id.desc()).limit(1)

    def queue(self) -> list[LadderAnalysis]:
        """Analyses that run, then those that wait, in the order in which they are done."""
        with self._database.read() as connection:
            order = _TASKS.places(connection)
            rows = connection.execute(_SELECT.where(_TASKS.is_open))
            analyses = [_analysis(row, order) for row in rows]
        return sorted(analyses, key=lambda one: (one.state is TaskState.QUEUED, one.ahead))

    def get(self, number: int, current: CurrentPlan | None = None) -> LadderAnalysis:
        """An analysis by its id. Raises `NotOnLadder` if there is none.

        current  the plan of this ladder; without it no analysis is outdated
        """
        with self._database.read() as connection:
            return _get(connection, number, current)

    # The runner

    def _read(
        self, connection: Connection, task: Row[Any], owner: str, now_ms: int
    ) -> AnalysisLease:
        row = connection.execute(_SELECT.where(_rows.c.id == task.subject)).one()
        record = select(_games.c.record).where(_games.c.seq == row.seq)
        if row.seq is None:
            record = select(_people.c.record).where(_people.c.id == row.person_game_id)
        return AnalysisLease(
            id=row.id,
            game_id=row.game_id,
            record=connection.execute(record).scalar_one(),
            settings=row.settings,
            owner=owner,
            attempt=task.attempt + 1,
        )

    def finish(self, lease: AnalysisLease, policy: str, text: str, limits: RemoteLimits) -> bool:
        """Store what was found, as JSON; False if the lease is lost.

        policy  that it was made by, which may be newer than the one that was asked for
        Raises `AnalysisError` for a result that is too large; then nothing has changed.
        """
        content = text.encode()
        if len(content) > limits.analysis_bytes:
            raise AnalysisError(
                f"what was found has {len(content)} bytes; {limits.analysis_bytes} are the most"
            )
        with self._database.write() as connection:
            if _TASKS.leased_task(connection, lease) is None:
                return False
            found = {"policy": policy, "document": zlib.compress(content)}
            connection.execute(update(_rows).where(_rows.c.id == lease.id).values(**found))
            _TASKS.end(connection, lease.id, now(connection), TaskState.DONE, words=None)
            return True

    def reject(self, lease: AnalysisLease, reason: str) -> bool:
        """Note that it cannot be done, however often it is tried; False if the lease is lost."""
        with self._database.write() as connection:
            if (task := _TASKS.leased_task(connection, lease)) is None:
                return False
            self._set_failed(connection, task, reason, now(connection))
            return True


def _ended_game(connection: Connection, game_id: str) -> dict[str, int]:
    """The column and the number of a game that has ended."""
    ended = select(_people.c.id).where(_people.c.game_id == game_id, _people.c.record.is_not(None))
    if (number := connection.execute(ended).scalar()) is not None:
        return {"person_game_id": number}
    seq = connection.execute(select(_games.c.seq).where(_games.c.game_id == game_id)).scalar()
    if seq is None:
        raise no_such_game(game_id)
    return {"seq": seq}


def _present(connection: Connection, game: dict[str, int], plan: AnalysisPlan) -> Row[Any] | None:
    """The analysis of a game that waits, runs, or is done by this plan."""
    ((column, number),) = game.items()
    query = _SELECT.where(_rows.c[column] == number).order_by(_rows.c.id.desc())
    for row in connection.execute(query):
        is_by_plan = (row.policy, row.settings) == (plan.policy, plan.settings)
        state = _TASKS.state(row)
        if not state.is_final or (state is TaskState.DONE and is_by_plan):
            return row
    return None


def _times(connection: Connection, author_id: int, after: int) -> Sequence[int]:
    """When an author asked, after a time."""
    query = select(_rows.c.created_at).where(
        _rows.c.author_id == author_id, _rows.c.created_at > after
    )
    return connection.execute(query.order_by(_rows.c.created_at)).scalars().all()


def _get(connection: Connection, number: int, current: CurrentPlan | None) -> LadderAnalysis:
    row = connection.execute(_SELECT.where(_rows.c.id == number)).first()
    if row is None:
        raise NotOnLadder(f"there is no analysis {number}")
    order = _TASKS.places(connection) if row.state is TaskState.QUEUED else {}
    return _analysis(row, order, current)


def _analysis(
    row: Row[Any], order: dict[int, int], current: CurrentPlan | None = None
) -> LadderAnalysis:
    """The analysis in a row of `_SELECT`; `Tasks.places` has those that wait."""
    is_outdated = False
    if current is not None and row.state is TaskState.DONE:
        is_outdated = AnalysisPlan(row.policy, row.settings) != current()
    return LadderAnalysis(
        id=Int64(row.id),
        game_id=row.game_id,
        state=_TASKS.state(row),
        ahead=order.get(row.id, 0),
        policy=row.policy,
        outdated=is_outdated,
        reason=row.words or "",
        created_at=utc_time(row.created_at),
        changed_at=utc_time(row.changed_at),
    )
