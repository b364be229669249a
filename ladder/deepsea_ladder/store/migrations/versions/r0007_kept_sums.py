"""Sums over games that are kept, and indexes, so that no page reads all games; packed records."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

_TABLES = (
    """
    CREATE TABLE pair_sums (
        season_id {id} NOT NULL CONSTRAINT fk_pair_sums_season_id REFERENCES seasons (id),
        version_id {id} NOT NULL CONSTRAINT fk_pair_sums_version_id REFERENCES bot_versions (id),
        other_id {id} NOT NULL CONSTRAINT fk_pair_sums_other_id REFERENCES bot_versions (id),
        games INTEGER NOT NULL, better INTEGER NOT NULL, level INTEGER NOT NULL,
        CONSTRAINT pk_pair_sums PRIMARY KEY (season_id, version_id, other_id))
    """,
    """
    CREATE TABLE seat_sums (
        season_id {id} NOT NULL CONSTRAINT fk_seat_sums_season_id REFERENCES seasons (id),
        version_id {id} NOT NULL CONSTRAINT fk_seat_sums_version_id REFERENCES bot_versions (id),
        players INTEGER NOT NULL, seat INTEGER NOT NULL,
        games INTEGER NOT NULL, wins INTEGER NOT NULL, placements BIGINT NOT NULL,
        points BIGINT NOT NULL, faults INTEGER NOT NULL, faulty INTEGER NOT NULL,
        halves BIGINT NOT NULL,
        CONSTRAINT pk_seat_sums PRIMARY KEY (season_id, version_id, players, seat))
    """,
)
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
        sum(CASE WHEN faults > 0 THEN 1 ELSE 0 END), sum(halves)
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
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    for table, column in (("seasons", "games"), ("game_seats", "number")):
        op.add_column(table, sa.Column(column, sa.Integer, nullable=False, server_default="0"))
    for statement in (*_TABLES, *_FILL):
        op.execute(statement.format(id="INTEGER" if is_sqlite else "BIGINT"))
    op.create_index("ix_pair_sums_other_id_season_id", "pair_sums", ["other_id", "season_id"])
    op.create_index("ix_bots_author_id", "bots", ["author_id"])
    for name, names, where in (
        ("ix_game_seats_faulty_seq", ["seq"], sa.text("faults > 0")),
        (
            "ix_game_seats_eighth",
            ["version_id", "season_id", "number"],
            sa.text("(number & 7) = 0"),
        ),
    ):
        op.create_index(name, "game_seats", names, sqlite_where=where, postgresql_where=where)
    if not is_sqlite:  # which takes bytes in any column
        op.execute(
            "ALTER TABLE games ALTER COLUMN record TYPE bytea USING convert_to(record, 'UTF8')"
        )
