"""The first schema, from which every upgrade begins.

Nothing is done here: a new ladder has the tables of schema.py, whatever their revision.
"""

from __future__ import annotations

revision = "r0001"
down_revision = None


def upgrade() -> None:
    """Change nothing: no schema is older."""
