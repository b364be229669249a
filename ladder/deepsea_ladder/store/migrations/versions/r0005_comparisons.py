"""Comparisons of versions, and their blocks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "comparisons",
        sa.Column("id", _ID, nullable=False),
        sa.Column("season_id", _ID, nullable=False),
        sa.Column("author_id", _ID, nullable=False),
        sa.Column("version_id", _ID, nullable=False),
        sa.Column("other_id", _ID, nullable=False),
        sa.Column("panel", sa.String(40), nullable=False),
        sa.Column("seed", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("until", sa.BigInteger),
        sa.Column("began_at", sa.BigInteger),
        sa.Column("cpu_ms", sa.BigInteger, nullable=False),
        sa.Column("standing", sa.Text, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("changed_at", sa.BigInteger, nullable=False),
        sa.Column("change", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_comparisons"),
        sa.UniqueConstraint(
            "version_id",
            "season_id",
            "panel",
            name="uq_comparisons_version_id_season_id_panel",
        ),
        sa.ForeignKeyConstraint(["season_id"], ["seasons.id"], name="fk_comparisons_season_id"),
        sa.ForeignKeyConstraint(["author_id"], ["authors.id"], name="fk_comparisons_author_id"),
        sa.ForeignKeyConstraint(
            ["version_id"], ["bot_versions.id"], name="fk_comparisons_version_id"
        ),
        sa.ForeignKeyConstraint(["other_id"], ["bot_versions.id"], name="fk_comparisons_other_id"),
    )
    for columns in (["state", "id"], ["season_id", "id"], ["change"]):
        op.create_index(f"ix_comparisons_{'_'.join(columns)}", "comparisons", columns)
    op.create_table(
        "comparison_blocks",
        sa.Column("comparison_id", _ID, autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("cpu_ms", sa.Integer, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("comparison_id", "number", name="pk_comparison_blocks"),
        sa.ForeignKeyConstraint(
            ["comparison_id"], ["comparisons.id"], name="fk_comparison_blocks_comparison_id"
        ),
    )
    op.create_index("ix_comparison_blocks_at", "comparison_blocks", ["at"])
