"""The module that Alembic runs: the scripts, in the transaction that `migrate.py` has begun.

Invariant: one transaction holds every step and the note of the new revision, so that a migration
that is interrupted anywhere leaves the old schema.
"""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"], transactional_ddl=True)
context.run_migrations()
