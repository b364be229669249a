"""Records that are packed; those of before stay as they are."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Let the column take bytes, which in SQLite it does."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            "ALTER TABLE games ALTER COLUMN record TYPE bytea USING convert_to(record, 'UTF8')"
        )
