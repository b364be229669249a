"""Sums over games that are kept, and indexes, so that no page reads all games."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0005"

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_LARGE = ("placements", "points", "halves")
_FILL = (
    """
    UPDATE seasons SET games = (SELECT count(*) FROM games WHERE games.season_id = seasons.id)
    """,
    """
    UPDATE game_seats SET number = counted.number FROM (
        SELECT seq, seat,
            row_number() OVER (PARTITION BY version_id, season_id ORDER BY seq) AS number
        FROM game_seats
    ) AS counted WHERE counted.seq = game_seats.seq AND counted.seat = game_seats.seat
    """,
    """
    INSERT INTO pair_sums
    SELECT own.season_id, own.version_id, other.version_id, count(*),
        sum(CASE WHEN own.placement < other.placement THEN 1 ELSE 0 END),
        sum(CASE WHEN own.placement = other.placement THEN 1 ELSE 0 END)
    FROM game_seats AS own
    JOIN game_seats AS other ON other.seq = own.seq AND other.version_id > own.version_id
    GROUP BY own.season_id, own.version_id, other.version_id
    """,
    """
    INSERT INTO seat_sums
    SELECT season_id, version_id, players, seat, count(*),
        sum(CASE WHEN placement = 1 THEN 1 ELSE 0 END), sum(placement), sum(points), sum(faults),
        sum(halves)
    FROM (
        SELECT own.season_id, own.version_id, own.seat, own.placement, own.points, own.faults,
            count(*) AS players,
            sum(CASE WHEN own.placement < other.placement THEN 2
                WHEN own.placement = other.placement THEN 1 ELSE 0 END) - 1 AS halves
        FROM game_seats AS own JOIN game_seats AS other ON other.seq = own.seq
        GROUP BY own.seq, own.seat
    ) AS sat
    GROUP BY season_id, version_id, players, seat
    """,
)


def upgrade() -> None:
    """Make columns and tables, and fill them from the games that there are."""
    op.add_column("seasons", sa.Column("games", sa.Integer, nullable=False, server_default="0"))
    op.add_column("game_seats", sa.Column("number", sa.Integer, nullable=False, server_default="0"))
    _create("pair_sums", ["season_id", "version_id", "other_id"], ["games", "better", "level"])
    _create(
        "seat_sums",
        ["season_id", "version_id", "players", "seat"],
        ["games", "wins", "placements", "points", "faults", "halves"],
    )
    for statement in _FILL:
        op.execute(statement)
    op.create_index("ix_pair_sums_other_id_season_id", "pair_sums", ["other_id", "season_id"])
    op.create_index("ix_bots_author_id", "bots", ["author_id"])
    for name, names, where in (
        ("ix_game_seats_faulty_seq", ["seq"], "faults > 0"),
        ("ix_game_seats_eighth", ["version_id", "season_id", "number"], "(number & 7) = 0"),
    ):
        condition = sa.text(where)
        op.create_index(
            name, "game_seats", names, sqlite_where=condition, postgresql_where=condition
        )


def _create(name: str, keys: list[str], sums: list[str]) -> None:
    references = {"season_id": "seasons", "version_id": "bot_versions", "other_id": "bot_versions"}
    op.create_table(
        name,
        *(
            sa.Column(key, _ID if key in references else sa.Integer, autoincrement=False)
            for key in keys
        ),
        *(
            sa.Column(one, sa.BigInteger if one in _LARGE else sa.Integer, nullable=False)
            for one in sums
        ),
        sa.PrimaryKeyConstraint(*keys, name=f"pk_{name}"),
        *(
            sa.ForeignKeyConstraint([key], [f"{references[key]}.id"], name=f"fk_{name}_{key}")
            for key in keys
            if key in references
        ),
    )
