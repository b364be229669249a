"""Seasons with their deadlines and secret seeds, and the settings of the ladder.

Invariants: a season's settings never change. Game n of a season has the seed
`game_seed(season's seed, n)`, and after k leases without a result `game_seed(season's seed, n, k)`.
The commitment to the season's seed is shown when it opens, and the seed when it is closed and its
last game has ended, so that the games' seeds cannot have been chosen later. A closed season gets no
new games. A setting of the ladder is a number within its range, and every change of it is in the
audit log; a stored setting that this program does not know is ignored, and for a damaged one the
default is in force.
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
from deepsea_ladder.season import SeasonSettings
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

_DEADLINE_IS_OVER = "a deadline is in the future: that time is over"
_SEASON_BY_ID = select(schema.seasons).where(schema.seasons.c.id == bindparam("season"))
_SEED_OF_SEASON = select(schema.seasons.c.seed).where(schema.seasons.c.id == bindparam("season"))


class Seasons(StorePart):
    """The store's part for seasons."""

    def open(
        self,
        season: SeasonSettings,
        seed: bytes,
        tournament: str | None = None,
        submissions_until: int | None = None,
        actor: Actor = MACHINE,
        entrants: Sequence[int] = (),
    ) -> StoredSeason:
        """Add a season, and return it as it is stored.

        seed               32 bytes of true randomness that nobody else knows
        tournament         the plan of the tournament that it is opened for, as JSON
        submissions_until  the deadline after which the ladder takes in no bots while this season
                           is open, in milliseconds since 1970
        entrants           ids of the tournament's versions; those whose bot is out of the ladder
                           now stay out of the tournament
        Raises `SeasonError` if the name is taken, if the deadline is over, or if strangers' bots
        would run without a sandbox.
        """
        if len(seed) != SEED_BYTES:
            raise StoreError(f"a season's seed has {SEED_BYTES} bytes, not {len(seed)}")
        table = schema.seasons
        with self._database.write() as connection:
            if connection.execute(select(table.c.id).where(table.c.name == season.name)).first():
                raise SeasonError(f"there is a season {season.name!r} already; choose another name")
            now_ms = now(connection)
            strangers_bots = bots_of_strangers(connection) if season.isolation == "process" else []
            if strangers_bots:
                raise SeasonError(
                    f"bots of strangers, such as {strangers_bots[0]!r}, would run without a "
                    f"sandbox in season {season.name!r}: disable them, or choose isolation "
                    "`sandbox`"
                )
            if submissions_until is not None and submissions_until <= now_ms:
                raise SeasonError(_DEADLINE_IS_OVER)
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
            stored = _season_by_name(connection, season.name)
            _exclude_inactive(connection, stored, entrants)
            return stored

    def end_submissions(self, name: str, actor: Actor = MACHINE) -> tuple[list[str], int]:
        """Let an open season take in no more bots, and return what it still has to wait for.

        That is the names of bots whose current version has too few games, so that a former one
        would be ranked, and the number of submissions that are still to be checked. A closed season
        stays as it is, and gives ([], 0).
        """
        seasons = schema.seasons
        with self._database.write() as connection:
            stored = _season_by_name(connection, name)
            now_ms = now(connection)
            if stored.closed_at is not None:
                return [], 0
            deadline_ms = stored.submissions_until
            was_open_to_bots = deadline_ms is None or deadline_ms > now_ms
            if was_open_to_bots:
                connection.execute(
                    update(seasons)
                    .where(seasons.c.id == stored.id)
                    .values(submissions_until=now_ms)
                )
            had_extensions = _end_extensions(connection, stored.id)
            if was_open_to_bots or had_extensions:
                message = "takes in no more bots"
                note(connection, now_ms, AuditKind.SEASON, name, message, actor=actor)
            query = select(func.count()).select_from(schema.tasks).where(IS_OPEN)
            unchecked_submissions = connection.execute(query).scalar_one()
            return _replaced_by_provisional(connection, stored), unchecked_submissions

    def set_deadline(self, name: str, until: int | None, actor: Actor) -> StoredSeason:
        """Set the time until which a season takes in bots, and return the season.

        Raises `SeasonClosed` for a closed season, and `SeasonError` for a tournament's season and
        for a time that is over.

        until  in milliseconds since 1970; None removes the deadline, so that the season takes in
               bots until it is closed
        """
        seasons = schema.seasons
        with self._database.write() as connection:
            stored, now_ms = _season_for_deadline(connection, name, until)
            connection.execute(
                update(seasons).where(seasons.c.id == stored.id).values(submissions_until=until)
            )
            if until is None:
                _end_extensions(connection, stored.id)  # nobody needs one without a deadline
            message = f"takes in bots until {_time_text(until)}"
            note(connection, now_ms, AuditKind.SEASON, name, message, actor=actor)
            return _season_by_name(connection, name)

    def extend(self, name: str, author: str, until: int | None, actor: Actor) -> None:
        """Let an author submit to a season after its deadline, or end that permission.

        Raises `SeasonClosed`, or `SeasonError` for a season without a deadline, for a time that is
        not after it, and for a tournament's season.

        until  the author's own deadline in milliseconds since 1970; None ends the permission
        """
        table = schema.extensions
        with self._database.write() as connection:
            stored, now_ms = _season_for_deadline(connection, name, until)
            author_id = find_author(connection, author).id
            if stored.submissions_until is None:
                raise SeasonError(f"season {name} has no deadline: nobody needs more time")
            if until is not None and until <= stored.submissions_until:
                deadline = _time_text(stored.submissions_until)
                raise SeasonError(
                    f"season {name} takes in everybody's bots until {deadline}: say later"
                )
            is_own = (table.c.season_id == stored.id, table.c.author_id == author_id)
            connection.execute(delete(table).where(*is_own))
            if until is None:
                message = f"may submit to season {name} no longer than others"
            else:
                row = {"season_id": stored.id, "author_id": author_id, "until": until}
                connection.execute(insert(table).values(row))
                message = f"may submit to season {name} until {_time_text(until)}"
            note(
                connection,
                now_ms,
                AuditKind.SEASON,
                subject="",
                message=message,
                author_id=author_id,
                actor=actor,
            )

    def extensions(self) -> dict[int, list[Extension]]:
        """Return the extensions of each season, by season id, in the order of authors' names."""
        table, authors = schema.extensions, schema.authors
        query = (
            select(table.c.season_id, authors.c.name, table.c.until)
            .join(authors, authors.c.id == table.c.author_id)
            .order_by(authors.c.name_key)
        )
        extensions: dict[int, list[Extension]] = defaultdict(list)
        with self._database.read() as connection:
            for season_id, author, until in connection.execute(query):
                extensions[season_id].append(Extension(author, utc_time(until)))
        return extensions

    def extended(self) -> set[int]:
        """Return the ids of the authors who have an extension in some season."""
        with self._database.read() as connection:
            return set(connection.execute(select(schema.extensions.c.author_id)).scalars())

    def deadline_of(self, name: str, author_id: int) -> int | None:
        """Return the time until which an author may submit to a season, with an extension.

        It is in milliseconds since 1970; None if there is no such limit, or no such season.

        name       the season's name
        author_id  0 for a visitor who is no author
        """
        query = deadlines_of(author_id).where(schema.seasons.c.name == name)
        with self._database.read() as connection:
            row = connection.execute(query).first()
            return None if row is None else row.until

    def submission_window(self, author_id: int) -> SubmissionWindow:
        """Return until when an author may submit, or why not now; visitors have the id 0."""
        with self._database.read() as connection:
            return submission_window(connection, now(connection), author_id)

    def set_paused(self, name: str, actor: Actor, *, paused: bool) -> None:
        """Pause or resume a season: while it is paused, no games of it are started.

        Games that are being played go on and count. Nothing happens if the season is in that state
        already. Raises `SeasonClosed` for a closed season.
        """
        table = schema.seasons
        with self._database.write() as connection:
            stored = _season_by_name(connection, name)
            now_ms = now(connection)
            if stored.closed_at is not None:
                raise SeasonClosed(f"season {name} is closed and gets no games")
            was_paused = stored.paused_at is not None
            if was_paused == paused:
                return
            paused_at = now_ms if paused else None
            is_season = table.c.id == stored.id
            connection.execute(update(table).where(is_season).values(paused_at=paused_at))
            message = "paused" if paused else "resumed"
            note(connection, now_ms, AuditKind.SEASON, name, message, actor=actor)

    def close(self, name: str, actor: Actor = MACHINE) -> tuple[str | None, int]:
        """Close a season, and return its seed in hex and the number of games being played.

        Games that are being played still count: the seed is None until they have ended, and `close`
        has to be called again. Games that wait, or whose lease has expired, are cancelled.
        """
        table, tasks = schema.seasons, schema.tasks
        with self._database.write() as connection:
            stored = _season_by_name(connection, name)
            now_ms = now(connection)
            if stored.closed_at is None:
                connection.execute(
                    update(table)
                    .where(table.c.id == stored.id)
                    .values(closed_at=now_ms, paused_at=None)
                )
                _end_extensions(connection, stored.id)
                is_of_season = tasks.c.season_id == stored.id
                GAMES.cancel_waiting(connection, now_ms, "the season was closed", is_of_season)
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
        """Return when versions left a tournament, by version id, in the order in which they left.

        The time is the number of the tournament's last job before that; 0 for a version that was
        out from the beginning.
        """
        table = schema.tournament_exits
        query = select(table.c.version_id, table.c.after_number).order_by(table.c.place)
        with self._database.read() as connection:
            return dict(connection.execute(query.where(table.c.season_id == season.id)).all())

    def get(self, name: str) -> StoredSeason:
        """Return the season of that name. Raises `NotOnLadder`, which names all seasons."""
        with self._database.read() as connection:
            return _season_by_name(connection, name)

    def revealed_seed(self, season: StoredSeason) -> str | None:
        """Return the secret seed of a closed season, in hex, once it may be published; else None.

        It stays secret while the season is open, and as long as a game is leased, even by an
        expired lease: that game may still get a result, until `close` is called again.
        """
        if season.closed_at is None:
            return None
        leased_games = _leased_games(season.id).with_only_columns(schema.tasks.c.subject)
        with self._database.read() as connection:
            if connection.execute(leased_games.limit(1)).first() is not None:
                return None
            return seed_of(connection, season.id).hex()

    def all(self) -> list[StoredSeason]:
        """Return every season that can be read, the oldest first; `damage_lines` has the others."""
        seasons, _ = self._read_all_once()
        return seasons

    def damage_lines(self) -> list[str]:
        """Return a line for each season that cannot be read, and that `all` leaves out."""
        _, damage_lines = self._read_all_once()
        return damage_lines

    def _read_all_once(self) -> tuple[list[StoredSeason], list[str]]:
        """Return the same as `_read_all`, which is called only once within a snapshot."""
        return self._database.once_per_snapshot("seasons", self._read_all)

    def _read_all(self) -> tuple[list[StoredSeason], list[str]]:
        """Return the seasons that can be read, and a line of damage for each other one."""

        def seasons_of_rows(_: Connection, rows: Sequence[Row[Any]]) -> list[StoredSeason]:
            return [_season_of_row(row) for row in rows]

        table = schema.seasons
        query = select(table).order_by(table.c.id)
        return self._database.read_undamaged(query, table.c.id, seasons_of_rows)


def _exclude_inactive(
    connection: Connection, season: StoredSeason, entrants: Sequence[int]
) -> None:
    """Store which entrants of a tournament are out of the ladder already when it begins.

    They stay out of the tournament, even if their bots become active again.

    entrants  the ids of the versions that were entered
    """
    versions, bots = schema.bot_versions, schema.bots
    inactive_versions = (
        select(versions.c.id)
        .join(bots, bots.c.id == versions.c.bot_id)
        .where(versions.c.id.in_(entrants), bots.c.state != BotState.ACTIVE)
    )
    # With 0 as the number of the last job, they left before the first one.
    rows = [
        {"season_id": season.id, "version_id": version_id, "after_number": 0, "place": 0}
        for version_id in connection.execute(inactive_versions).scalars()
    ]
    if rows:
        connection.execute(insert(schema.tournament_exits), rows)


def _replaced_by_provisional(connection: Connection, season: StoredSeason) -> list[str]:
    """Return the names of active bots that are ranked by a former version if a season ends now.

    Their current version has too few games so far, and a former one has played in the season.
    """
    pairing = season.settings.pairing
    if pairing.former_versions:  # former versions play on, and have ranks of their own
        return []
    tallies = read_tallies(connection, season)
    bots = active_bots(connection)
    current_ids = {bot.current.id for bot in bots}
    former_versions = versions_by_id(connection, sorted(tallies.keys() - current_ids))
    bots_with_former_version = {version.bot for version in former_versions.values()}
    ids_with_enough_games = {
        version_id for version_id, tally in tallies.items() if not pairing.lacking(tally.games)
    }
    return [
        bot.name
        for bot in bots
        if bot.name in bots_with_former_version and bot.current.id not in ids_with_enough_games
    ]


def _season_for_deadline(
    connection: Connection, name: str, until: int | None
) -> tuple[StoredSeason, int]:
    """Return a season whose deadline is about to be set to `until`, and the present time.

    Raises `SeasonClosed` if it is closed, and `SeasonError` if it is a tournament's or if that time
    is over.
    """
    stored = _season_by_name(connection, name)
    now_ms = now(connection)
    if stored.closed_at is not None:
        raise SeasonClosed(f"season {name} is closed and takes in no bots")
    if stored.tournament is not None:
        raise SeasonError(f"season {name} is a tournament's, between bots that are there")
    if until is not None and until <= now_ms:
        raise SeasonError(_DEADLINE_IS_OVER)
    return stored, now_ms


def _end_extensions(connection: Connection, season_id: int) -> bool:
    """End all extensions of a season. Returns False if there were none."""
    table = schema.extensions
    result = connection.execute(delete(table).where(table.c.season_id == season_id))
    return result.rowcount > 0


def _leased_games(season_id: int) -> Select[Any]:
    """Return the query of the tasks of a season's games that are leased."""
    return select(schema.tasks).where(GAMES.is_running, schema.tasks.c.season_id == season_id)


def _time_text(until: int | None) -> str:
    """Return the end of submissions for a message, to follow on "until"."""
    return "it is closed" if until is None else f"{utc_time(until):%Y-%m-%d %H:%M} UTC"


def season_and_seed(connection: Connection, season_id: int) -> tuple[StoredSeason, bytes]:
    """Return the season with that id, and its secret seed."""
    row = connection.execute(_SEASON_BY_ID, {"season": season_id}).one()
    return _season_of_row(row), bytes.fromhex(row.seed)


def seed_of(connection: Connection, season_id: int) -> bytes:
    """Return a season's secret seed, from which the seeds of its games follow."""
    return bytes.fromhex(connection.execute(_SEED_OF_SEASON, {"season": season_id}).scalar_one())


def _season_by_name(connection: Connection, name: str) -> StoredSeason:
    """Return the season of that name. Raises `NotOnLadder`, which names all seasons."""
    table = schema.seasons
    row = connection.execute(select(table).where(table.c.name == name)).first()
    if row is None:
        query = select(table.c.name).order_by(table.c.id)
        names = connection.execute(query).scalars().all()
        known = f"there are {', '.join(names)}" if names else "there are none yet"
        raise NotOnLadder(f"there is no season {name!r}; {known}")
    return _season_of_row(row)


def _season_of_row(row: Row[tuple[object, ...]]) -> StoredSeason:
    """Return the season in a row. Raises `StoreDamaged` if its settings or seed cannot be read."""
    try:
        settings, seed_commitment = _settings_and_commitment(row.settings, row.seed)
    except (SeasonError, ValueError, TypeError) as error:
        location = f"table seasons, row {row.id}: season {quoted(row.name, 40)}"
        raise StoreDamaged(f"{location} is damaged: {error}") from None
    return StoredSeason(
        id=row.id,
        settings=settings,
        commitment=seed_commitment,
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
def _settings_and_commitment(settings: str, seed: str) -> tuple[SeasonSettings, str]:
    """Return a season's settings of their JSON, and the commitment to its seed in hex.

    Cached, since they never change and every result of a game needs them.
    """
    return SeasonSettings.from_json(settings), commitment(bytes.fromhex(seed))


# ----- Settings of the ladder

_settings = schema.settings
# As plain types, whose values are not checked: a damaged setting is ignored.
_STORED_SETTINGS = select(
    type_coerce(_settings.c.name, String()), type_coerce(_settings.c.value, Integer())
)


class Settings(StorePart):
    """The store's part for the settings of the ladder."""

    def changed(self) -> dict[str, int]:
        """Return the settings that do not have their default, by name."""
        with self._database.read() as connection:
            return _changed_settings(connection)

    def limits(self, usual: RemoteLimits = USUAL_LIMITS) -> RemoteLimits:
        """Return the limits in force; `usual` has the defaults."""
        return limits_in_force(self.changed(), usual)

    def change(self, name: str, value: int | None, actor: Actor) -> None:
        """Store another value of a setting, and note the change in the audit log.

        Raises `SeasonError` if there is no such setting, or if it cannot have this value.

        value  the new value; None stands for the default, of which nothing is stored
        """
        check_setting(name, value)
        with self._database.write() as connection:
            old_value = _changed_settings(connection).get(name)
            if value == old_value:
                return
            connection.execute(delete(_settings).where(_settings.c.name == name))
            if value is not None:
                connection.execute(insert(_settings).values(name=name, value=value))
            change = f"{_value_text(value)}, was {_value_text(old_value)}"
            note(connection, now(connection), AuditKind.SETTING, name, change, actor=actor)


def limits_now(connection: Connection) -> RemoteLimits:
    """Return the limits in force in the running transaction."""
    return limits_in_force(_changed_settings(connection))


def _value_text(value: int | None) -> str:
    return "the default" if value is None else str(value)


def _changed_settings(connection: Connection) -> dict[str, int]:
    """Return the stored settings by name, without those that are damaged or not known."""
    rows = connection.execute(_STORED_SETTINGS)
    return {name: value for name, value in rows if _is_valid_setting(name, value)}


def _is_valid_setting(name: object, value: object) -> bool:
    """Return True if a setting has this name and may have this value."""
    if type(name) is not str or type(value) is not int:
        return False
    try:
        check_setting(name, value)
    except SeasonError:
        return False
    return True
