"""Extensions: authors who may submit to a season after its deadline."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "extensions",
        sa.Column("season_id", _ID, autoincrement=False, nullable=False),
        sa.Column("author_id", _ID, autoincrement=False, nullable=False),
        sa.Column("until", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("season_id", "author_id", name="pk_extensions"),
        sa.ForeignKeyConstraint(["season_id"], ["seasons.id"], name="fk_extensions_season_id"),
        sa.ForeignKeyConstraint(["author_id"], ["authors.id"], name="fk_extensions_author_id"),
    )
