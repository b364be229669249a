"""Bots and their versions; how bots are submitted, withdrawn, disabled, suspended and enabled.

Start reading at `admissible` and `accept`, then `suspend_strikers`.

Invariants: a version is written once, with its number and the digest of its files, and never
changed; the newest version of a bot is the one that plays; a bot that is not active gets no games,
and has the reason for that; a name belongs to the first author who used it; a bot with too many
strikes is suspended in the transaction of the game that was the last strike. Strikes are counted
from games and attempts, so that there is no counter that could differ from them; games of former
versions, and those scheduled before the bot was enabled, do not count.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    Connection,
    Integer,
    Row,
    Select,
    bindparam,
    exists,
    func,
    insert,
    or_,
    select,
    true,
    update,
)

from deepsea_bundle import names
from deepsea_bundle.atomic import stored_files
from deepsea_bundle.errors import BundleDamaged
from deepsea_ladder.accounts import NOBODY, Actor, AuditKind, AuthorState
from deepsea_ladder.bot_states import Appearance, BotDeed, StrikeRules, conduct, state_after
from deepsea_ladder.errors import NotOnLadder, StoreDamaged, StoreError, SubmissionError
from deepsea_ladder.limits import RemoteLimits, check_bot_count
from deepsea_ladder.model import (
    AttemptEnd,
    BotConduct,
    BotState,
    BotVersion,
    LadderBot,
    StoredSeason,
)
from deepsea_ladder.season import SeasonSettings
from deepsea_ladder.store import schema
from deepsea_ladder.store.audit import note
from deepsea_ladder.store.authors import check_window, ensure_author
from deepsea_ladder.store.database import StorePart, bots_without_version, insert_row, now
from deepsea_ladder.store.history import (
    IS_CURRENT,
    SELECT_BOTS,
    SELECT_VERSIONS,
    seat_result,
    version_of,
    versions_by_id,
)
from deepsea_ladder.store.tasks import cancel_games_of
from deepsea_rules.printable import printable

if TYPE_CHECKING:
    from deepsea_bundle.reader import BotBundle

_CURRENT_BOTS = SELECT_BOTS.where(IS_CURRENT)
"""Selects each bot with its current version, which is the one that plays."""
_ACTIVE_BOTS = _CURRENT_BOTS.where(schema.bots.c.state == BotState.ACTIVE)
_ACTIVE_VALUES = {"state": BotState.ACTIVE, "reason": None, "is_damaged": False}
"""Columns of an active bot."""
_LAST_JOB_ID = select(func.coalesce(func.max(schema.jobs.c.id), 0)).scalar_subquery()
"""The id of the newest job. Bots and versions store it instead of a time, which may be wrong."""
_SHARED_DIGESTS = (
    select(schema.bot_versions.c.digest)
    .join(schema.bots, schema.bots.c.id == schema.bot_versions.c.bot_id)
    .group_by(schema.bot_versions.c.digest)
    .having(func.count(schema.bots.c.author_id.distinct()) > 1)
)
"""Selects the digests of files that several authors have submitted."""


class Bots(StorePart):
    """The bots of a ladder, their versions and their files."""

    def strikes(self, seasons: Sequence[StoredSeason]) -> dict[int, list[BotConduct]]:
        """Return how many of their newest games active bots spoiled or made void, by season id.

        Bots without such games are left out. The bots of a season are sorted by name.
        """
        rules = self._policy.strikes
        by_season: dict[int, list[BotConduct]] = {season.id: [] for season in seasons}
        parameters = {"seasons": list(by_season), **_appearance_limits(rules)}
        with self._database.read() as connection:
            rows = connection.execute(_APPEARANCES_IN_SEASONS, parameters).all()
            season_and_bot = attrgetter("of_season", "bot")  # the rows are sorted by both
            for (season_id, bot_name), rows_of_bot in groupby(rows, key=season_and_bot):
                appearances = [_appearance_of_row(row) for row in rows_of_bot]
                bot_conduct, _ = conduct(bot_name, appearances, rules)
                if bot_conduct.spoiled or bot_conduct.voids:
                    by_season[season_id].append(bot_conduct)
        return by_season

    def submit(
        self, name: str, author: str, bundle: BotBundle, actor: Actor = NOBODY
    ) -> BotVersion:
        """Accept a bot without admission games, and return its version.

        A missing author is added. There is no new version if the current one has the same files.
        Raises the errors of `admissible` and `check_window`, and `AccountError` for an author who
        is blocked or anonymised.
        """
        packed = zlib.compress(bundle.archive)
        with self._database.write() as connection:
            now_ms = now(connection)
            author_id = ensure_author(connection, author, now_ms)
            check_window(connection, now_ms, author_id)
            bot = admissible(connection, author_id, name=name, digest=bundle.digest)
            return accept(connection, author_id, bot, name, bundle.digest, packed, now_ms, actor)

    def withdraw(
        self, name: str, reason: str = "withdrawn by its author", actor: Actor = NOBODY
    ) -> LadderBot:
        """Take a bot out of the ladder for its author, and return it.

        Raises `SubmissionError` for a bot that is disabled or suspended (see `bot_states`).
        """
        return self._take_out_named(name, BotDeed.WITHDRAW, reason, actor)

    def disable(self, name: str, reason: str, actor: Actor = NOBODY) -> LadderBot:
        """Disable a bot for an operator."""
        return self._take_out_named(name, BotDeed.DISABLE, reason, actor)

    def _take_out_named(self, name: str, deed: BotDeed, reason: str, actor: Actor) -> LadderBot:
        """Take out the bot with this name and return it. Raises `NotOnLadder`."""
        with self._database.write() as connection:
            _take_out(connection, _bot_row(connection, name), deed, reason, now(connection), actor)
            return _bot_named(connection, name)

    def enable(self, name: str, actor: Actor = NOBODY) -> LadderBot:
        """Make a bot active again. Its earlier games no longer count as strikes."""
        with self._database.write() as connection:
            enable(connection, name, now(connection), actor)
            return _bot_named(connection, name)

    def get(self, name: str) -> LadderBot:
        """Return a bot by its name. Raises `NotOnLadder`."""
        with self._database.read() as connection:
            return _bot_named(connection, name)

    def all(self, author_id: int | None = None) -> list[LadderBot]:
        """Return every bot that can be read, by name; with `author_id` only those of an author."""
        query = _CURRENT_BOTS.order_by(schema.bots.c.name_key)
        if author_id is not None:
            query = query.where(schema.bots.c.author_id == author_id)
        return self._read_undamaged(query)[0]

    def damage_lines(self) -> list[str]:
        """Return a line on the damage of each bot that `all` leaves out, since it cannot be read.

        Either one of its rows is damaged, or its current version is missing.
        """
        _, lines = self._read_undamaged(_CURRENT_BOTS)
        try:
            with self._database.read() as connection:
                lines += bots_without_version(connection)
        except StoreDamaged as error:  # the number of a version cannot be read
            lines.append(str(error))
        # All bots of an author whose row is damaged have the same line: show it once.
        return list(dict.fromkeys(lines))

    def _read_undamaged(self, query: Select[Any]) -> tuple[list[LadderBot], list[str]]:
        """Return the bots that can be read, and a line of damage for each other one."""
        return self._database.read_undamaged(
            query, schema.bot_versions.c.id, lambda _, rows: [_bot_of_row(row) for row in rows]
        )

    def versions(self, name: str) -> list[BotVersion]:
        """Return every version of a bot, the oldest first. Raises `NotOnLadder`."""
        _, versions = self.with_versions(name)
        return versions

    def with_versions(self, name: str) -> tuple[LadderBot, list[BotVersion]]:
        """Return a bot and all its versions, the oldest first.

        Raises `NotOnLadder` if there is no bot of this name.
        """
        query = SELECT_BOTS.where(schema.bots.c.name_key == names.key(name))
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(schema.bot_versions.c.number)).all()
            if not rows:
                raise _missing_bot(connection, name)
        current_row = rows[-1]
        return _bot_of_row(current_row), [version_of(row) for row in rows]

    def versions_of(self, ids: Sequence[int]) -> list[BotVersion]:
        """Return the versions with these ids, sorted by id."""
        with self._database.read() as connection:
            versions = versions_by_id(connection, list(ids))
        return [versions[version_id] for version_id in sorted(versions)]

    def shared_files(self) -> list[tuple[BotVersion, ...]]:
        """Return the versions whose files several authors have submitted, grouped by their files.

        Each group begins with its oldest version, and groups are in the order of these versions.
        Versions that cannot be read are left out.
        """

        def versions_of_rows(_: Connection, rows: Sequence[Row[Any]]) -> list[BotVersion]:
            return [version_of(row) for row in rows]

        version_id = schema.bot_versions.c.id
        query = SELECT_VERSIONS.where(schema.bot_versions.c.digest.in_(_SHARED_DIGESTS))
        versions, _ = self._database.read_undamaged(
            query.order_by(version_id), version_id, versions_of_rows
        )
        by_digest: dict[str, list[BotVersion]] = {}
        for version in versions:
            by_digest.setdefault(version.digest, []).append(version)
        return [tuple(group) for group in by_digest.values()]

    def archive(self, digest: str) -> bytes:
        """Return the packed files with this digest, which `bot_cache.unpack` can unpack.

        Raises `NotOnLadder` if no version has them, and `StoreDamaged` if they are damaged.
        """
        table = schema.archives
        with self._database.read() as connection:
            query = select(table.c.content).where(table.c.digest == digest)
            content = connection.execute(query).scalar_one_or_none()
        if content is None:
            raise NotOnLadder(f"no version has the digest {digest}")
        try:
            return zlib.decompress(content)
        except zlib.error as error:
            raise StoreDamaged(f"the stored files of {digest} are damaged: {error}") from None


def admissible(
    connection: Connection,
    author_id: int,
    *,
    name: str | None = None,
    digest: str | None = None,
    needs_sandbox: bool = False,
    limits: RemoteLimits | None = None,
) -> LadderBot | None:
    """Return the author's bot with this name; None if a submission would make a new bot.

    Raises an error if the author may not submit this bot.

    name, digest   those of the submitted bot; None as long as its files have not been read
    needs_sandbox  the bot may come from a stranger, so that no open season may play bots without a
                   sandbox
    limits         limits of the number of an author's bots; None for no limit

    It is a `BundleError` for a name that is not allowed, `LimitReached` for too many bots, and
    `SubmissionError` for an author who is not active, for the name of another author's bot, for
    files that another bot of the author has, unless that one is withdrawn, and for a bot whose
    state does not allow this submission (see `bot_states`).
    """
    _check_author(connection, author_id)
    if needs_sandbox:
        _check_isolation(connection)
    if name is None:
        return None
    names.valid_bot_name("the bot's name", name)
    bot = _own_bot(connection, author_id, name)
    if limits is not None and (bot is None or bot.state is BotState.WITHDRAWN):
        _check_number_of_bots(connection, author_id, limits)
    is_playing = False
    if bot is not None:
        has_same_files = bot.current.digest == digest
        deed = BotDeed.OTHER_FILES
        if has_same_files:
            deed = BotDeed.WHOLE_FILES if bot.is_damaged else BotDeed.SAME_FILES
        state_after(deed, bot.name, bot.state, bot.reason)  # raises if this is not allowed
        is_playing = has_same_files and bot.state is BotState.ACTIVE
    if digest is not None and not is_playing:
        _check_files_of_other_bots(connection, author_id, name, digest)
    return bot


def accept(
    connection: Connection,
    author_id: int,
    bot: LadderBot | None,
    name: str,
    digest: str,
    packed: bytes,
    now_ms: int,
    actor: Actor,
) -> BotVersion:
    """Accept a submitted bot, make it active, and return its version.

    This is the current version if it has the same files, else a new one.

    bot     the result of `admissible`: the author's bot with this name, if there is one
    digest  that of the files
    packed  the packed files, compressed with zlib
    """
    _store_files(connection, digest, packed)
    if bot is not None and bot.current.digest == digest:
        if bot.state is not BotState.ACTIVE:
            enable(connection, bot.name, now_ms, actor)
        return bot.current
    number = bot.current.number + 1 if bot else 1
    values = {"version": number, **_ACTIVE_VALUES, "changed_at": now_ms}
    if bot:
        bot_id = _bot_row(connection, name).bot_id
        connection.execute(update(schema.bots).where(schema.bots.c.id == bot_id).values(values))
    else:
        bot_id = insert_row(
            connection,
            insert(schema.bots).values(
                author_id=author_id,
                name=name,
                name_key=names.key(name),
                created_at=now_ms,
                pardoned_job=0,
                **values,
            ),
        )
    connection.execute(
        insert(schema.bot_versions).values(
            bot_id=bot_id, number=number, digest=digest, created_at=now_ms, after_job=_LAST_JOB_ID
        )
    )
    words = f"version {number}: {digest}"
    note(connection, now_ms, AuditKind.SUBMITTED, name, words, author_id=author_id, actor=actor)
    return _bot_named(connection, name).current


def _check_author(connection: Connection, author_id: int) -> None:
    """Raise `SubmissionError` if an author is blocked or anonymised."""
    table = schema.authors
    row = connection.execute(select(table).where(table.c.id == author_id)).one()
    if row.state != AuthorState.ACTIVE:
        raise SubmissionError(f"this author is {row.state}", "ask whoever runs the ladder")


def _check_isolation(connection: Connection) -> None:
    """Raise `SubmissionError` if an open season plays bots without a sandbox."""
    table = schema.seasons
    open_seasons = select(table.c.settings).where(table.c.closed_at.is_(None)).order_by(table.c.id)
    for settings in connection.execute(open_seasons).scalars():
        season = SeasonSettings.from_json(settings)
        if season.isolation == "process":
            raise SubmissionError(
                f"season {season.name} plays bots without a sandbox, so none are taken from afar",
                "ask whoever runs the ladder",
            )


def _own_bot(connection: Connection, author_id: int, name: str) -> LadderBot | None:
    """Return the author's bot with this name; None if no author has a bot of this name.

    Raises `SubmissionError` if another author has one.
    """
    query = _CURRENT_BOTS.where(schema.bots.c.name_key == names.key(name))
    row = connection.execute(query).first()
    if row is None:
        return None
    if row.author_id != author_id:
        # The refusal is stored, so it must not name the author, who may be anonymised later.
        raise SubmissionError(f"the bot {row.name!r} is another author's", "choose another name")
    return _bot_of_row(row)


def _check_number_of_bots(connection: Connection, author_id: int, limits: RemoteLimits) -> None:
    """Raise `LimitReached` if an author has as many bots as allowed, without withdrawn ones."""
    is_counted = (schema.bots.c.author_id == author_id, schema.bots.c.state != BotState.WITHDRAWN)
    count = connection.execute(select(func.count()).where(*is_counted)).scalar_one()
    check_bot_count(limits, int(count))


def _check_files_of_other_bots(
    connection: Connection, author_id: int, name: str, digest: str
) -> None:
    """Raise `SubmissionError` if another bot of the author has these files and is not withdrawn.

    If that bot is active, there would be two equal ones. If it was disabled or suspended, it would
    come back under another name.
    """
    same_files = _CURRENT_BOTS.where(
        schema.bots.c.author_id == author_id,
        schema.bots.c.name_key != names.key(name),
        schema.bots.c.state != BotState.WITHDRAWN,
        schema.bot_versions.c.digest == digest,
    ).order_by(schema.bots.c.id)
    other_bot = connection.execute(same_files).first()
    if other_bot is None:
        return
    if other_bot.state is BotState.ACTIVE:
        state = "plays already"
        remedy = "withdraw that bot, or submit other files"
    else:
        state = f"is {other_bot.state}: {other_bot.reason}"
        remedy = "submit them under that name" if other_bot.is_damaged else "submit other files"
    raise SubmissionError(f"these files are those of {other_bot.name!r}, which {state}", remedy)


def _store_files(connection: Connection, digest: str, packed: bytes) -> None:
    """Store the packed files of a version under their digest.

    The same files are stored once for all versions that have them. If the stored ones are damaged,
    they are replaced.
    """
    table = schema.archives
    has_digest = table.c.digest == digest
    stored = connection.execute(select(table.c.digest).where(has_digest)).first()
    if stored is None:
        connection.execute(insert(table).values(digest=digest, content=packed))
    elif _damage_of_files(connection, digest) is not None:
        connection.execute(update(table).where(has_digest).values(content=packed))


def _damage_of_files(connection: Connection, digest: str) -> Exception | None:
    """Unpack the stored files with this digest, and return the error; None if they are sound."""
    query = select(schema.archives.c.content).where(schema.archives.c.digest == digest)
    content = connection.execute(query).scalar_one()
    try:
        stored_files(zlib.decompress(content), digest)
    except (zlib.error, BundleDamaged, TypeError) as error:
        return error
    return None


def enable(connection: Connection, name: str, now_ms: int, actor: Actor = NOBODY) -> None:
    """Make a bot active again, in the running transaction.

    Its games so far no longer count as strikes: the column `pardoned_job` has the id of the last
    job that is forgiven.
    """
    bot = _bot_row(connection, name)
    values = {**_ACTIVE_VALUES, "changed_at": now_ms, "pardoned_job": _LAST_JOB_ID}
    connection.execute(update(schema.bots).where(schema.bots.c.id == bot.bot_id).values(values))
    former_state = f"was {bot.state}: {bot.reason}" if bot.reason else f"was {bot.state}"
    note(
        connection,
        now_ms,
        AuditKind.ENABLED,
        bot.name,
        former_state,
        author_id=bot.author_id,
        actor=actor,
    )


def _take_out(
    connection: Connection,
    bot: Row[Any],
    deed: BotDeed,
    reason: str,
    now_ms: int,
    actor: Actor = NOBODY,
) -> None:
    """Withdraw, disable or suspend a bot, cancel its games, and let it leave open tournaments.

    bot   its row of `_CURRENT_BOTS`
    deed  what is done to the bot, which decides on its new state

    Raises `SubmissionError` if its present state does not allow this.
    """
    state = state_after(deed, bot.name, bot.state, bot.reason)
    if state is BotState.WITHDRAWN and bot.state is BotState.WITHDRAWN:
        return  # a withdrawn bot keeps its first reason
    connection.execute(
        update(schema.bots)
        .where(schema.bots.c.id == bot.bot_id)
        .values(
            state=state,
            reason=printable(reason, schema.LONGEST_NOTE),
            is_damaged=deed is BotDeed.DAMAGE,
            changed_at=now_ms,
        )
    )
    note(
        connection, now_ms, AuditKind(state), bot.name, reason, author_id=bot.author_id, actor=actor
    )
    cancel_games_of(connection, bot.bot_id, f"{bot.name} is {state}", now_ms)
    _leave_tournaments(connection, bot.bot_id)


def _leave_tournaments(connection: Connection, bot_id: int) -> None:
    """Note in each open tournament that a bot has left, unless that is noted already.

    Each row has the number of the tournament's last job so far, and the number of bots that had
    left before, which is the order of leaving.
    """
    seasons, versions, jobs = schema.seasons, schema.bot_versions, schema.jobs
    table = schema.tournament_exits
    last_number = (
        select(func.coalesce(func.max(jobs.c.number), 0))
        .where(jobs.c.season_id == seasons.c.id)
        .correlate(seasons)
        .scalar_subquery()
    )
    has_left = exists().where(
        table.c.season_id == seasons.c.id, table.c.version_id == versions.c.id
    )
    earlier = table.alias()
    earlier_count = (
        select(func.count())
        .where(earlier.c.season_id == seasons.c.id)
        .correlate(seasons)
        .scalar_subquery()
    )
    is_open = seasons.c.tournament.is_not(None) & seasons.c.closed_at.is_(None)
    leaving = (
        select(seasons.c.id, versions.c.id, last_number, earlier_count)
        .select_from(seasons.join(versions, versions.c.bot_id == bot_id))
        .where(is_open, ~has_left)
    )
    columns = ["season_id", "version_id", "after_number", "place"]
    connection.execute(insert(table).from_select(columns, leaving))


def active_bots(connection: Connection) -> list[LadderBot]:
    """Return every active bot, by name."""
    return [
        _bot_of_row(row)
        for row in connection.execute(_ACTIVE_BOTS.order_by(schema.bots.c.name_key))
    ]


def _bot_row(connection: Connection, name: str) -> Row[Any]:
    """Return the row of a bot in `_CURRENT_BOTS`, by its name. Raises `NotOnLadder`."""
    row = connection.execute(_CURRENT_BOTS.where(schema.bots.c.name_key == names.key(name))).first()
    if row is None:
        raise _missing_bot(connection, name)
    return row


def _missing_bot(connection: Connection, name: str) -> StoreError:
    """Return the error for a bot that was not found together with its current version.

    It is `StoreDamaged` if the bot exists but its current version does not, else `NotOnLadder`.
    """
    is_named = schema.bots.c.name_key == names.key(name)
    damage_lines = list(bots_without_version(connection, is_named))
    if damage_lines:
        return StoreDamaged(damage_lines[0])
    return NotOnLadder(f"there is no bot {name!r} on this ladder")


def _bot_named(connection: Connection, name: str) -> LadderBot:
    return _bot_of_row(_bot_row(connection, name))


def _bot_of_row(row: Row[Any]) -> LadderBot:
    """Return the bot in a row of `_CURRENT_BOTS`."""
    return LadderBot(
        name=row.name,
        author=row.author,
        current=version_of(row),
        state=row.state,
        reason=row.reason,
        is_damaged=row.is_damaged,
        changed_at=row.changed_at,
    )


_JOBS_PER_ATTEMPT = 10
"""Newest jobs of a bot that are searched for each attempt that can count against it.

Many jobs have no such attempt, since they still wait or were cancelled. The limit keeps the query
short.
"""
_job_seats, _attempts, _game_seats = schema.job_seats, schema.attempts, schema.game_seats
_newer_seats, _season_id = schema.job_seats.alias("newer"), schema.seasons.c.id
_version_id, _games = schema.bot_versions.c.id, schema.games
# The newest job of a version in a season behind those that are searched. NULL if there is none.
_NEWEST_SKIPPED_JOB = (
    select(_newer_seats.c.job_id)
    .where(_newer_seats.c.version_id == _version_id, _newer_seats.c.season_id == _season_id)
    .order_by(_newer_seats.c.job_id.desc())
    .limit(1)
    .offset(bindparam("jobs"))
    .correlate(schema.bot_versions, schema.seasons)
    .scalar_subquery()
)
_NEWEST_FIRST = (_job_seats.c.job_id.desc(), _attempts.c.attempt.desc())
_APPEARANCES = (
    select(
        _game_seats,
        _games.c.seq.label("game"),
        _attempts.c.seat.label("void_seat"),
        _job_seats.c.seat.label("own_seat"),
        _season_id.label("of_season"),
        schema.bots.c.name.label("bot"),
        schema.bots.c.name_key.label("bot_key"),
        _job_seats.c.job_id,
        _attempts.c.attempt,
    )
    .select_from(schema.bot_versions)
    .join(schema.bots, (schema.bots.c.id == schema.bot_versions.c.bot_id) & IS_CURRENT)
    .join(schema.seasons, true())
    # "+ 0" makes SQLite begin with versions and seasons and look up their jobs by an index. Else
    # it would begin with every job and look up its version and season.
    .join(
        _job_seats,
        (_job_seats.c.version_id == _version_id + 0) & (_job_seats.c.season_id == _season_id + 0),
    )
    .join(_attempts, _attempts.c.job_id == _job_seats.c.job_id)
    .outerjoin(
        _games,
        (_games.c.job_id == _attempts.c.job_id) & (_games.c.attempt == _attempts.c.attempt),
    )
    .outerjoin(
        _game_seats, (_game_seats.c.seq == _games.c.seq) & (_game_seats.c.seat == _job_seats.c.seat)
    )
    .where(
        schema.bots.c.state == BotState.ACTIVE,
        _job_seats.c.job_id > func.coalesce(_NEWEST_SKIPPED_JOB, 0),
        or_(
            _games.c.seq.is_not(None),
            (_attempts.c.ended == AttemptEnd.VOID) & _attempts.c.seat.is_not(None),
        ),
        _job_seats.c.job_id > schema.bots.c.pardoned_job,
    )
)
"""Selects the attempts at the newest jobs of active bots that ended with a result or void.

These are the attempts that can count against a bot. Parameter: jobs, the number of its newest jobs
that are searched.
"""
_MAX_ATTEMPTS = bindparam("max_attempts", type_=Integer)
_APPEARANCES_OF_BOT = (
    _APPEARANCES.where(_version_id == bindparam("version"), _season_id == bindparam("season"))
    .order_by(*_NEWEST_FIRST)
    .limit(_MAX_ATTEMPTS)
)
_number_in_bot = func.row_number().over(
    partition_by=(_version_id, _season_id), order_by=_NEWEST_FIRST
)
_appearances_in_seasons = _APPEARANCES.where(_season_id.in_(bindparam("seasons", expanding=True)))
_numbered_appearances = _appearances_in_seasons.add_columns(_number_in_bot.label("nth")).subquery()
_APPEARANCES_IN_SEASONS = (
    select(_numbered_appearances)
    .where(_numbered_appearances.c.nth <= _MAX_ATTEMPTS)
    .order_by(
        _numbered_appearances.c.of_season,
        _numbered_appearances.c.bot_key,
        _numbered_appearances.c.nth,
    )
)


def _appearance_limits(rules: StrikeRules) -> dict[str, int]:
    """Return the parameters of queries for appearances: how many attempts and jobs they read."""
    # Void games and games with a result are counted apart, each up to its own number.
    max_attempts = rules.attempts + rules.games
    return {"max_attempts": max_attempts, "jobs": _JOBS_PER_ATTEMPT * max_attempts}


def suspend_strikers(
    connection: Connection,
    rules: StrikeRules,
    season_id: int,
    version_ids: Sequence[int],
    cause: str,
    now_ms: int,
) -> tuple[str, ...]:
    """Suspend bots that went wrong in too many games of a season, and return their names.

    rules        the numbers of such games from which on a bot is suspended
    version_ids  the versions with faults in the last game; only their bots are checked
    cause        the words that name this game in the stored reason
    """
    is_suspect = schema.bot_versions.c.id.in_(version_ids)
    suspects = connection.execute(_ACTIVE_BOTS.where(is_suspect).order_by(schema.bots.c.id)).all()
    suspended_names = []
    for bot in suspects:
        parameters = {"version": bot.version_id, "season": season_id, **_appearance_limits(rules)}
        rows = connection.execute(_APPEARANCES_OF_BOT, parameters)
        appearances = [_appearance_of_row(row) for row in rows]
        _, strikes = conduct(bot.name, appearances, rules)
        if strikes is not None:
            reason = f"{strikes}, the last {cause}; fix it and submit it again, or enable it"
            _take_out(connection, bot, BotDeed.STRIKE, reason, now_ms)
            suspended_names.append(str(bot.name))
    return tuple(suspended_names)


def suspend_damaged(
    connection: Connection, versions: Iterable[BotVersion], now_ms: int
) -> tuple[str, ...]:
    """Suspend the active bots whose current version has damaged files, and return their names.

    versions  the versions whose files are checked; other than current ones are left out
    """
    suspended_names = []
    for version in versions:
        damage = _damage_of_files(connection, version.digest)
        if damage is None:
            continue
        query = _ACTIVE_BOTS.where(schema.bot_versions.c.id == version.id)
        bot = connection.execute(query).first()
        if bot is not None:
            reason = f"the stored files of {version.label} are damaged: {damage}; submit it again"
            _take_out(connection, bot, BotDeed.DAMAGE, reason, now_ms)
            suspended_names.append(version.bot)
    return tuple(suspended_names)


def _appearance_of_row(row: Row[Any]) -> Appearance:
    """Return how an attempt at a game ended for a bot, from a row of `_APPEARANCES`.

    It has the bot's result. A void game has no result; `asked` tells if the game became void while
    this bot's decision was due. Raises `StoreDamaged` if the row of the bot's seat is missing.
    """
    is_void = row.game is None
    if is_void:
        was_own_decision_due = row.void_seat == row.own_seat
        return Appearance(result=None, asked=was_own_decision_due)
    if row.seq is None:
        raise StoreDamaged(f"table game_seats: seat {row.own_seat} of game {row.game} is missing")
    return Appearance(seat_result(row))
