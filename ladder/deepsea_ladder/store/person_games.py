"""Games of people against bots, which runners play step by step, each up to a person's decision.

Invariants: a game is its seed and its stored decisions, so that another step can go on from there
after any process has died; between two steps no lease is held and no process is needed; an answer
counts only for the decision that it was made for; for a person who is silent for too long default
actions are played until the next answer; a game whose steps failed too often is void, with the
reason. These games enter no chain, no rating and no season's list of games.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec.structs import replace
from sqlalchemy import ColumnElement, Connection, Row, Select, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from deepsea_ladder.errors import (
    NotOnLadder,
    PersonGameError,
    SeasonClosed,
    SeasonPaused,
    StoreDamaged,
)
from deepsea_ladder.limits import DAY_MS, check_person_games
from deepsea_ladder.model import BotVersion, PersonGame, Presence, TaskKind, TaskState
from deepsea_ladder.season import SeasonSettings
from deepsea_ladder.store import schema
from deepsea_ladder.store.database import insert_row, now
from deepsea_ladder.store.history import SELECT_VERSIONS, version_of
from deepsea_ladder.store.seasons import limits_now, season_and_seed
from deepsea_ladder.store.tasks import TaskLine, Tasks
from deepsea_rules.game import Decision

SILENT_MS = 10_000
"""Milliseconds for which each further decision waits for a person who was silent before."""
_person_games, _bot_seats, _seasons = schema.person_games, schema.person_game_seats, schema.seasons
_TASKS = Tasks(TaskKind.STEP)
_task = schema.tasks.c
_read_decisions = msgspec.json.Decoder(tuple[Decision, ...]).decode
_SELECT_PERSON_GAMES: Select[Any] = _TASKS.join(
    select(_person_games, _seasons.c.settings, schema.authors.c.name.label("person"))
    .join(_seasons, _seasons.c.id == _person_games.c.season_id)
    .outerjoin(schema.authors, schema.authors.c.id == _person_games.c.author_id),
    _person_games.c.id,
)


class PersonGames(TaskLine[PersonGame]):
    """The store's part for games of people."""

    tasks = _TASKS

    # Called for people

    def begin(
        self, versions: Sequence[int], *, author_id: int | None, address: str, **new: Any
    ) -> PersonGame:
        """Begin a game of a person against bots, and return it.

        versions   ids of the bots' versions, in the order of their seats
        author_id  None for a visitor
        address    the first part of the visitor's address; visitors with the same one count as one
                   person
        new        the row's `game_id`, `season_id`, `visitor`, `rules`, `seed` and `seat`
        Raises `LimitReached`, `SeasonClosed` or `SeasonPaused`.
        """
        with self._database.write() as connection:
            season, _ = season_and_seed(connection, new["season_id"])
            if season.closed_at is not None:
                raise SeasonClosed(f"the season {season.name!r} is closed")
            if season.paused_at is not None:
                raise SeasonPaused(f"the season {season.name!r} is paused")
            now_ms = now(connection)
            is_own = _person_games.c.author_id == author_id
            if author_id is None:
                is_own = _person_games.c.author_id.is_(None) & (_person_games.c.address == address)
            starts = select(_person_games.c.created_at).where(
                is_own, _person_games.c.created_at > now_ms - DAY_MS
            )
            check_person_games(
                limits_now(connection),
                games_under_way=_count_games(connection, _TASKS.is_open),
                own_games=_count_games(connection, _TASKS.is_open & is_own),
                times=connection.execute(starts.order_by(_person_games.c.created_at))
                .scalars()
                .all(),
                now=now_ms,
            )
            row = insert(_person_games).values(
                **{**new, "seed": new["seed"].hex()},
                author_id=author_id,
                address=address,
                presence=Presence.HERE,
                decisions="[]",
                created_at=now_ms,
            )
            game_number = insert_row(connection, row)
            _TASKS.add(connection, now_ms, [{"subject": game_number, "author_id": author_id}])
            bot_seats = [seat for seat in range(len(versions) + 1) if seat != new["seat"]]
            for seat, version in zip(bot_seats, versions, strict=True):
                values = {"person_game_id": game_number, "seat": seat, "version_id": version}
                connection.execute(insert(_bot_seats).values(**values))
            return _game_by_id(connection, new["game_id"])

    def get(self, game_id: str) -> PersonGame:
        """Return a game of a person. Raises `NotOnLadder` if there is none."""
        with self._database.read() as connection:
            return _game_by_id(connection, game_id)

    def of_person(self, author_id: int | None, visitor: str | None, limit: int) -> list[PersonGame]:
        """Return up to `limit` games of a person, the newest first.

        author_id  the person's id as an author; None for a visitor
        visitor    the cookie by which a visitor's games are known
        """
        is_own = _person_games.c.author_id == author_id
        if author_id is None:
            is_own = _person_games.c.author_id.is_(None) & (_person_games.c.visitor == visitor)
        query = _SELECT_PERSON_GAMES.where(is_own).order_by(_person_games.c.id.desc()).limit(limit)
        return self._database.read_undamaged(query, _person_games.c.id, _games_of_rows)[0]

    def answer(self, game_id: str, number: int, action: str, *, whole: bool = True) -> None:
        """Store a person's answer to a decision, so that a runner can continue the game.

        Raises `PersonGameError` if that decision is not due now. Even then, the answer shows that a
        person who was silent is here again.

        number  the number of the decision in the game, from 0
        action  the answer
        whole   False for the first part of an answer that the person goes on choosing: it is
                stored, but the game does not go on yet
        """
        with self._database.write() as connection:
            game = _game_by_id(connection, game_id)
            now_ms = now(connection)
            waits_for_person = game.state is TaskState.ASKED and game.presence is not Presence.LEFT
            is_due = waits_for_person and number == len(game.decisions)
            was_silent = waits_for_person and game.presence is Presence.SILENT
            if is_due:
                _update_row(connection, game.id, answer=action, presence=Presence.HERE)
            elif was_silent:
                _update_row(connection, game.id, presence=Presence.HERE)
            if is_due and whole:
                self._queue_again(connection, _TASKS.get(connection, game.id), now_ms)
            elif is_due or was_silent:
                # The person is here, and gets the whole time for the decision that is due.
                until = now_ms + game.season.play.silent_seconds * 1000
                _TASKS.put(connection, game.id, now_ms, until=until)
        # Raised behind the transaction, which an exception would undo.
        if not is_due:
            raise PersonGameError("that decision has been made already, or another one is due")

    def leave(self, game_id: str, *, drop: bool = False) -> None:
        """Store that the person has left; default actions are played for the person from now on.

        Nothing happens if the game has ended.

        drop  True ends the game at once instead, as void
        """
        with self._database.write() as connection:
            row = _row_of_game(connection, game_id)
            now_ms = now(connection)
            if _TASKS.state(row).is_final:
                return
            _update_row(connection, row.id, presence=Presence.LEFT)
            if drop:
                reason = "its person dropped it"
                _TASKS.end(connection, row.id, now_ms, TaskState.VOID, words=reason)
            elif row.state is TaskState.ASKED:
                _update_row(connection, row.id, answer="")  # the default action
                _TASKS.end(connection, row.id, now_ms, TaskState.QUEUED)
            else:
                # A runner plays the game or will lease it. This counts as a change of the game, so
                # that its pages show that the person has left.
                _TASKS.put(connection, row.id, now_ms)

    # Called by runners

    def waiting(self) -> int:
        """Return the number of games that a runner can continue now."""
        with self._database.read() as connection:
            silent = _count_games(connection, _has_silent_person(now(connection)))
        return super().waiting() + silent

    def open(self) -> int:
        """Return the number of games that have not ended."""
        with self._database.read() as connection:
            return _count_games(connection, _TASKS.is_open)

    def _leasable_in_order(self, connection: Connection, now_ms: int) -> Iterable[int]:
        """Return the numbers of the games that a runner can continue now, the next one first.

        Games of people who have been silent for too long are among them: before that, these games
        get the default action as the person's answer, and then wait for a runner.
        """
        silent_games = select(_task.subject).where(_has_silent_person(now_ms))
        for game_number in connection.execute(silent_games).scalars().all():
            # A row with a damaged value refuses changes; the game is set aside when it is read.
            with suppress(IntegrityError):
                _update_row(connection, game_number, answer="", presence=Presence.SILENT)
            _TASKS.end(connection, game_number, now_ms, TaskState.QUEUED)
        return super()._leasable_in_order(connection, now_ms)

    def _read_lease(
        self, connection: Connection, task: Row[Any], owner: str, now_ms: int
    ) -> PersonGame:
        """Return the lease of a waiting game for `owner`, the runner that takes it."""
        row = connection.execute(
            _SELECT_PERSON_GAMES.where(_person_games.c.id == task.subject)
        ).one()
        return replace(
            _game_with_versions(connection, row),
            state=TaskState.RUNNING,
            owner=owner,
            attempt=task.attempt + 1,
            changed_at=now_ms,
        )

    def ask(self, lease: PersonGame, decisions: Sequence[Decision]) -> bool:
        """End a lease at a decision of the person, and wait for the person's answer.

        If the person has left, the game gets the default action as the answer, and waits for a
        runner instead. Returns False, and changes nothing, if the lease does not hold any more.

        decisions  all decisions of the game before that one
        """
        with self._database.write() as connection:
            if _TASKS.leased_task(connection, lease) is None:
                return False
            now_ms = now(connection)
            query = select(_person_games.c.presence).where(_person_games.c.id == lease.id)
            presence = connection.execute(query).scalar_one()
            state = TaskState.ASKED
            deadline_ms: int | None = None  # when the person counts as silent
            answer: str | None = None
            if presence is Presence.LEFT:
                state = TaskState.QUEUED
                answer = ""  # the default action
            elif presence is Presence.HERE:
                deadline_ms = now_ms + lease.season.play.silent_seconds * 1000
            else:  # silent at an earlier decision: this one waits for a shorter time
                deadline_ms = now_ms + SILENT_MS
            text = msgspec.json.encode(decisions).decode()
            _update_row(connection, lease.id, decisions=text, answer=answer)
            _TASKS.end(
                connection, lease.id, now_ms, state, until=deadline_ms, failures=0, words=None
            )
            return True

    def finish(self, lease: PersonGame, record: str) -> bool:
        """Store the record of a finished game in place of its decisions.

        Returns False, and changes nothing, if the lease does not hold any more.
        """
        with self._database.write() as connection:
            if _TASKS.leased_task(connection, lease) is None:
                return False
            _update_row(connection, lease.id, record=record, decisions="[]", answer=None)
            _TASKS.end(connection, lease.id, now(connection), TaskState.DONE, words=None)
            return True


def _update_row(connection: Connection, game_number: int, **values: object) -> None:
    """Set columns of a game's own row."""
    connection.execute(
        update(_person_games).where(_person_games.c.id == game_number).values(**values)
    )


def _has_silent_person(now_ms: int) -> ColumnElement[bool]:
    """Return the condition that a task waits for a person who has not answered in time."""
    return _TASKS.is_of_kind & (_task.state == TaskState.ASKED) & (_task.until <= now_ms)


def _count_games(connection: Connection, condition: ColumnElement[bool]) -> int:
    """Return the number of games that meet a condition on their row and their task."""
    joined = _person_games.join(
        schema.tasks, _TASKS.is_of_kind & (_task.subject == _person_games.c.id)
    )
    query = select(func.count()).select_from(joined).where(condition)
    return int(connection.execute(query).scalar_one())


def _row_of_game(connection: Connection, game_id: str) -> Row[Any]:
    """Return the row of a game in `_SELECT_PERSON_GAMES`.

    Raises `NotOnLadder` if there is no such game.
    """
    row = connection.execute(_SELECT_PERSON_GAMES.where(_person_games.c.game_id == game_id)).first()
    if row is None:
        raise NotOnLadder("there is no such game of a person")
    return row


def _game_by_id(connection: Connection, game_id: str) -> PersonGame:
    """Return a game of a person. Raises `NotOnLadder` if there is none."""
    return _game_with_versions(connection, _row_of_game(connection, game_id))


def _game_with_versions(connection: Connection, row: Row[Any]) -> PersonGame:
    """Return the game of a row of `_SELECT_PERSON_GAMES`, with the versions of its bots."""
    return _game_of_row(row, _versions_of_games(connection, [row])[row.id])


def _versions_of_games(
    connection: Connection, rows: Sequence[Row[Any]]
) -> dict[int, list[BotVersion]]:
    """Return the versions of the bots in games, in the order of their seats, by game number.

    rows  the rows of the games in `person_games`
    """
    query = (
        SELECT_VERSIONS.join(_bot_seats, _bot_seats.c.version_id == schema.bot_versions.c.id)
        .add_columns(_bot_seats.c.person_game_id)
        .where(_bot_seats.c.person_game_id.in_([row.id for row in rows]))
        .order_by(_bot_seats.c.seat)
    )
    versions: dict[int, list[BotVersion]] = {row.id: [] for row in rows}
    for row in connection.execute(query):
        versions[row.person_game_id].append(version_of(row))
    return versions


def _games_of_rows(connection: Connection, rows: Sequence[Row[Any]]) -> list[PersonGame]:
    """Return the games of rows of `_SELECT_PERSON_GAMES`."""
    versions = _versions_of_games(connection, rows)
    return [_game_of_row(row, versions[row.id]) for row in rows]


def _game_of_row(row: Row[Any], versions: Sequence[BotVersion]) -> PersonGame:
    """Return the game in a row of `_SELECT_PERSON_GAMES`.

    Raises `StoreDamaged` if the game cannot be read.

    versions  the versions of its bots, in the order of their seats
    """
    try:
        return PersonGame(
            id=row.id,
            game_id=row.game_id,
            season=SeasonSettings.from_json(row.settings),
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
