"""Analyses of games: asked for, done by a runner, and kept.

Invariants: only games that everybody may see are analysed; of a game one analysis at most waits or
runs, and one at most is done by a plan, so that asking again is the same one; only who holds its
lease writes a result; a result is there whole or not at all, and never changed; every change of a
state counts up `change`.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from operator import attrgetter
from typing import Any

from sqlalchemy import Connection, Row, Select, func, insert, or_, select

from deepsea_ladder.errors import AnalysisError, NotOnLadder, StoreDamaged
from deepsea_ladder.limits import DAY_MS, RemoteLimits, check_author, check_queue
from deepsea_ladder.model.games import (
    AnalysedGame,
    AnalysisLease,
    AnalysisPlan,
    StoredAnalysis,
    StoredSeason,
)
from deepsea_ladder.model.tasks import TaskState
from deepsea_ladder.store import schema
from deepsea_ladder.store.database import added, now
from deepsea_ladder.store.history import no_such_game
from deepsea_ladder.store.leases import LeasedRows, Line, counting_changes
from deepsea_ladder.values import Int64, utc_time
from deepsea_rules.printable import printable

_rows, _games = schema.analyses, schema.games
_people = schema.person_games
_QUEUED, _RUNNING = TaskState.QUEUED, TaskState.RUNNING
_LINE = Line(_rows, _rows.c.state, _QUEUED, _RUNNING, counting_changes(_rows))
_SELECT: Select[Any] = (
    select(
        # Everything but the document, which is large.
        *(column for column in _rows.c if column is not _rows.c.document),
        func.coalesce(_games.c.game_id, _people.c.game_id).label("game_id"),
        schema.authors.c.name.label("author"),
    )
    .outerjoin(_games, _games.c.seq == _rows.c.seq)
    .outerjoin(_people, _people.c.id == _rows.c.person_game_id)
    .outerjoin(schema.authors, schema.authors.c.id == _rows.c.author_id)
)


class Analyses(LeasedRows):
    line = _LINE
    failed = TaskState.FAILED
    most_failures = attrgetter("analyses")

    # Who asks

    def request(
        self, game_id: str, author_id: int | None, plan: AnalysisPlan, limits: RemoteLimits
    ) -> StoredAnalysis:
        """Ask for an analysis; the one that waits, runs or is done by this plan, if there is one.

        author_id  None: on the ladder's own machine, where no daily limit holds
        Raises `NotOnLadder` or `LimitReached`.
        """
        with self._database.write() as connection:
            game = _ended_game(connection, game_id)
            found = _present(connection, game, plan)
            if found is not None:
                return _analysis(found, _LINE.places(connection))
            at = now(connection)
            if author_id is not None:
                check_author(limits, _times(connection, author_id, at - DAY_MS), at)
            check_queue(limits, len(_LINE.ids(connection)))
            row = insert(_rows).values(
                **game,
                author_id=author_id,
                policy=plan.policy,
                settings=plan.settings,
                **_LINE.new(connection, at),
            )
            return _get(connection, added(connection, row))

    def of_game(self, game_id: str) -> tuple[StoredAnalysis | None, StoredAnalysis | None]:
        """A game's newest analysis that has a result, and the one that was asked for last; none of
        a game that there is not."""
        newest = self._newest(game_id)
        with self._database.read() as connection:
            last = connection.execute(newest).first()
            if last is None:
                return None, None
            done = connection.execute(newest.where(_rows.c.state == TaskState.DONE)).first()
            order = _LINE.places(connection) if last.state == _QUEUED else {}
            return None if done is None else _analysis(done, {}), _analysis(last, order)

    def of_version(
        self, season: StoredSeason, version_id: int, limit: int
    ) -> tuple[AnalysedGame, ...]:
        """The newest games of a version in the season that have an analysis."""
        seats = schema.game_seats
        query = (
            select(func.max(_rows.c.id), _games.c.game_id, seats.c.seat)
            .join(_games, _games.c.seq == _rows.c.seq)
            .join(seats, seats.c.seq == _rows.c.seq)
            .where(
                # A sum, so that analyses are read first: few games have one.
                seats.c.version_id + 0 == version_id,
                seats.c.season_id == season.id,
                _rows.c.state == TaskState.DONE,
            )
            .group_by(_rows.c.seq, _games.c.game_id, seats.c.seat)
            .order_by(_rows.c.seq.desc())
            .limit(limit)
        )
        with self._database.read() as connection:
            return tuple(AnalysedGame(*row) for row in connection.execute(query))

    def document(self, game_id: str) -> str:
        """What the newest analysis of a game found, as JSON. Raises `NotOnLadder` for none."""
        query = self._newest(game_id).where(_rows.c.state == TaskState.DONE)
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

    def queue(self) -> list[StoredAnalysis]:
        """What runs, then what waits, in the order in which it is done."""
        query = _SELECT.where(_rows.c.state.in_((_QUEUED, _RUNNING))).order_by(_rows.c.id)
        with self._database.read() as connection:
            order = _LINE.places(connection)
            found = [_analysis(row, order) for row in connection.execute(query)]
        return sorted(found, key=lambda one: (one.state is _QUEUED, one.ahead))

    def get(self, number: int) -> StoredAnalysis:
        """An analysis by its id. Raises `NotOnLadder` if there is none."""
        with self._database.read() as connection:
            return _get(connection, number)

    # The runner

    def claim(self, owner: str, seconds: float, only: int | None = None) -> AnalysisLease | None:
        """Lease the next analysis for `seconds` from now; round robin by who asked.

        only  that one, whatever waits before it
        """
        with self._database.write() as connection:
            at = now(connection)
            self._take_over(connection, at)
            order = _LINE.order(connection, _LINE.ids(connection))
            numbers = [number for number in order if only in (None, number)]

            def lease(number: int) -> AnalysisLease:
                return self._lease(connection, number, owner, at, seconds)

            return self._first_readable(connection, numbers, lease, at)

    def _lease(
        self, connection: Connection, number: int, owner: str, at: int, seconds: float
    ) -> AnalysisLease:
        row = connection.execute(_SELECT.where(_rows.c.id == number)).one()
        attempt = _LINE.begin(connection, row, owner, at, seconds, began_at=at)
        record = select(_games.c.record).where(_games.c.seq == row.seq)
        if row.seq is None:
            record = select(_people.c.record).where(_people.c.id == row.person_game_id)
        return AnalysisLease(
            id=row.id,
            game_id=row.game_id,
            record=connection.execute(record).scalar_one(),
            settings=row.settings,
            owner=owner,
            attempt=attempt,
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
        return self._end(
            lease,
            state=TaskState.DONE,
            policy=policy,
            document=zlib.compress(content),
            reason=None,
        )

    def reject(self, lease: AnalysisLease, reason: str) -> bool:
        """Note that it cannot be done, however often it is tried; False if the lease is lost."""
        words = printable(reason, schema.LONGEST_NOTE)
        return self._end(lease, state=TaskState.FAILED, reason=words)

    def _end(self, lease: AnalysisLease, **values: object) -> bool:
        with self._database.write() as connection:
            if (row := _LINE.held(connection, lease)) is None:
                return False
            _LINE.release(connection, row, now(connection), **values)
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
    by_plan = (
        (_rows.c.state == TaskState.DONE)
        & (_rows.c.policy == plan.policy)
        & (_rows.c.settings == plan.settings)
    )
    ((column, number),) = game.items()
    ours = _SELECT.where(
        _rows.c[column] == number, or_(_rows.c.state.in_((_QUEUED, _RUNNING)), by_plan)
    )
    return connection.execute(ours.order_by(_rows.c.id.desc()).limit(1)).first()


def _times(connection: Connection, author_id: int, after: int) -> Sequence[int]:
    """When an author asked, after a time."""
    query = select(_rows.c.created_at).where(
        _rows.c.author_id == author_id, _rows.c.created_at > after
    )
    return connection.execute(query.order_by(_rows.c.created_at)).scalars().all()


def _get(connection: Connection, number: int) -> StoredAnalysis:
    row = connection.execute(_SELECT.where(_rows.c.id == number)).first()
    if row is None:
        raise NotOnLadder(f"there is no analysis {number}")
    return _analysis(row, _LINE.places(connection) if row.state == _QUEUED else {})


def _analysis(row: Row[Any], order: dict[int, int]) -> StoredAnalysis:
    """A row of `_SELECT`; `Line.places` has those that wait."""
    return StoredAnalysis(
        id=Int64(row.id),
        game_id=row.game_id,
        author=row.author or "",
        state=row.state,
        ahead=order.get(row.id, 0),
        plan=AnalysisPlan(row.policy, row.settings),
        reason=row.reason or "",
        created_at=utc_time(row.created_at),
        changed_at=utc_time(row.changed_at),
    )
