"""Seasons that are paused."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the column."""
    op.add_column("seasons", sa.Column("paused_at", sa.BigInteger))
