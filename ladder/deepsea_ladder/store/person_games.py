"""Games of people against bots: begun by a person, played on by a runner, step by step.

Invariants: a game is its seed and the decisions that are stored, so that whatever dies, another
step goes on from there; between two steps no lease is held and no process is needed; an answer
counts for the decision that it was made for; a person who is silent for too long is played by
default actions, and decides again with the next answer; what failed too often is void, with the
reason; nothing here enters a chain, a rating or a season's list of games.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace
from sqlalchemy import ColumnElement, Connection, Row, Select, func, insert, select, update

from deepsea_ladder.errors import (
    NotOnLadder,
    PersonGameError,
    SeasonClosed,
    SeasonPaused,
    StoreDamaged,
)
from deepsea_ladder.limits import DAY_MS, check_person_games
from deepsea_ladder.model import BotVersion, PersonGame, Presence, TaskKind, TaskState
from deepsea_ladder.season import Season
from deepsea_ladder.store import schema
from deepsea_ladder.store.database import insert_row, now
from deepsea_ladder.store.history import SELECT_VERSIONS, version_of
from deepsea_ladder.store.seasons import by_id, limits_now
from deepsea_ladder.store.tasks import TaskLine, Tasks
from deepsea_rules.game import Decision

SILENT_MS = 10_000
"""The time for which each further decision waits for a person who is silent."""
_rows, _seats, _seasons = schema.person_games, schema.person_game_seats, schema.seasons
_TASKS = Tasks(TaskKind.STEP)
_task = schema.tasks.c
_read_decisions = msgspec.json.Decoder(tuple[Decision, ...]).decode
_SELECT: Select[Any] = _TASKS.join(
    select(_rows, _seasons.c.settings, schema.authors.c.name.label("person"))
    .join(_seasons, _seasons.c.id == _rows.c.season_id)
    .outerjoin(schema.authors, schema.authors.c.id == _rows.c.author_id),
    _rows.c.id,
)


class PersonGames(TaskLine[PersonGame]):
    tasks = _TASKS

    # People

    def begin(
        self, versions: Sequence[int], *, author_id: int | None, address: str, **new: Any
    ) -> PersonGame:
        """Begin a game. Raises `LimitReached`, `SeasonClosed` or `SeasonPaused`.

        versions   ids of the bots' versions, in the order of their seats
        author_id  None: a visitor; all from one network count as one person
        new        the row's `game_id`, `season_id`, `visitor`, `rules`, `seed` and `seat`
        """
        with self._database.write() as connection:
            season, _ = by_id(connection, new["season_id"])
            if season.closed_at is not None:
                raise SeasonClosed(f"the season {season.name!r} is closed")
            if season.paused_at is not None:
                raise SeasonPaused(f"the season {season.name!r} is paused")
            now_ms = now(connection)
            mine = _rows.c.author_id == author_id
            if author_id is None:
                mine = _rows.c.author_id.is_(None) & (_rows.c.address == address)
            lately = select(_rows.c.created_at).where(mine, _rows.c.created_at > now_ms - DAY_MS)
            check_person_games(
                limits_now(connection),
                _count(connection, _TASKS.is_open),
                _count(connection, _TASKS.is_open & mine),
                connection.execute(lately.order_by(_rows.c.created_at)).scalars().all(),
                now_ms,
            )
            row = insert(_rows).values(
                **{**new, "seed": new["seed"].hex()},
                author_id=author_id,
                address=address,
                presence=Presence.HERE,
                decisions="[]",
                created_at=now_ms,
            )
            number = insert_row(connection, row)
            _TASKS.add(connection, now_ms, [{"subject": number, "author_id": author_id}])
            others = (seat for seat in range(len(versions) + 1) if seat != new["seat"])
            for seat, version in zip(others, versions, strict=True):
                row = insert(_seats).values(person_game_id=number, seat=seat, version_id=version)
                connection.execute(row)
            return _get(connection, new["game_id"])

    def get(self, game_id: str) -> PersonGame:
        """A game of a person. Raises `NotOnLadder` if there is none."""
        with self._database.read() as connection:
            return _get(connection, game_id)

    def of_person(self, author_id: int | None, visitor: str | None, limit: int) -> list[PersonGame]:
        """A person's games, the newest first: an author's, or those of a visitor's cookie."""
        mine = _rows.c.author_id == author_id
        if author_id is None:
            mine = _rows.c.author_id.is_(None) & (_rows.c.visitor == visitor)
        query = _SELECT.where(mine).order_by(_rows.c.id.desc()).limit(limit)
        return self._database.read_undamaged(query, _rows.c.id, _games)[0]

    def answer(self, game_id: str, number: int, action: str, *, whole: bool = True) -> None:
        """Answer decision `number`, counted from 0; a person who was silent is here again.

        whole  False for the first choices of an order, of which more are to come
        Raises `PersonGameError` if another decision is due, or none.
        """
        with self._database.write() as connection:
            game, now_ms = _get(connection, game_id), now(connection)
            due = game.state is TaskState.ASKED and game.presence is not Presence.LEFT
            is_asked = due and number == len(game.decisions)
            if is_asked and whole:
                _put(connection, game.id, answer=action, presence=Presence.HERE)
                self._wait_again(connection, _TASKS.get(connection, game.id), now_ms)
                return
            if is_asked or (due and game.presence is Presence.SILENT):
                values: dict[str, object] = {"answer": action} if is_asked else {}
                _put(connection, game.id, presence=Presence.HERE, **values)
                until = now_ms + game.season.play.silent_seconds * 1000
                _TASKS.put(connection, game.id, now_ms, until=until)
            if is_asked:
                return
        raise PersonGameError("that decision has been made already, or another one is due")

    def leave(self, game_id: str, *, drop: bool = False) -> None:
        """Let a game be played to its end by default actions; nothing happens to one that ended.

        drop  end it at once instead: it is void
        """
        with self._database.write() as connection:
            row, now_ms = _row(connection, game_id), now(connection)
            if _TASKS.state(row).is_final:
                return
            _put(connection, row.id, presence=Presence.LEFT)
            if drop:
                words = "its person dropped it"
                _TASKS.end(connection, row.id, now_ms, TaskState.VOID, words=words)
            elif row.state is TaskState.ASKED:
                _put(connection, row.id, answer="")
                _TASKS.end(connection, row.id, now_ms, TaskState.QUEUED)
            else:
                _TASKS.put(connection, row.id, now_ms)

    # The runner

    def waiting(self) -> int:
        """The number of games that can be played on now."""
        with self._database.read() as connection:
            silent = _count(connection, _is_silent(now(connection)))
        return super().waiting() + silent

    def open(self) -> int:
        """The number of games that are under way."""
        with self._database.read() as connection:
            return _count(connection, _TASKS.is_open)

    def _order(self, connection: Connection, now_ms: int) -> Iterable[int]:
        """People who are silent are played by default actions; authors take turns."""
        silent = select(_task.subject).where(_is_silent(now_ms))
        for number in connection.execute(silent).scalars().all():
            _put(connection, number, answer="", presence=Presence.SILENT)
            _TASKS.end(connection, number, now_ms, TaskState.QUEUED)
        return super()._order(connection, now_ms)

    def _read(self, connection: Connection, task: Row[Any], owner: str, now_ms: int) -> PersonGame:
        row = connection.execute(_SELECT.where(_rows.c.id == task.subject)).one()
        return replace(
            _read_game(connection, row),
            state=TaskState.RUNNING,
            owner=owner,
            attempt=task.attempt + 1,
            changed_at=now_ms,
        )

    def ask(self, lease: PersonGame, decisions: Sequence[Decision]) -> bool:
        """Store the decisions until now, and wait for the person's; False if the lease is lost."""
        with self._database.write() as connection:
            if _TASKS.leased_task(connection, lease) is None:
                return False
            now_ms = now(connection)
            query = select(_rows.c.presence).where(_rows.c.id == lease.id)
            presence = connection.execute(query).scalar_one()
            answer = "" if presence is Presence.LEFT else None
            text = msgspec.json.encode(decisions).decode()
            _put(connection, lease.id, decisions=text, answer=answer)
            until, state = None, TaskState.QUEUED
            if presence is not Presence.LEFT:
                here = presence is Presence.HERE
                patience = lease.season.play.silent_seconds * 1000 if here else SILENT_MS
                until, state = now_ms + patience, TaskState.ASKED
            _TASKS.end(connection, lease.id, now_ms, state, until=until, failures=0, words=None)
            return True

    def finish(self, lease: PersonGame, record: str) -> bool:
        """Store the record of the finished game; False if the lease is lost."""
        with self._database.write() as connection:
            if _TASKS.leased_task(connection, lease) is None:
                return False
            _put(connection, lease.id, record=record, decisions="[]", answer=None)
            _TASKS.end(connection, lease.id, now(connection), TaskState.DONE, words=None)
            return True


def _put(connection: Connection, number: int, **values: object) -> None:
    connection.execute(update(_rows).where(_rows.c.id == number).values(**values))


def _is_silent(now_ms: int) -> ColumnElement[bool]:
    return _TASKS.is_of_kind & (_task.state == TaskState.ASKED) & (_task.until <= now_ms)


def _count(connection: Connection, condition: ColumnElement[bool]) -> int:
    joined = _rows.join(schema.tasks, _TASKS.is_of_kind & (_task.subject == _rows.c.id))
    query = select(func.count()).select_from(joined).where(condition)
    return int(connection.execute(query).scalar_one())


def _row(connection: Connection, game_id: str) -> Row[Any]:
    row = connection.execute(_SELECT.where(_rows.c.game_id == game_id)).first()
    if row is None:
        raise NotOnLadder("there is no such game of a person")
    return row


def _get(connection: Connection, game_id: str) -> PersonGame:
    return _read_game(connection, _row(connection, game_id))


def _read_game(connection: Connection, row: Row[Any]) -> PersonGame:
    return _game(row, _versions(connection, [row])[row.id])


def _versions(connection: Connection, rows: Sequence[Row[Any]]) -> dict[int, list[BotVersion]]:
    """The bots of games, in the order of their seats, by the game's number."""
    query = (
        SELECT_VERSIONS.join(_seats, _seats.c.version_id == schema.bot_versions.c.id)
        .add_columns(_seats.c.person_game_id)
        .where(_seats.c.person_game_id.in_([row.id for row in rows]))
        .order_by(_seats.c.seat)
    )
    versions: dict[int, list[BotVersion]] = {row.id: [] for row in rows}
    for version in connection.execute(query):
        versions[version.person_game_id].append(version_of(version))
    return versions


def _games(connection: Connection, rows: Sequence[Row[Any]]) -> list[PersonGame]:
    """The games in rows of `_SELECT`."""
    versions = _versions(connection, rows)
    return [_game(row, versions[row.id]) for row in rows]


def _game(row: Row[Any], versions: Sequence[BotVersion]) -> PersonGame:
    try:
        return PersonGame(
            id=row.id,
            game_id=row.game_id,
            season=Season.from_json(row.settings),
            author_id=row.author_id,
            visitor=row.visitor,
            person=row.person or "",
            rules=row.rules,
            seed=bytes.fromhex(row.seed),
            seat=row.seat,
            versions=tuple(versions),
            state=_TASKS.state(row),
            presence=row.presence,
            until=row.until if row.state is TaskState.ASKED else None,
            decisions=_read_decisions(row.decisions),
            answer=row.answer,
            reason=row.words or "",
            record=row.record or "",
            created_at=row.created_at,
            changed_at=row.changed_at,
            owner=row.owner or "",
            attempt=row.attempt,
        )
    except (msgspec.MsgspecError, ValueError, TypeError) as error:
        raise StoreDamaged(f"game {row.id} of a person is damaged: {error}") from None
