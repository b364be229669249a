"""Seasons: their settings, which never change, their deadlines, and their secret seeds.

Invariants: game n of a season has the seed `game_seed(season's seed, n)`, and after k leases
without a result `game_seed(season's seed, n, k)`; the commitment to the season's seed is shown when
it opens, and the seed when it is closed and its last game has ended, so that the games' seeds
cannot have been chosen later; a closed season gets no new games.

The settings of the ladder that an operator has changed.

Invariants: each is a number within its range, and every change of it is in the audit log; one that
this program does not know is left alone; for one that is damaged the default is in force.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    Connection,
    Integer,
    Row,
    Select,
    String,
    bindparam,
    delete,
    func,
    insert,
    select,
    type_coerce,
    update,
)

from deepsea_ladder.accounts import MACHINE, Actor, AuditKind
from deepsea_ladder.errors import (
    NotOnLadder,
    SeasonClosed,
    SeasonError,
    StoreDamaged,
    StoreError,
)
from deepsea_ladder.limits import USUAL_LIMITS, RemoteLimits, check_setting, limits_in_force
from deepsea_ladder.model import (
    AttemptEnd,
    BotState,
    Extension,
    StoredSeason,
    SubmissionWindow,
    utc_time,
)
from deepsea_ladder.rating import METHOD
from deepsea_ladder.season import Season
from deepsea_ladder.store import schema
from deepsea_ladder.store.audit import note
from deepsea_ladder.store.authors import deadlines_of, find_author, submission_window
from deepsea_ladder.store.bots import active_bots
from deepsea_ladder.store.database import StorePart, now
from deepsea_ladder.store.history import versions_by_id
from deepsea_ladder.store.submissions import IS_OPEN, bots_of_strangers
from deepsea_ladder.store.sums import read_tallies
from deepsea_ladder.store.tasks import GAMES, end_attempt, give_back
from deepsea_rules.printable import quoted
from deepsea_rules.randomness import SEED_BYTES, commitment

_OVER = "a deadline is in the future: that time is over"
_BY_ID = select(schema.seasons).where(schema.seasons.c.id == bindparam("season"))
_SEED = select(schema.seasons.c.seed).where(schema.seasons.c.id == bindparam("season"))


class Seasons(StorePart):
    def open(
        self,
        season: Season,
        seed: bytes,
        tournament: str | None = None,
        submissions_until: int | None = None,
        actor: Actor = MACHINE,
        entrants: Sequence[int] = (),
    ) -> StoredSeason:
        """Add a season; `seed` is 32 bytes of true randomness that nobody else knows.

        tournament         what it is opened for, if not for rated games
        submissions_until  after it the ladder takes in no bots while this season is open, in
                           milliseconds since 1970
        entrants           versions of the tournament, of which those that are out stay out
        """
        if len(seed) != SEED_BYTES:
            raise StoreError(f"a season's seed has {SEED_BYTES} bytes, not {len(seed)}")
        table = schema.seasons
        with self._database.write() as connection:
            if connection.execute(select(table.c.id).where(table.c.name == season.name)).first():
                raise SeasonError(f"there is a season {season.name!r} already; choose another name")
            now_ms = now(connection)
            if season.isolation == "process" and (theirs := bots_of_strangers(connection)):
                raise SeasonError(
                    f"bots of strangers, such as {theirs[0]!r}, would run without a sandbox in "
                    f"season {season.name!r}: disable them, or choose isolation `sandbox`"
                )
            if submissions_until is not None and submissions_until <= now_ms:
                raise SeasonError(_OVER)
            connection.execute(
                insert(table).values(
                    name=season.name,
                    settings=season.to_json(),
                    seed=seed.hex(),
                    tournament=tournament,
                    method=METHOD,
                    created_at=now_ms,
                    submissions_until=submissions_until,
                    place=0,
                    head=commitment(seed),
                    games=0,
                )
            )
            words = f"opened; commitment {commitment(seed)}"
            note(connection, now_ms, AuditKind.SEASON, season.name, words, actor=actor)
            stored = _get(connection, season.name)
            _leave_out(connection, stored, entrants)
            return stored

    def end_submissions(self, name: str, actor: Actor = MACHINE) -> tuple[list[str], int]:
        """Take in no more bots while an open season goes on; what is to be played and checked yet.

        The bots whose former versions would have ranks if the season were closed now, since the
        present ones are provisional; and the number of submissions that came in time.
        """
        table = schema.seasons
        with self._database.write() as connection:
            stored = _get(connection, name)
            now_ms = now(connection)
            if stored.closed_at is not None:
                return [], 0
            goes_on = stored.submissions_until is None or stored.submissions_until > now_ms
            if goes_on:
                ends = update(table).where(table.c.id == stored.id).values(submissions_until=now_ms)
                connection.execute(ends)
            if _end_extensions(connection, stored.id) or goes_on:
                note(
                    connection, now_ms, AuditKind.SEASON, name, "takes in no more bots", actor=actor
                )
            opened = select(func.count()).select_from(schema.tasks).where(IS_OPEN)
            return _provisional(connection, stored), connection.execute(opened).scalar_one()

    def set_deadline(self, name: str, until: int | None, actor: Actor) -> StoredSeason:
        """Take in bots until this time, in milliseconds since 1970; None: until it is closed."""
        table = schema.seasons
        with self._database.write() as connection:
            stored, now_ms = _taking_bots(connection, name, until)
            change = update(table).where(table.c.id == stored.id).values(submissions_until=until)
            connection.execute(change)
            if until is None:
                _end_extensions(connection, stored.id)
            words = f"takes in bots until {_shown(until)}"
            note(connection, now_ms, AuditKind.SEASON, name, words, actor=actor)
            return _get(connection, name)

    def extend(self, name: str, author: str, until: int | None, actor: Actor) -> None:
        """Let an author submit after the deadline, until this time; None: no longer than others."""
        table = schema.extensions
        with self._database.write() as connection:
            stored, now_ms = _taking_bots(connection, name, until)
            author_id = find_author(connection, author).id
            if stored.submissions_until is None:
                raise SeasonError(f"season {name} has no deadline: nobody needs more time")
            if until is not None and until <= stored.submissions_until:
                last = _shown(stored.submissions_until)
                raise SeasonError(
                    f"season {name} takes in everybody's bots until {last}: say later"
                )
            key = {"season_id": stored.id, "author_id": author_id}
            theirs = (table.c.season_id == stored.id, table.c.author_id == author_id)
            connection.execute(delete(table).where(*theirs))
            if until is not None:
                connection.execute(insert(table).values(**key, until=until))
            words = f"may submit to season {name} until {_shown(until)}"
            if until is None:
                words = f"may submit to season {name} no longer than others"
            note(connection, now_ms, AuditKind.SEASON, "", words, author_id=author_id, actor=actor)

    def extensions(self) -> dict[int, list[Extension]]:
        """The authors with more time, by name, of each season by its id."""
        table, authors = schema.extensions, schema.authors
        query = (
            select(table.c.season_id, authors.c.name, table.c.until)
            .join(authors, authors.c.id == table.c.author_id)
            .order_by(authors.c.name_key)
        )
        found: dict[int, list[Extension]] = defaultdict(list)
        with self._database.read() as connection:
            for season, name, until in connection.execute(query):
                found[season].append(Extension(name, utc_time(until)))
        return found

    def extended(self) -> set[int]:
        """The ids of the authors who have more time than others in some season."""
        with self._database.read() as connection:
            return set(connection.execute(select(schema.extensions.c.author_id)).scalars())

    def deadline_of(self, name: str, author_id: int) -> int | None:
        """The time until which an author may submit to a season; visitors have the id 0."""
        query = deadlines_of(author_id).where(schema.seasons.c.name == name)
        with self._database.read() as connection:
            row = connection.execute(query).first()
            return None if row is None else row.until

    def submission_window(self, author_id: int) -> SubmissionWindow:
        """Say whether an author may submit now, and until when; visitors have the id 0."""
        with self._database.read() as connection:
            return submission_window(connection, now(connection), author_id)

    def set_paused(self, name: str, actor: Actor, *, paused: bool) -> None:
        """Start no more games, or start them again. Games that are being played count."""
        table = schema.seasons
        with self._database.write() as connection:
            stored, now_ms = _get(connection, name), now(connection)
            if stored.closed_at is not None:
                raise SeasonClosed(f"season {name} is closed and gets no games")
            if (stored.paused_at is not None) == paused:
                return
            since = now_ms if paused else None
            connection.execute(update(table).where(table.c.id == stored.id).values(paused_at=since))
            words = "paused" if paused else "resumed"
            note(connection, now_ms, AuditKind.SEASON, name, words, actor=actor)

    def close(self, name: str, actor: Actor = MACHINE) -> tuple[str | None, int]:
        """Close a season; its seed in hex, and how many games are being played.

        Those still count: until they have ended the seed is None, and `close` is to be called
        again.
        """
        table, tasks = schema.seasons, schema.tasks
        with self._database.write() as connection:
            stored = _get(connection, name)
            now_ms = now(connection)
            if stored.closed_at is None:
                connection.execute(
                    update(table)
                    .where(table.c.id == stored.id)
                    .values(closed_at=now_ms, paused_at=None)
                )
                _end_extensions(connection, stored.id)
                ours = tasks.c.season_id == stored.id
                GAMES.cancel_waiting(connection, now_ms, "the season was closed", ours)
                note(connection, now_ms, AuditKind.SEASON, name, "closed", actor=actor)
            in_play = 0
            for task in connection.execute(_leased_games(stored.id)).all():
                if task.until > now_ms:
                    in_play += 1
                else:
                    words = f"the lease of {task.owner} expired"
                    end_attempt(connection, task, task.attempt, AttemptEnd.EXPIRED, words, now_ms)
                    give_back(connection, task, now_ms)  # which cancels it
            seed = None if in_play else seed_of(connection, stored.id).hex()
            return seed, in_play

    def exits(self, season: StoredSeason) -> dict[int, int]:
        """The number of a tournament's last job when a version left, in the order of leaving."""
        table = schema.tournament_exits
        query = select(table.c.version_id, table.c.after_number).order_by(table.c.place)
        with self._database.read() as connection:
            return dict(connection.execute(query.where(table.c.season_id == season.id)).all())

    def get(self, name: str) -> StoredSeason:
        """The season of that name; `StoreError` naming those that there are."""
        with self._database.read() as connection:
            return _get(connection, name)

    def revealed_seed(self, season: StoredSeason) -> str | None:
        """The seed of a closed season, in hex; None while it is open or a game of it is leased.

        A game whose lease has expired may still get its result, until `close` is called again.
        """
        if season.closed_at is None:
            return None
        with self._database.read() as connection:
            leased = _leased_games(season.id).with_only_columns(schema.tasks.c.subject).limit(1)
            if connection.execute(leased).first() is not None:
                return None
            return seed_of(connection, season.id).hex()

    def all(self) -> list[StoredSeason]:
        """Every season that can be read, the oldest first; `damages` names the others."""
        return self._read_all()[0]

    def damages(self) -> list[str]:
        """A line for each season that cannot be read, which is left out of `all`."""
        return self._read_all()[1]

    def _read_all(self) -> tuple[list[StoredSeason], list[str]]:
        """The seasons and the lines of damage, read once within a shared snapshot."""
        rows = schema.seasons

        def read() -> tuple[list[StoredSeason], list[str]]:
            every = select(rows).order_by(rows.c.id)
            return self._database.read_undamaged(
                every, rows.c.id, lambda _, found: [_season(row) for row in found]
            )

        return self._database.once_per_snapshot("seasons", read)


def _leave_out(connection: Connection, season: StoredSeason, entrants: Sequence[int]) -> None:
    """Note which entrants of a tournament were taken out before it began."""
    versions, bots = schema.bot_versions, schema.bots
    out = (
        select(versions.c.id)
        .join(bots, bots.c.id == versions.c.bot_id)
        .where(versions.c.id.in_(entrants), bots.c.state != BotState.ACTIVE)
    )
    rows = [
        {"season_id": season.id, "version_id": version, "after_number": 0, "place": 0}
        for version in connection.execute(out).scalars()
    ]
    if rows:
        connection.execute(insert(schema.tournament_exits), rows)


def _provisional(connection: Connection, season: StoredSeason) -> list[str]:
    """The active bots with few games of the present version, of which a former one has played."""
    pairing = season.settings.pairing
    if pairing.former_versions:  # they have ranks of their own
        return []
    tallies = read_tallies(connection, season)
    bots = active_bots(connection)
    former = versions_by_id(connection, sorted(tallies.keys() - {bot.current.id for bot in bots}))
    replaced = {version.bot for version in former.values()}
    played = {version for version, tally in tallies.items() if not pairing.lacking(tally.games)}
    return [bot.name for bot in bots if bot.name in replaced and bot.current.id not in played]


def _taking_bots(connection: Connection, name: str, until: int | None) -> tuple[StoredSeason, int]:
    """The season and the time now; raises unless it may take in bots until another time."""
    stored, now_ms = _get(connection, name), now(connection)
    if stored.closed_at is not None:
        raise SeasonClosed(f"season {name} is closed and takes in no bots")
    if stored.tournament is not None:
        raise SeasonError(f"season {name} is a tournament's, between bots that are there")
    if until is not None and until <= now_ms:
        raise SeasonError(_OVER)
    return stored, now_ms


def _end_extensions(connection: Connection, season_id: int) -> bool:
    """End the extensions of a season; True if there were any."""
    table = schema.extensions
    ended = connection.execute(delete(table).where(table.c.season_id == season_id))
    return ended.rowcount > 0


def _leased_games(season_id: int) -> Select[Any]:
    """Selects the tasks of a season's games that are being played."""
    return select(schema.tasks).where(GAMES.is_running, schema.tasks.c.season_id == season_id)


def _shown(until: int | None) -> str:
    return "it is closed" if until is None else f"{utc_time(until):%Y-%m-%d %H:%M} UTC"


def by_id(connection: Connection, season_id: int) -> tuple[StoredSeason, bytes]:
    """The season with that id, and its secret."""
    row = connection.execute(_BY_ID, {"season": season_id}).one()
    return _season(row), bytes.fromhex(row.seed)


def seed_of(connection: Connection, season_id: int) -> bytes:
    """A season's secret, from which the seeds of its games are made."""
    return bytes.fromhex(connection.execute(_SEED, {"season": season_id}).scalar_one())


def _get(connection: Connection, name: str) -> StoredSeason:
    table = schema.seasons
    row = connection.execute(select(table).where(table.c.name == name)).first()
    if row is None:
        query = select(table.c.name).order_by(table.c.id)
        names = connection.execute(query).scalars().all()
        known = f"there are {', '.join(names)}" if names else "there are none yet"
        raise NotOnLadder(f"there is no season {name!r}; {known}")
    return _season(row)


def _season(row: Row[tuple[object, ...]]) -> StoredSeason:
    try:
        settings, promised = _constants(row.settings, row.seed)
    except (SeasonError, ValueError, TypeError) as error:
        where = f"table seasons, row {row.id}: season {quoted(row.name, 40)}"
        raise StoreDamaged(f"{where} is damaged: {error}") from None
    return StoredSeason(
        id=row.id,
        settings=settings,
        commitment=promised,
        method=row.method,
        created_at=row.created_at,
        closed_at=row.closed_at,
        place=row.place,
        head=row.head,
        tournament=row.tournament,
        submissions_until=row.submissions_until,
        paused_at=row.paused_at,
        games=row.games,
    )


@lru_cache(maxsize=32)
def _constants(settings: str, seed: str) -> tuple[Season, str]:
    """The settings, and the commitment to the seed. They never change and are read once, since
    every result is compared with them."""
    return Season.from_json(settings), commitment(bytes.fromhex(seed))


_rows = schema.settings
_UNCHECKED = select(type_coerce(_rows.c.name, String()), type_coerce(_rows.c.value, Integer()))


class Settings(StorePart):
    def changed(self) -> dict[str, int]:
        """The settings that do not have their default."""
        with self._database.read() as connection:
            return _changed(connection)

    def limits(self, usual: RemoteLimits = USUAL_LIMITS) -> RemoteLimits:
        """The limits in force; `usual` has the defaults."""
        return limits_in_force(self.changed(), usual)

    def change(self, name: str, value: int | None, actor: Actor) -> None:
        """Set a setting; None: its default again. `SeasonError` for what cannot be."""
        check_setting(name, value)
        with self._database.write() as connection:
            before = _changed(connection).get(name)
            if value == before:
                return
            connection.execute(delete(_rows).where(_rows.c.name == name))
            if value is not None:
                connection.execute(insert(_rows).values(name=name, value=value))
            new, old = ("the default" if one is None else f"{one}" for one in (value, before))
            words = f"{new}, was {old}"
            note(connection, now(connection), AuditKind.SETTING, name, words, actor=actor)


def limits_now(connection: Connection) -> RemoteLimits:
    """The limits in force in the running transaction."""
    return limits_in_force(_changed(connection))


def _changed(connection: Connection) -> dict[str, int]:
    return {name: value for name, value in connection.execute(_UNCHECKED) if _is_one(name, value)}


def _is_one(name: object, value: object) -> bool:
    """True if this can be a setting: for a damaged one the default is in force."""
    if type(name) is not str or type(value) is not int:
        return False
    try:
        check_setting(name, value)
    except SeasonError:
        return False
    return True
