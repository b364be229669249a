"""Analyses of games: requested by authors, made by runners, and stored.

Invariants: only games that everybody may see are analysed; at most one analysis of a game waits or
runs, and at most one is done by the same plan, so that a repeated request gets that one; only the
holder of the lease can store a result; a result is stored as a whole and never changed; every
change of a state counts up the column "change" of its task.
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

_analyses, _games = schema.analyses, schema.games
_person_games = schema.person_games
_TASKS = Tasks(TaskKind.ANALYSIS)
_IS_DONE = _analyses.c.document.is_not(None)
_ANALYSES: Select[Any] = _TASKS.join(
    select(
        # All columns except the document, which is large.
        *(column for column in _analyses.c if column is not _analyses.c.document),
        func.coalesce(_games.c.game_id, _person_games.c.game_id).label("game_id"),
    )
    .outerjoin(_games, _games.c.seq == _analyses.c.seq)
    .outerjoin(_person_games, _person_games.c.id == _analyses.c.person_game_id),
    _analyses.c.id,
)


class Analyses(TaskLine[AnalysisLease]):
    """The analyses of a ladder, and their queue for runners."""

    tasks = _TASKS

    # For people and programs that ask for analyses

    def request(
        self, game_id: str, author_id: int | None, plan: AnalysisPlan, limits: RemoteLimits
    ) -> LadderAnalysis:
        """Request an analysis of a game and return it.

        If one of this game waits, runs, or is done by the same plan, that one is returned instead.

        author_id  None for a request on the ladder's machine, which has no daily limit

        Raises `NotOnLadder` for an unknown game or one that is not over, and `LimitReached`.
        """
        with self._database.write() as connection:
            game_columns = _game_columns(connection, game_id)
            existing = _reusable_analysis(connection, self._select_of_game(game_id), plan)
            if existing is not None:
                tasks_ahead = _TASKS.tasks_ahead(connection)
                return _analysis_of_row(existing, tasks_ahead, current_plan=lambda: plan)
            now_ms = now(connection)
            if author_id is not None:
                request_times = _request_times(connection, author_id, now_ms - DAY_MS)
                check_analysis_rate(limits, request_times, now_ms)
            check_analysis_queue(limits, len(_TASKS.waiting_line(connection)))
            statement = insert(_analyses).values(
                **game_columns,
                author_id=author_id,
                policy=plan.policy,
                settings=plan.settings,
                created_at=now_ms,
            )
            analysis_id = insert_row(connection, statement)
            _TASKS.add(connection, now_ms, [{"subject": analysis_id, "author_id": author_id}])
            return _analysis_by_id(connection, analysis_id, current_plan=lambda: plan)

    def of_game(
        self, game_id: str, current_plan: CurrentPlan | None = None
    ) -> tuple[LadderAnalysis | None, LadderAnalysis | None]:
        """Return two analyses of a game: the newest one that has a result, and the newest one.

        Each is None if the game has no such analysis. Both may be the same analysis.

        current_plan  returns the plan by which the ladder makes analyses now; an analysis by
                      another plan is marked as outdated. None marks none.
        """
        newest_first = self._select_of_game(game_id)
        with self._database.read() as connection:
            newest_row = connection.execute(newest_first.limit(1)).first()
            if newest_row is None:
                return None, None
            newest = _analysis_of_row(
                newest_row, _tasks_ahead_of(connection, newest_row), current_plan
            )
            newest_done = None
            done_row = connection.execute(newest_first.where(_IS_DONE).limit(1)).first()
            if done_row is not None:
                newest_done = _analysis_of_row(done_row, {}, current_plan)
            return newest_done, newest

    def of_version(
        self, season: StoredSeason, version_id: int, limit: int
    ) -> tuple[AnalysedGame, ...]:
        """Return the newest analysed games of a version in a season, at most `limit` of them.

        Each has the id of its newest finished analysis, and the seat of the version.
        """
        seats = schema.game_seats
        # SQLite uses no index for an expression. So the two sums keep it from searching the many
        # games of the version: it reads the few analyses instead, and looks up their games.
        analysed_seq = _analyses.c.seq + 0
        is_of_version = seats.c.version_id + 0 == version_id
        query = (
            select(func.max(_analyses.c.id), _games.c.game_id, seats.c.seat)
            .join(_games, _games.c.seq == analysed_seq)
            .join(seats, seats.c.seq == analysed_seq)
            .where(is_of_version, seats.c.season_id == season.id, _IS_DONE)
            .group_by(_analyses.c.seq, _games.c.game_id, seats.c.seat)
            .order_by(_analyses.c.seq.desc())
            .limit(limit)
        )
        with self._database.read() as connection:
            return tuple(AnalysedGame(*row) for row in connection.execute(query))

    def document(self, game_id: str) -> str:
        """Return the result of the newest finished analysis of a game, as JSON.

        Raises `NotOnLadder` if there is none, and `StoreDamaged` if it cannot be unpacked.
        """
        newest_done = self._select_of_game(game_id).where(_IS_DONE).limit(1)
        query = newest_done.with_only_columns(_analyses.c.id, _analyses.c.document)
        with self._database.read() as connection:
            row = connection.execute(query).first()
        if row is None:
            raise NotOnLadder("there is no analysis of that game")
        try:
            return zlib.decompress(row.document).decode()
        except (zlib.error, UnicodeDecodeError, TypeError) as error:
            raise StoreDamaged(f"analysis {row.id} is damaged: {error}") from None

    def _select_of_game(self, game_id: str) -> Select[Any]:
        """Return a query for the analyses of a game, the newest first.

        The game may be a rated one or one of a person; an analysis refers to them by two columns.
        """
        rated_game = select(_games.c.seq).where(_games.c.game_id == game_id)
        person_game = select(_person_games.c.id).where(_person_games.c.game_id == game_id)
        is_of_game = or_(
            _analyses.c.seq == rated_game.scalar_subquery(),
            _analyses.c.person_game_id == person_game.scalar_subquery(),
        )
        return _ANALYSES.where(is_of_game).order_by(_analyses.c.id.desc())

    def queue(self) -> list[LadderAnalysis]:
        """Return the analyses that run, then those that wait, the next one first."""

        def position(analysis: LadderAnalysis) -> tuple[bool, int]:
            return analysis.state is TaskState.QUEUED, analysis.ahead

        with self._database.read() as connection:
            tasks_ahead = _TASKS.tasks_ahead(connection)
            rows = connection.execute(_ANALYSES.where(_TASKS.is_open))
            analyses = [_analysis_of_row(row, tasks_ahead) for row in rows]
        return sorted(analyses, key=position)

    def get(self, analysis_id: int, current_plan: CurrentPlan | None = None) -> LadderAnalysis:
        """Return an analysis by its id. Raises `NotOnLadder` if there is none.

        current_plan  returns the plan by which the ladder makes analyses now; an analysis by
                      another plan is marked as outdated. None marks none.
        """
        with self._database.read() as connection:
            return _analysis_by_id(connection, analysis_id, current_plan)

    # For runners

    def _read_lease(
        self, connection: Connection, task: Row[Any], owner: str, now_ms: int
    ) -> AnalysisLease:
        """Return the lease of a waiting analysis for `owner`, the runner that takes it.

        It has the record of the game. Raises one of the errors `UNREADABLE_TASK` if the stored rows
        are damaged.
        """
        row = connection.execute(_ANALYSES.where(_analyses.c.id == task.subject)).one()
        if row.seq is not None:
            query = select(_games.c.record).where(_games.c.seq == row.seq)
        else:
            query = select(_person_games.c.record).where(_person_games.c.id == row.person_game_id)
        return AnalysisLease(
            id=row.id,
            game_id=row.game_id,
            record=connection.execute(query).scalar_one(),
            settings=row.settings,
            owner=owner,
            attempt=task.attempt + 1,
        )

    def finish(self, lease: AnalysisLease, policy: str, text: str, limits: RemoteLimits) -> bool:
        """Store the result of an analysis, and end its lease.

        Returns False, and stores nothing, if the lease is lost. Raises `AnalysisError` for a result
        that is too large.

        policy  the policy that made the analysis, which may be newer than the requested one
        text    the result as JSON
        """
        content = text.encode()
        if len(content) > limits.analysis_bytes:
            raise AnalysisError(
                f"what was found has {len(content)} bytes; {limits.analysis_bytes} are the most"
            )
        with self._database.write() as connection:
            if _TASKS.leased_task(connection, lease) is None:
                return False
            connection.execute(
                update(_analyses)
                .where(_analyses.c.id == lease.id)
                .values(policy=policy, document=zlib.compress(content))
            )
            _TASKS.end(connection, lease.id, now(connection), TaskState.DONE, words=None)
            return True

    def reject(self, lease: AnalysisLease, reason: str) -> bool:
        """End the lease of an analysis that can never be made, and store the reason.

        Returns False, and changes nothing, if the lease is lost.
        """
        with self._database.write() as connection:
            task = _TASKS.leased_task(connection, lease)
            if task is None:
                return False
            self._set_failed(connection, task, reason, now(connection))
            return True


def _game_columns(connection: Connection, game_id: str) -> dict[str, int | None]:
    """Return the values of the columns by which an analysis refers to a finished game.

    `seq` is set for a rated game, `person_game_id` for one of a person; the other one is None.
    Raises `NotOnLadder` for an unknown game, and for one that is not over.
    """
    ended_games = select(_person_games.c.id).where(
        _person_games.c.game_id == game_id, _person_games.c.record.is_not(None)
    )
    person_game_id = connection.execute(ended_games).scalar()
    if person_game_id is not None:
        return {"seq": None, "person_game_id": person_game_id}
    seq = connection.execute(select(_games.c.seq).where(_games.c.game_id == game_id)).scalar()
    if seq is None:
        raise no_such_game(game_id)
    return {"seq": seq, "person_game_id": None}


def _reusable_analysis(
    connection: Connection, newest_first: Select[Any], plan: AnalysisPlan
) -> Row[Any] | None:
    """Return an analysis that waits, runs, or has been made by this plan; None if there is none.

    newest_first  a query for the rows of a game's analyses
    """
    for row in connection.execute(newest_first):
        state = _TASKS.state(row)
        if not state.is_final:
            return row
        is_by_plan = (row.policy, row.settings) == (plan.policy, plan.settings)
        if state is TaskState.DONE and is_by_plan:
            return row
    return None


def _tasks_ahead_of(connection: Connection, row: Row[Any]) -> dict[int, int]:
    """Return the number of tasks before each waiting analysis, by its id.

    It is empty if the analysis in this row does not wait, since nobody needs the numbers then.
    """
    return _TASKS.tasks_ahead(connection) if row.state is TaskState.QUEUED else {}


def _request_times(connection: Connection, author_id: int, after_ms: int) -> Sequence[int]:
    """Return the times of an author's requests after a time, the oldest first."""
    query = select(_analyses.c.created_at).where(
        _analyses.c.author_id == author_id, _analyses.c.created_at > after_ms
    )
    return connection.execute(query.order_by(_analyses.c.created_at)).scalars().all()


def _analysis_by_id(
    connection: Connection, analysis_id: int, current_plan: CurrentPlan | None
) -> LadderAnalysis:
    """Return an analysis by its id. Raises `NotOnLadder` if there is none.

    current_plan  returns the plan by which the ladder makes analyses now; an analysis by another
                  plan is marked as outdated. None marks none.
    """
    row = connection.execute(_ANALYSES.where(_analyses.c.id == analysis_id)).first()
    if row is None:
        raise NotOnLadder(f"there is no analysis {analysis_id}")
    return _analysis_of_row(row, _tasks_ahead_of(connection, row), current_plan)


def _analysis_of_row(
    row: Row[Any], tasks_ahead: dict[int, int], current_plan: CurrentPlan | None = None
) -> LadderAnalysis:
    """Return the analysis in a row of `_ANALYSES`.

    tasks_ahead   the number of tasks before each waiting analysis, by its id
    current_plan  returns the plan by which the ladder makes analyses now; a finished analysis by
                  another plan is marked as outdated. None marks none.
    """
    is_outdated = False
    if current_plan is not None and row.state is TaskState.DONE:
        is_outdated = AnalysisPlan(row.policy, row.settings) != current_plan()
    return LadderAnalysis(
        id=Int64(row.id),
        game_id=row.game_id,
        state=_TASKS.state(row),
        ahead=tasks_ahead.get(row.id, 0),
        policy=row.policy,
        outdated=is_outdated,
        reason=row.words or "",
        created_at=utc_time(row.created_at),
        changed_at=utc_time(row.changed_at),
    )
