"""Seasons: their settings, which never change, and their secret seeds.

Invariants: game number n of a season has the seed `game_seed(season's seed, n)`; the commitment
to the season's seed is shown when it opens and the seed when it is closed, so that the games'
seeds cannot have been chosen later; a closed season gets no new games.
"""

from __future__ import annotations

from sqlalchemy import Connection, Row, insert, select, update

from deepsea_ladder.errors import StoreError
from deepsea_ladder.model import AuditKind, JobStatus, StoredSeason
from deepsea_ladder.rating.trueskill_fold import METHOD
from deepsea_ladder.season import Season
from deepsea_ladder.store import schema
from deepsea_ladder.store.audit import note
from deepsea_ladder.store.database import Database, now
from deepsea_ladder.store.job_transitions import SEASON_CLOSED
from deepsea_rules.randomness import SEED_BYTES, commitment


class Seasons:
    """The seasons of a ladder."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def open(self, season: Season, seed: bytes) -> StoredSeason:
        """Add a season; `seed` is 32 bytes of true randomness that nobody else knows."""
        if len(seed) != SEED_BYTES:
            raise StoreError(f"a season's seed has {SEED_BYTES} bytes, not {len(seed)}")
        table = schema.seasons
        with self._database.write() as connection:
            if connection.execute(select(table.c.id).where(table.c.name == season.name)).first():
                raise StoreError(f"there is a season {season.name!r} already; choose another name")
            at = now(connection)
            connection.execute(
                insert(table).values(
                    name=season.name,
                    settings=season.to_json(),
                    seed=seed.hex(),
                    method=METHOD,
                    created_at=at,
                )
            )
            note(
                connection,
                at,
                AuditKind.SEASON,
                season.name,
                f"opened; commitment {commitment(seed)}",
            )
            return _get(connection, season.name)

    def close(self, name: str) -> str:
        """Close a season; returns its seed in hex. Games that are being played still count."""
        table = schema.seasons
        with self._database.write() as connection:
            stored = _get(connection, name)
            at = now(connection)
            if stored.closed_at is None:
                connection.execute(
                    update(table).where(table.c.id == stored.id).values(closed_at=at)
                )
                connection.execute(
                    update(schema.jobs)
                    .where(
                        schema.jobs.c.season_id == stored.id,
                        schema.jobs.c.status == JobStatus.TODO,
                    )
                    .values(status=JobStatus.CANCELLED, note=SEASON_CLOSED)
                )
                note(connection, at, AuditKind.SEASON, name, "closed")
            query = select(table.c.seed).where(table.c.id == stored.id)
            return str(connection.execute(query).scalar_one())

    def get(self, name: str) -> StoredSeason:
        """The season of that name; `StoreError` naming those that there are."""
        with self._database.read() as connection:
            return _get(connection, name)

    def all(self) -> list[StoredSeason]:
        """Every season, the oldest first."""
        with self._database.read() as connection:
            rows = connection.execute(select(schema.seasons).order_by(schema.seasons.c.id))
            return [_season(row) for row in rows]


def by_id(connection: Connection, season_id: int) -> StoredSeason:
    """The season with that id."""
    query = select(schema.seasons).where(schema.seasons.c.id == season_id)
    return _season(connection.execute(query).one())


def _get(connection: Connection, name: str) -> StoredSeason:
    table = schema.seasons
    row = connection.execute(select(table).where(table.c.name == name)).first()
    if row is None:
        names = connection.execute(select(table.c.name).order_by(table.c.id)).scalars().all()
        known = f"there are {', '.join(names)}" if names else "there are none yet"
        raise StoreError(f"there is no season {name!r}; {known}")
    return _season(row)


def _season(row: Row[tuple[object, ...]]) -> StoredSeason:
    return StoredSeason(
        id=row.id,
        season=Season.from_json(row.settings),
        commitment=commitment(bytes.fromhex(row.seed)),
        method=row.method,
        created_at=row.created_at,
        closed_at=row.closed_at,
    )
