"""Bots, their versions, and what takes them out.

Invariants: a version is written once: its files by their digest, its number, its bot; a bot's
newest version is the one that plays; a bot that is not active gets no games, and says why; a name
belongs to the author who had it first.

A bot is suspended by its strikes in the transaction of the result or void game that was one. What
counts is read from games and attempts, so there are no counters that could differ from them; games
of former versions, or scheduled before the bot was enabled, do not count.
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
from deepsea_ladder.season import Season
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

_CURRENT = SELECT_BOTS.where(IS_CURRENT)
"""Selects the version of each bot that plays."""
_ACTIVE = _CURRENT.where(schema.bots.c.state == BotState.ACTIVE)
_PLAYS = {"state": BotState.ACTIVE, "reason": None, "is_damaged": False}
"""The values of a bot that plays."""
_LAST_JOB = select(func.coalesce(func.max(schema.jobs.c.id), 0)).scalar_subquery()
"""What bots and versions remember as the moment: a clock may have been wrong, then or since."""
_SHARED_DIGESTS = (
    select(schema.bot_versions.c.digest)
    .join(schema.bots, schema.bots.c.id == schema.bot_versions.c.bot_id)
    .group_by(schema.bot_versions.c.digest)
    .having(func.count(schema.bots.c.author_id.distinct()) > 1)
)
"""Selects the digests of files that several authors have submitted."""


class Bots(StorePart):
    def strikes(self, seasons: Sequence[StoredSeason]) -> dict[int, list[BotConduct]]:
        """The conduct of active bots that something counts against, by their names; of each of
        these seasons by its id."""
        rules, found = self._policy.strikes, {season.id: list[BotConduct]() for season in seasons}
        values = {"seasons": list(found), **_bounds(rules)}
        with self._database.read() as connection:
            rows = connection.execute(_APPEARANCES_OF_ALL, values).all()
            for (season, bot), appearances in groupby(rows, key=attrgetter("of_season", "bot")):
                counted, _ = conduct(bot, [_appearance(row) for row in appearances], rules)
                if counted.spoiled or counted.voids:
                    found[season].append(counted)
        return found

    def submit(
        self, name: str, author: str, bundle: BotBundle, actor: Actor = NOBODY
    ) -> BotVersion:
        """Accept a bot without admission games, as a new version unless these files play already.

        Raises as `admissible` and `check_window`, and `AccountError` for an author who is blocked.
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
        """Withdraw a bot, for its author. Raises `SubmissionError` as `bot_states` says."""
        return self._take_out(name, BotDeed.WITHDRAW, reason, actor)

    def disable(self, name: str, reason: str, actor: Actor = NOBODY) -> LadderBot:
        """Disable a bot, for an operator."""
        return self._take_out(name, BotDeed.DISABLE, reason, actor)

    def _take_out(self, name: str, deed: BotDeed, reason: str, actor: Actor) -> LadderBot:
        with self._database.write() as connection:
            _take_out(connection, _row(connection, name), deed, reason, now(connection), actor)
            return _get(connection, name)

    def enable(self, name: str, actor: Actor = NOBODY) -> LadderBot:
        """Schedule games for a bot again; its former games are no strikes."""
        with self._database.write() as connection:
            enable(connection, name, now(connection), actor)
            return _get(connection, name)

    def get(self, name: str) -> LadderBot:
        with self._database.read() as connection:
            return _get(connection, name)

    def all(self, author_id: int | None = None) -> list[LadderBot]:
        """Every bot that can be read, or those of an author, by name."""
        query = _CURRENT.order_by(schema.bots.c.name_key)
        if author_id is not None:
            query = query.where(schema.bots.c.author_id == author_id)
        return self._readable(query)[0]

    def damages(self) -> list[str]:
        """The damage of bots that cannot be read, and are left out of `all`, a line each."""
        lines = self._readable(_CURRENT)[1]
        try:
            with self._database.read() as connection:
                lines += bots_without_version(connection)
        except StoreDamaged as error:  # the number of a version is none
            lines.append(str(error))
        return list(dict.fromkeys(lines))

    def _readable(self, query: Select[Any]) -> tuple[list[LadderBot], list[str]]:
        return self._database.read_undamaged(
            query, schema.bot_versions.c.id, lambda _, rows: [_bot(row) for row in rows]
        )

    def versions(self, name: str) -> list[BotVersion]:
        """Every version of a bot, the oldest first."""
        _, versions = self.with_versions(name)
        return versions

    def with_versions(self, name: str) -> tuple[LadderBot, list[BotVersion]]:
        """A bot, and every version of it, the oldest first."""
        query = SELECT_BOTS.where(schema.bots.c.name_key == names.key(name))
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(schema.bot_versions.c.number)).all()
            if not rows:
                raise _missing(connection, name)
        return _bot(rows[-1]), [version_of(row) for row in rows]

    def versions_of(self, ids: Sequence[int]) -> list[BotVersion]:
        """The versions of these ids, by id."""
        with self._database.read() as connection:
            found = versions_by_id(connection, list(ids))
        return [found[key] for key in sorted(found)]

    def shared_files(self) -> list[tuple[BotVersion, ...]]:
        """Versions of several authors with the same files, the oldest first, by their files."""
        query = SELECT_VERSIONS.where(schema.bot_versions.c.digest.in_(_SHARED_DIGESTS))
        versions, _ = self._database.read_undamaged(
            query.order_by(schema.bot_versions.c.id),
            schema.bot_versions.c.id,
            lambda _, rows: [version_of(row) for row in rows],
        )
        by_digest: dict[str, list[BotVersion]] = {}
        for version in versions:
            by_digest.setdefault(version.digest, []).append(version)
        return [tuple(group) for group in by_digest.values()]

    def archive(self, digest: str) -> bytes:
        """The packed files of that digest; `bot_cache.unpack` makes a folder of them."""
        table = schema.archives
        with self._database.read() as connection:
            row = connection.execute(select(table.c.content).where(table.c.digest == digest))
            content = row.scalar_one_or_none()
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
    """The bot of which an author may submit another version; None if it would be a new bot.

    name, digest   None as long as its files have not been read
    needs_sandbox  whether a stranger's may be: then no open season may play bots without a sandbox
    limits         those of the author's bots; None: there are none

    Raises `BundleError` for a bad name, `LimitReached` for too many bots, and `SubmissionError`
    for an author who is blocked, for the name of somebody else's bot, for the files of another bot
    of the author that is not withdrawn, and for a bot that was taken out, as `bot_states` says.
    """
    _check_active(connection, author_id)
    if needs_sandbox:
        _check_isolation(connection)
    if name is None:
        return None
    names.checked("the bot's name", name)
    bot = _own_bot(connection, author_id, name)
    if limits is not None and (bot is None or bot.state is BotState.WITHDRAWN):
        _check_another_bot(connection, author_id, limits)
    if bot is not None:
        is_same = bot.current.digest == digest
        deed = BotDeed.OTHER_FILES
        if is_same:
            deed = BotDeed.WHOLE_FILES if bot.is_damaged else BotDeed.SAME_FILES
        state_after(deed, bot.name, bot.state, bot.reason)
    plays = bot is not None and bot.current.digest == digest and bot.state is BotState.ACTIVE
    if digest is not None and not plays:
        _check_copy(connection, author_id, name, digest)
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
    """Accept a bot that is `admissible`: its present version if it has these files, else a new one.

    It is active from now on.

    packed  zlib of the packed files
    """
    _keep(connection, digest, packed)
    if bot is not None and bot.current.digest == digest:
        if bot.state is not BotState.ACTIVE:
            enable(connection, bot.name, now_ms, actor)
        return bot.current
    number = bot.current.number + 1 if bot else 1
    state = {"version": number, **_PLAYS, "changed_at": now_ms}
    if bot:
        bot_id = _row(connection, name).bot_id
        connection.execute(update(schema.bots).where(schema.bots.c.id == bot_id).values(state))
    else:
        bot_id = insert_row(
            connection,
            insert(schema.bots).values(
                author_id=author_id,
                name=name,
                name_key=names.key(name),
                created_at=now_ms,
                pardoned_job=0,
                **state,
            ),
        )
    connection.execute(
        insert(schema.bot_versions).values(
            bot_id=bot_id, number=number, digest=digest, created_at=now_ms, after_job=_LAST_JOB
        )
    )
    words = f"version {number}: {digest}"
    note(connection, now_ms, AuditKind.SUBMITTED, name, words, author_id=author_id, actor=actor)
    return _get(connection, name).current


def _check_active(connection: Connection, author_id: int) -> None:
    """Raise `SubmissionError` for an author who is blocked or anonymised."""
    table = schema.authors
    row = connection.execute(select(table).where(table.c.id == author_id)).one()
    if row.state != AuthorState.ACTIVE:
        raise SubmissionError(f"this author is {row.state}", "ask whoever runs the ladder")


def _check_isolation(connection: Connection) -> None:
    """Refuse a stranger's bot while an open season would run it without a sandbox."""
    table = schema.seasons
    opened = select(table.c.settings).where(table.c.closed_at.is_(None)).order_by(table.c.id)
    for season in map(Season.from_json, connection.execute(opened).scalars()):
        if season.isolation == "process":
            raise SubmissionError(
                f"season {season.name} plays bots without a sandbox, so none are taken from afar",
                "ask whoever runs the ladder",
            )


def _own_bot(connection: Connection, author_id: int, name: str) -> LadderBot | None:
    """The author's bot of that name; None if there is no bot of that name. `SubmissionError` if it
    is somebody else's."""
    query = _CURRENT.where(schema.bots.c.name_key == names.key(name))
    if (row := connection.execute(query).first()) is None:
        return None
    if row.author_id != author_id:
        # Refusals are stored, and name no author: a name may have to be forgotten.
        raise SubmissionError(f"the bot {row.name!r} is another author's", "choose another name")
    return _bot(row)


def _check_another_bot(connection: Connection, author_id: int, limits: RemoteLimits) -> None:
    """Raise `LimitReached` if the author may not have another bot that plays."""
    there = (schema.bots.c.author_id == author_id, schema.bots.c.state != BotState.WITHDRAWN)
    count = connection.execute(select(func.count()).where(*there)).scalar_one()
    check_bot_count(limits, int(count))


def _check_copy(connection: Connection, author_id: int, name: str, digest: str) -> None:
    """Raise `SubmissionError` for the files of another bot of the author, unless that is withdrawn:
    it plays, or was taken out and would come back under another name."""
    query = _CURRENT.where(
        schema.bots.c.author_id == author_id,
        schema.bots.c.name_key != names.key(name),
        schema.bots.c.state != BotState.WITHDRAWN,
        schema.bot_versions.c.digest == digest,
    )
    if (row := connection.execute(query.order_by(schema.bots.c.id)).first()) is None:
        return
    these = f"these files are those of {row.name!r}, which"
    if row.state is BotState.ACTIVE:
        remedy = "withdraw that bot, or submit other files"
        raise SubmissionError(f"{these} plays already", remedy)
    remedy = "submit them under that name" if row.is_damaged else "submit other files"
    raise SubmissionError(f"{these} is {row.state}: {row.reason}", remedy)


def _keep(connection: Connection, digest: str, packed: bytes) -> None:
    """Store the files, unless somebody's version has the same and they are not damaged."""
    table = schema.archives
    if not connection.execute(select(table.c.digest).where(table.c.digest == digest)).first():
        connection.execute(insert(table).values(digest=digest, content=packed))
    elif _damage(connection, digest) is not None:
        connection.execute(update(table).where(table.c.digest == digest).values(content=packed))


def _damage(connection: Connection, digest: str) -> Exception | None:
    """The damage of stored files; None if they are whole."""
    query = select(schema.archives.c.content).where(schema.archives.c.digest == digest)
    try:
        stored_files(zlib.decompress(connection.execute(query).scalar_one()), digest)
    except (zlib.error, BundleDamaged, TypeError) as error:
        return error
    return None


def enable(connection: Connection, name: str, now_ms: int, actor: Actor = NOBODY) -> None:
    """Schedule games for a bot again, in the running transaction."""
    row = _row(connection, name)
    state = {**_PLAYS, "changed_at": now_ms, "pardoned_job": _LAST_JOB}
    connection.execute(update(schema.bots).where(schema.bots.c.id == row.bot_id).values(state))
    words = f"was {row.state}: {row.reason}" if row.reason else f"was {row.state}"
    note(
        connection, now_ms, AuditKind.ENABLED, row.name, words, author_id=row.author_id, actor=actor
    )


def _take_out(
    connection: Connection,
    bot: Row[Any],
    deed: BotDeed,
    reason: str,
    now_ms: int,
    actor: Actor = NOBODY,
) -> None:
    """Take a bot out. Raises `SubmissionError` if that may not be done in its state."""
    state = state_after(deed, bot.name, bot.state, bot.reason)
    if state is BotState.WITHDRAWN is bot.state:
        return  # with the reason that it has
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
    """Note after which job a bot left each open tournament, unless it had left before."""
    seasons, versions, jobs = schema.seasons, schema.bot_versions, schema.jobs
    table = schema.tournament_exits
    last = (
        select(func.coalesce(func.max(jobs.c.number), 0))
        .where(jobs.c.season_id == seasons.c.id)
        .correlate(seasons)
        .scalar_subquery()
    )
    left = exists().where(table.c.season_id == seasons.c.id, table.c.version_id == versions.c.id)
    earlier = table.alias()
    before = (
        select(func.count())
        .where(earlier.c.season_id == seasons.c.id)
        .correlate(seasons)
        .scalar_subquery()
    )
    is_open = seasons.c.tournament.is_not(None) & seasons.c.closed_at.is_(None)
    leaving = (
        select(seasons.c.id, versions.c.id, last, before)
        .select_from(seasons.join(versions, versions.c.bot_id == bot_id))
        .where(is_open, ~left)
    )
    columns = ["season_id", "version_id", "after_number", "place"]
    connection.execute(insert(table).from_select(columns, leaving))


def active_bots(connection: Connection) -> list[LadderBot]:
    """Every active bot, by name."""
    return [_bot(row) for row in connection.execute(_ACTIVE.order_by(schema.bots.c.name_key))]


def _row(connection: Connection, name: str) -> Row[Any]:
    row = connection.execute(_CURRENT.where(schema.bots.c.name_key == names.key(name))).first()
    if row is None:
        raise _missing(connection, name)
    return row


def _missing(connection: Connection, name: str) -> StoreError:
    """The refusal of a bot that there is not, or whose present version cannot be found."""
    for damage in bots_without_version(connection, schema.bots.c.name_key == names.key(name)):
        return StoreDamaged(damage)
    return NotOnLadder(f"there is no bot {name!r} on this ladder")


def _get(connection: Connection, name: str) -> LadderBot:
    return _bot(_row(connection, name))


def _bot(row: Row[Any]) -> LadderBot:
    return LadderBot(
        name=row.name,
        author=row.author,
        current=version_of(row),
        state=row.state,
        reason=row.reason,
        is_damaged=row.is_damaged,
        changed_at=row.changed_at,
    )


_LOOKED_AT = 10
"""So many jobs of a bot are looked at for each that counts: others wait, or were cancelled."""
_sat, _attempts, _results = schema.job_seats, schema.attempts, schema.game_seats
_newer, _of_season = schema.job_seats.alias("newer"), schema.seasons.c.id
_version, _games = schema.bot_versions.c.id, schema.games
_FIRST_JOB = (
    select(_newer.c.job_id)
    .where(_newer.c.version_id == _version, _newer.c.season_id == _of_season)
    .order_by(_newer.c.job_id.desc())
    .limit(1)
    .offset(bindparam("jobs"))
    .correlate(schema.bot_versions, schema.seasons)
    .scalar_subquery()
)
_NEWEST_FIRST = (_sat.c.job_id.desc(), _attempts.c.attempt.desc())
_APPEARANCES = (
    select(
        _results,
        _games.c.seq.label("game"),
        _attempts.c.seat.label("void"),
        _sat.c.seat.label("own_seat"),
        _of_season.label("of_season"),
        schema.bots.c.name.label("bot"),
        schema.bots.c.name_key.label("bot_key"),
        _sat.c.job_id,
        _attempts.c.attempt,
    )
    .select_from(schema.bot_versions)
    .join(schema.bots, (schema.bots.c.id == schema.bot_versions.c.bot_id) & IS_CURRENT)
    .join(schema.seasons, true())
    # Sums: SQLite would rather look up the version and the season of every job.
    .join(_sat, (_sat.c.version_id == _version + 0) & (_sat.c.season_id == _of_season + 0))
    .join(_attempts, _attempts.c.job_id == _sat.c.job_id)
    .outerjoin(
        _games,
        (_games.c.job_id == _attempts.c.job_id) & (_games.c.attempt == _attempts.c.attempt),
    )
    .outerjoin(_results, (_results.c.seq == _games.c.seq) & (_results.c.seat == _sat.c.seat))
    .where(
        schema.bots.c.state == BotState.ACTIVE,
        _sat.c.job_id > func.coalesce(_FIRST_JOB, 0),
        or_(
            _games.c.seq.is_not(None),
            (_attempts.c.ended == AttemptEnd.VOID) & _attempts.c.seat.is_not(None),
        ),
        _sat.c.job_id > schema.bots.c.pardoned_job,
    )
)
"""Selects the attempts of the last jobs of active bots that may count against them."""
_MOST = bindparam("most", type_=Integer)
_APPEARANCES_OF_ONE = (
    _APPEARANCES.where(_version == bindparam("version"), _of_season == bindparam("season"))
    .order_by(*_NEWEST_FIRST)
    .limit(_MOST)
)
_each = func.row_number().over(partition_by=(_version, _of_season), order_by=_NEWEST_FIRST)
_of_seasons = _APPEARANCES.where(_of_season.in_(bindparam("seasons", expanding=True)))
_numbered = _of_seasons.add_columns(_each.label("nth")).subquery()
_APPEARANCES_OF_ALL = (
    select(_numbered)
    .where(_numbered.c.nth <= _MOST)
    .order_by(_numbered.c.of_season, _numbered.c.bot_key, _numbered.c.nth)
)


def _bounds(rules: StrikeRules) -> dict[str, int]:
    """The numbers of a bot's attempts that count, and of its jobs that are looked at."""
    most = rules.attempts + rules.games  # void games come between those that count
    return {"most": most, "jobs": _LOOKED_AT * most}


def suspend_strikers(
    connection: Connection,
    rules: StrikeRules,
    season_id: int,
    version_ids: Sequence[int],
    cause: str,
    now_ms: int,
) -> tuple[str, ...]:
    """Suspend those of the versions' bots that have too many strikes; returns their names.

    cause  the game that was the last one, for the reason
    """
    playing = connection.execute(
        _ACTIVE.where(schema.bot_versions.c.id.in_(version_ids)).order_by(schema.bots.c.id)
    ).all()
    suspended = []
    for bot in playing:
        which = {"version": bot.version_id, "season": season_id, **_bounds(rules)}
        rows = connection.execute(_APPEARANCES_OF_ONE, which)
        _, reason = conduct(bot.name, [_appearance(row) for row in rows], rules)
        if reason is not None:
            words = f"{reason}, the last {cause}; fix it and submit it again, or enable it"
            _take_out(connection, bot, BotDeed.STRIKE, words, now_ms)
            suspended.append(str(bot.name))
    return tuple(suspended)


def suspend_damaged(
    connection: Connection, versions: Iterable[BotVersion], now_ms: int
) -> tuple[str, ...]:
    """Suspend those of the versions' bots whose stored files are damaged; returns their names."""
    suspended = []
    for version in versions:
        if (damage := _damage(connection, version.digest)) is not None:
            found = _ACTIVE.where(schema.bot_versions.c.id == version.id)
            if (bot := connection.execute(found).first()) is not None:
                words = f"the stored files of {version.label} are damaged: {damage}"
                _take_out(connection, bot, BotDeed.DAMAGE, f"{words}; submit it again", now_ms)
                suspended.append(version.bot)
    return tuple(suspended)


def _appearance(row: Row[Any]) -> Appearance:
    if row.game is None:
        return Appearance(None, asked=row.void == row.own_seat)
    if row.seq is None:
        raise StoreDamaged(f"table game_seats: seat {row.own_seat} of game {row.game} is missing")
    return Appearance(seat_result(row))
