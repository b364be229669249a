"""Games of people against bots, and their analyses."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the tables; an analysis may be of such a game, too."""
    op.create_table(
        "person_games",
        sa.Column("id", _ID, nullable=False),
        sa.Column("game_id", sa.String(80), nullable=False),
        sa.Column("season_id", _ID, nullable=False),
        sa.Column("author_id", _ID),
        sa.Column("visitor", sa.String(64)),
        sa.Column("address", sa.String(64), nullable=False),
        sa.Column("rules", sa.String(40), nullable=False),
        sa.Column("seed", sa.String(64), nullable=False),
        sa.Column("seat", sa.Integer, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("presence", sa.String(16), nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("until", sa.BigInteger),
        sa.Column("began_at", sa.BigInteger),
        sa.Column("decisions", sa.Text, nullable=False),
        sa.Column("answer", sa.Text),
        sa.Column("reason", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("changed_at", sa.BigInteger, nullable=False),
        sa.Column("record", sa.Text),
        sa.PrimaryKeyConstraint("id", name="pk_person_games"),
        sa.UniqueConstraint("game_id", name="uq_person_games_game_id"),
        sa.ForeignKeyConstraint(["season_id"], ["seasons.id"], name="fk_person_games_season_id"),
        sa.ForeignKeyConstraint(["author_id"], ["authors.id"], name="fk_person_games_author_id"),
    )
    for columns in (["state", "id"], ["author_id", "created_at"], ["address", "created_at"]):
        op.create_index(f"ix_person_games_{'_'.join(columns)}", "person_games", columns)
    op.create_table(
        "person_game_seats",
        sa.Column("person_game_id", _ID, autoincrement=False, nullable=False),
        sa.Column("seat", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("version_id", _ID, nullable=False),
        sa.PrimaryKeyConstraint("person_game_id", "seat", name="pk_person_game_seats"),
        sa.ForeignKeyConstraint(
            ["person_game_id"], ["person_games.id"], name="fk_person_game_seats_person_game_id"
        ),
        sa.ForeignKeyConstraint(
            ["version_id"], ["bot_versions.id"], name="fk_person_game_seats_version_id"
        ),
    )
    # SQLite copies the table: the document stays its last column.
    after = "seq" if op.get_bind().dialect.name == "sqlite" else None
    with op.batch_alter_table("analyses") as analyses:
        analyses.alter_column("seq", existing_type=_ID, nullable=True)
        analyses.add_column(sa.Column("person_game_id", _ID), insert_after=after)
        analyses.create_foreign_key(
            "fk_analyses_person_game_id", "person_games", ["person_game_id"], ["id"]
        )
    op.create_index("ix_analyses_person_game_id_id", "analyses", ["person_game_id", "id"])
