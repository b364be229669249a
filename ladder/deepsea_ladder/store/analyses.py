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
            game = _ended_game(connection, game_id)
            existing = _reusable_analysis(connection, game, plan)
            if existing is not None:
                return _analysis_of_row(existing, _TASKS.places(connection), lambda: plan)
            now_ms = now(connection)
            if author_id is not None:
                request_times = _request_times(connection, author_id, now_ms - DAY_MS)
                check_analysis_rate(limits, request_times, now_ms)
            check_analysis_queue(limits, len(_TASKS.line(connection)))
            statement = insert(_analyses).values(
                **game,
                author_id=author_id,
                policy=plan.policy,
                settings=plan.settings,
                created_at=now_ms,
            )
            analysis_id = insert_row(connection, statement)
            _TASKS.add(connection, now_ms, [{"subject": analysis_id, "author_id": author_id}])
            return _analysis_by_id(connection, analysis_id, lambda: plan)

    def of_game(
        self, game_id: str, current: CurrentPlan | None = None
    ) -> tuple[LadderAnalysis | None, LadderAnalysis | None]:
        """Return the newest analysis of a game with a result, and the one requested last.

        They may be the same one, and None stands for one that does not exist.

        current  returns the present plan of the ladder, so that analyses by another plan are marked
                 as outdated; None marks none
        """
        newest = self._newest_of_game(game_id)
        with self._database.read() as connection:
            last = connection.execute(newest).first()
            if last is None:
                return None, None
            done = connection.execute(newest.where(_IS_DONE)).first()
            places = _TASKS.places(connection) if last.state is TaskState.QUEUED else {}
            newest_done = None if done is None else _analysis_of_row(done, {}, current)
            return newest_done, _analysis_of_row(last, places, current)

    def of_version(
        self, season: StoredSeason, version_id: int, limit: int
    ) -> tuple[AnalysedGame, ...]:
        """Return the newest analysed games of a version in a season, at most `limit` of them."""
        seats, seq = schema.game_seats, _analyses.c.seq + 0
        query = (
            select(func.max(_analyses.c.id), _games.c.game_id, seats.c.seat)
            # "+ 0" makes SQLite begin with analyses instead of games, since few games have one.
            .join(_games, _games.c.seq == seq)
            .join(seats, seats.c.seq == seq)
            .where(
                seats.c.version_id + 0 == version_id,
                seats.c.season_id == season.id,
                _IS_DONE,
            )
            .group_by(_analyses.c.seq, _games.c.game_id, seats.c.seat)
            .order_by(_analyses.c.seq.desc())
            .limit(limit)
        )
        with self._database.read() as connection:
            return tuple(AnalysedGame(*row) for row in connection.execute(query))

    def document(self, game_id: str) -> str:
        """Return the result of the newest analysis of a game, as JSON.

        Raises `NotOnLadder` if there is none, and `StoreDamaged`.
        """
        query = self._newest_of_game(game_id).where(_IS_DONE)
        with self._database.read() as connection:
            documents = query.with_only_columns(_analyses.c.id, _analyses.c.document)
            row = connection.execute(documents).first()
        if row is None:
            raise NotOnLadder("there is no analysis of that game")
        try:
            return zlib.decompress(row.document).decode()
        except (zlib.error, UnicodeDecodeError, TypeError) as error:
            raise StoreDamaged(f"analysis {row.id} is damaged: {error}") from None

    def _newest_of_game(self, game_id: str) -> Select[Any]:
        """Return a query for the newest analysis of a game, a rated one or one of a person."""
        seq = select(_games.c.seq).where(_games.c.game_id == game_id).scalar_subquery()
        person_games = select(_person_games.c.id).where(_person_games.c.game_id == game_id)
        person_game_id = person_games.scalar_subquery()
        is_of_game = or_(_analyses.c.seq == seq, _analyses.c.person_game_id == person_game_id)
        return _ANALYSES.where(is_of_game).order_by(_analyses.c.id.desc()).limit(1)

    def queue(self) -> list[LadderAnalysis]:
        """Return the analyses that run, then those that wait in the order of the queue."""
        with self._database.read() as connection:
            places = _TASKS.places(connection)
            rows = connection.execute(_ANALYSES.where(_TASKS.is_open))
            analyses = [_analysis_of_row(row, places) for row in rows]
        return sorted(
            analyses, key=lambda analysis: (analysis.state is TaskState.QUEUED, analysis.ahead)
        )

    def get(self, analysis_id: int, current: CurrentPlan | None = None) -> LadderAnalysis:
        """Return an analysis by its id. Raises `NotOnLadder` if there is none.

        current  returns the present plan of the ladder, so that an analysis by another plan is
                 marked as outdated; None marks none
        """
        with self._database.read() as connection:
            return _analysis_by_id(connection, analysis_id, current)

    # For runners

    def _read(
        self, connection: Connection, task: Row[Any], owner: str, now_ms: int
    ) -> AnalysisLease:
        """Return the lease of a waiting analysis, with the record of its game.

        Raises one of `UNREADABLE_TASK` if its rows are damaged.
        """
        row = connection.execute(_ANALYSES.where(_analyses.c.id == task.subject)).one()
        record = select(_games.c.record).where(_games.c.seq == row.seq)
        if row.seq is None:
            record = select(_person_games.c.record).where(_person_games.c.id == row.person_game_id)
        return AnalysisLease(
            id=row.id,
            game_id=row.game_id,
            record=connection.execute(record).scalar_one(),
            settings=row.settings,
            owner=owner,
            attempt=task.attempt + 1,
        )

    def finish(self, lease: AnalysisLease, policy: str, text: str, limits: RemoteLimits) -> bool:
        """Store the result of an analysis; return False if the lease is lost.

        policy  the policy that made it, which may be newer than the requested one
        text    the result as JSON

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
            statement = update(_analyses).where(_analyses.c.id == lease.id)
            document = zlib.compress(content)
            connection.execute(statement.values(policy=policy, document=document))
            _TASKS.end(connection, lease.id, now(connection), TaskState.DONE, words=None)
            return True

    def reject(self, lease: AnalysisLease, reason: str) -> bool:
        """End an analysis that can never be made, with the reason.

        Returns False if the lease is lost; then nothing changes.
        """
        with self._database.write() as connection:
            if (task := _TASKS.leased_task(connection, lease)) is None:
                return False
            self._set_failed(connection, task, reason, now(connection))
            return True


def _ended_game(connection: Connection, game_id: str) -> dict[str, int]:
    """Return the reference of an analysis to a finished game: the name of its column and the value.

    A rated game is referred to by `seq`, one of a person by `person_game_id`. Raises `NotOnLadder`
    for an unknown game and for one that is not over.
    """
    ended_games = select(_person_games.c.id).where(
        _person_games.c.game_id == game_id, _person_games.c.record.is_not(None)
    )
    person_game_id = connection.execute(ended_games).scalar()
    if person_game_id is not None:
        return {"person_game_id": person_game_id}
    seq = connection.execute(select(_games.c.seq).where(_games.c.game_id == game_id)).scalar()
    if seq is None:
        raise no_such_game(game_id)
    return {"seq": seq}


def _reusable_analysis(
    connection: Connection, game: dict[str, int], plan: AnalysisPlan
) -> Row[Any] | None:
    """Return the row of an analysis of the game that waits, runs, or is done by this plan.

    None if there is no such analysis. `game` is the reference that `_ended_game` returns.
    """
    ((column, value),) = game.items()
    newest_first = _ANALYSES.where(_analyses.c[column] == value).order_by(_analyses.c.id.desc())
    for row in connection.execute(newest_first):
        is_by_plan = (row.policy, row.settings) == (plan.policy, plan.settings)
        state = _TASKS.state(row)
        if not state.is_final or (state is TaskState.DONE and is_by_plan):
            return row
    return None


def _request_times(connection: Connection, author_id: int, after_ms: int) -> Sequence[int]:
    """Return the times of an author's requests after a time, the oldest first."""
    query = select(_analyses.c.created_at).where(
        _analyses.c.author_id == author_id, _analyses.c.created_at > after_ms
    )
    return connection.execute(query.order_by(_analyses.c.created_at)).scalars().all()


def _analysis_by_id(
    connection: Connection, analysis_id: int, current: CurrentPlan | None
) -> LadderAnalysis:
    """Return an analysis by its id. Raises `NotOnLadder` if there is none.

    current  returns the present plan of the ladder; None marks no analysis as outdated
    """
    row = connection.execute(_ANALYSES.where(_analyses.c.id == analysis_id)).first()
    if row is None:
        raise NotOnLadder(f"there is no analysis {analysis_id}")
    places = _TASKS.places(connection) if row.state is TaskState.QUEUED else {}
    return _analysis_of_row(row, places, current)


def _analysis_of_row(
    row: Row[Any], places: dict[int, int], current: CurrentPlan | None = None
) -> LadderAnalysis:
    """Return the analysis in a row of `_ANALYSES`.

    places   the places of waiting analyses in the queue, by id (see `Tasks.places`)
    current  returns the present plan of the ladder, so that an analysis by another plan is marked
             as outdated; None marks none
    """
    is_outdated = False
    if current is not None and row.state is TaskState.DONE:
        is_outdated = AnalysisPlan(row.policy, row.settings) != current()
    return LadderAnalysis(
        id=Int64(row.id),
        game_id=row.game_id,
        state=_TASKS.state(row),
        ahead=places.get(row.id, 0),
        policy=row.policy,
        outdated=is_outdated,
        reason=row.words or "",
        created_at=utc_time(row.created_at),
        changed_at=utc_time(row.changed_at),
    )
