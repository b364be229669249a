"""The first schema.

Invariant: a script that was released is never changed; the next one takes over where it ends.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_ID = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_HEX = sa.String(32)
_NAME = sa.String(40)
_DIGEST = sa.String(64)


def upgrade() -> None:
    """Make every table."""
    op.create_table(
        "authors",
        sa.Column("id", _ID, nullable=False),
        sa.Column("name", _NAME, nullable=False),
        sa.Column("name_key", _NAME, nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_authors"),
        sa.UniqueConstraint("name_key", name="uq_authors_name_key"),
    )
    op.create_table(
        "codes",
        sa.Column("id", _ID, nullable=False),
        sa.Column("digest", _DIGEST, nullable=False),
        sa.Column("author_id", _ID),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("ended_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_codes"),
        sa.UniqueConstraint("digest", name="uq_codes_digest"),
        sa.ForeignKeyConstraint(["author_id"], ["authors.id"], name="fk_codes_author_id"),
    )
    op.create_table(
        "tokens",
        sa.Column("id", _ID, nullable=False),
        sa.Column("author_id", _ID, nullable=False),
        sa.Column("digest", _DIGEST, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("start", sa.String(16), nullable=False),
        sa.Column("scopes", sa.String(64), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("last_used", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("digest", name="uq_tokens_digest"),
        sa.ForeignKeyConstraint(["author_id"], ["authors.id"], name="fk_tokens_author_id"),
    )
    op.create_index("ix_tokens_author_id", "tokens", ["author_id"])
    op.create_table(
        "sessions",
        sa.Column("id", _ID, nullable=False),
        sa.Column("author_id", _ID, nullable=False),
        sa.Column("token_id", _ID, nullable=False),
        sa.Column("digest", _DIGEST, nullable=False),
        sa.Column("address", sa.String(64), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.Column("ended_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name="pk_sessions"),
        sa.UniqueConstraint("digest", name="uq_sessions_digest"),
        sa.ForeignKeyConstraint(["author_id"], ["authors.id"], name="fk_sessions_author_id"),
        sa.ForeignKeyConstraint(["token_id"], ["tokens.id"], name="fk_sessions_token_id"),
    )
    op.create_index("ix_sessions_author_id", "sessions", ["author_id"])
    op.create_table(
        "bots",
        sa.Column("id", _ID, nullable=False),
        sa.Column("author_id", _ID, nullable=False),
        sa.Column("name", _NAME, nullable=False),
        sa.Column("name_key", _NAME, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("changed_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_bots"),
        sa.UniqueConstraint("name_key", name="uq_bots_name_key"),
        sa.ForeignKeyConstraint(["author_id"], ["authors.id"], name="fk_bots_author_id"),
    )
    op.create_table(
        "archives",
        sa.Column("digest", _DIGEST, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_archives"),
    )
    op.create_table(
        "bot_versions",
        sa.Column("id", _ID, nullable=False),
        sa.Column("bot_id", _ID, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("digest", _DIGEST, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_bot_versions"),
        sa.UniqueConstraint("bot_id", "number", name="uq_bot_versions_bot_id_number"),
        sa.ForeignKeyConstraint(["bot_id"], ["bots.id"], name="fk_bot_versions_bot_id"),
        sa.ForeignKeyConstraint(["digest"], ["archives.digest"], name="fk_bot_versions_digest"),
    )
    op.create_table(
        "seasons",
        sa.Column("id", _ID, nullable=False),
        sa.Column("name", _NAME, nullable=False),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("seed", _DIGEST, nullable=False),
        sa.Column("tournament", sa.Text),
        sa.Column("method", _NAME, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("closed_at", sa.BigInteger),
        sa.Column("embargo_until", sa.BigInteger),
        sa.Column("submissions_until", sa.BigInteger),
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("head", _DIGEST, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_seasons"),
        sa.UniqueConstraint("name", name="uq_seasons_name"),
    )
    op.create_table(
        "jobs",
        sa.Column("id", _ID, nullable=False),
        sa.Column("season_id", _ID, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("rotation", sa.Integer, nullable=False),
        sa.Column("shift", sa.Integer, nullable=False),
        sa.Column("game_id", sa.String(80), nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("until", sa.BigInteger),
        sa.Column("note", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sa.UniqueConstraint("game_id", name="uq_jobs_game_id"),
        sa.UniqueConstraint("season_id", "number", name="uq_jobs_season_id_number"),
        sa.UniqueConstraint(
            "season_id", "rotation", "shift", name="uq_jobs_season_id_rotation_shift"
        ),
        sa.ForeignKeyConstraint(["season_id"], ["seasons.id"], name="fk_jobs_season_id"),
    )
    op.create_index(
        "ix_jobs_status_season_id_shift_number", "jobs", ["status", "season_id", "shift", "number"]
    )
    op.create_index(
        "ix_jobs_season_id_created_at_rotation", "jobs", ["season_id", "created_at", "rotation"]
    )
    op.create_table(
        "job_seats",
        sa.Column("job_id", _ID, autoincrement=False, nullable=False),
        sa.Column("seat", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("season_id", _ID, nullable=False),
        sa.Column("version_id", _ID, nullable=False),
        sa.PrimaryKeyConstraint("job_id", "seat", name="pk_job_seats"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_job_seats_job_id"),
        sa.ForeignKeyConstraint(["season_id"], ["seasons.id"], name="fk_job_seats_season_id"),
        sa.ForeignKeyConstraint(
            ["version_id"], ["bot_versions.id"], name="fk_job_seats_version_id"
        ),
    )
    op.create_index(
        "ix_job_seats_version_id_season_id_job_id",
        "job_seats",
        ["version_id", "season_id", "job_id"],
    )
    op.create_table(
        "attempts",
        sa.Column("job_id", _ID, autoincrement=False, nullable=False),
        sa.Column("attempt", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("season_id", _ID, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("since", sa.BigInteger, nullable=False),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("ended", sa.String(16)),
        sa.Column("seat", sa.Integer),
        sa.Column("note", sa.Text),
        sa.Column("place", sa.Integer),
        sa.Column("head", _DIGEST),
        sa.PrimaryKeyConstraint("job_id", "attempt", name="pk_attempts"),
        sa.UniqueConstraint("season_id", "place", name="uq_attempts_season_id_place"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_attempts_job_id"),
        sa.ForeignKeyConstraint(["season_id"], ["seasons.id"], name="fk_attempts_season_id"),
    )
    op.create_table(
        "games",
        sa.Column("seq", _ID, autoincrement=False, nullable=False),
        sa.Column("job_id", _ID, nullable=False),
        sa.Column("season_id", _ID, nullable=False),
        sa.Column("game_id", sa.String(80), nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("place", sa.Integer, nullable=False),
        sa.Column("head", _DIGEST, nullable=False),
        sa.Column("played_at", sa.BigInteger, nullable=False),
        sa.Column("record", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_games"),
        sa.UniqueConstraint("job_id", name="uq_games_job_id"),
        sa.UniqueConstraint("game_id", name="uq_games_game_id"),
        sa.UniqueConstraint("season_id", "place", name="uq_games_season_id_place"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_games_job_id"),
        sa.ForeignKeyConstraint(["season_id"], ["seasons.id"], name="fk_games_season_id"),
    )
    op.create_index("ix_games_season_id_seq", "games", ["season_id", "seq"])
    op.create_table(
        "game_seats",
        sa.Column("seq", _ID, autoincrement=False, nullable=False),
        sa.Column("seat", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("season_id", _ID, nullable=False),
        sa.Column("version_id", _ID, nullable=False),
        sa.Column("points", sa.Integer, nullable=False),
        sa.Column("placement", sa.Integer, nullable=False),
        sa.Column("decisions", sa.Integer, nullable=False),
        sa.Column("faults", sa.Integer, nullable=False),
        sa.Column("forfeit", sa.String(32)),
        sa.Column("mu", _HEX, nullable=False),
        sa.Column("sigma", _HEX, nullable=False),
        sa.PrimaryKeyConstraint("seq", "seat", name="pk_game_seats"),
        sa.ForeignKeyConstraint(["seq"], ["games.seq"], name="fk_game_seats_seq"),
        sa.ForeignKeyConstraint(["season_id"], ["seasons.id"], name="fk_game_seats_season_id"),
        sa.ForeignKeyConstraint(
            ["version_id"], ["bot_versions.id"], name="fk_game_seats_version_id"
        ),
    )
    op.create_index(
        "ix_game_seats_version_id_season_id_seq", "game_seats", ["version_id", "season_id", "seq"]
    )
    op.create_index(
        "ix_game_seats_faulty",
        "game_seats",
        ["version_id", "season_id", "seq"],
        sqlite_where=sa.text("faults > 0"),
        postgresql_where=sa.text("faults > 0"),
    )
    op.create_table(
        "game_logs",
        sa.Column("seq", _ID, autoincrement=False, nullable=False),
        sa.Column("seat", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("bot_id", _ID, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("seq", "seat", name="pk_game_logs"),
        sa.ForeignKeyConstraint(["seq"], ["games.seq"], name="fk_game_logs_seq"),
        sa.ForeignKeyConstraint(["bot_id"], ["bots.id"], name="fk_game_logs_bot_id"),
    )
    op.create_index("ix_game_logs_bot_id_seq", "game_logs", ["bot_id", "seq"])
    op.create_table(
        "ratings",
        sa.Column("season_id", _ID, autoincrement=False, nullable=False),
        sa.Column("version_id", _ID, autoincrement=False, nullable=False),
        sa.Column("mu", _HEX, nullable=False),
        sa.Column("sigma", _HEX, nullable=False),
        sa.Column("games", sa.Integer, nullable=False),
        sa.Column("wins", sa.Integer, nullable=False),
        sa.Column("placements", sa.BigInteger, nullable=False),
        sa.Column("points", sa.BigInteger, nullable=False),
        sa.Column("decisions", sa.BigInteger, nullable=False),
        sa.Column("faults", sa.Integer, nullable=False),
        sa.Column("forfeits", sa.Integer, nullable=False),
        sa.Column("last_seq", _ID, nullable=False),
        sa.Column("last_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("season_id", "version_id", name="pk_ratings"),
        sa.ForeignKeyConstraint(["season_id"], ["seasons.id"], name="fk_ratings_season_id"),
        sa.ForeignKeyConstraint(["version_id"], ["bot_versions.id"], name="fk_ratings_version_id"),
    )
    op.create_table(
        "submissions",
        sa.Column("id", _ID, nullable=False),
        sa.Column("author_id", _ID, nullable=False),
        sa.Column("key", sa.String(64), nullable=False),
        sa.Column("bot", _NAME, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("sha256", _DIGEST, nullable=False),
        sa.Column("needs_sandbox", sa.Boolean, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("until", sa.BigInteger),
        sa.Column("began_at", sa.BigInteger),
        sa.Column("games", sa.Integer, nullable=False),
        sa.Column("of_games", sa.Integer, nullable=False),
        sa.Column("took_ms", sa.BigInteger, nullable=False),
        sa.Column("version", sa.Integer),
        sa.Column("digest", _DIGEST),
        sa.Column("found", sa.Text),
        sa.Column("remedy", sa.Text),
        sa.Column("error", sa.Text),
        sa.Column("log", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("changed_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_submissions"),
        sa.UniqueConstraint("author_id", "key", name="uq_submissions_author_id_key"),
        sa.ForeignKeyConstraint(["author_id"], ["authors.id"], name="fk_submissions_author_id"),
    )
    op.create_index("ix_submissions_state_id", "submissions", ["state", "id"])
    op.create_index(
        "ix_submissions_author_id_created_at", "submissions", ["author_id", "created_at"]
    )
    op.create_table(
        "submission_parts",
        sa.Column("submission_id", _ID, autoincrement=False, nullable=False),
        sa.Column("number", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("submission_id", "number", name="pk_submission_parts"),
        sa.ForeignKeyConstraint(
            ["submission_id"], ["submissions.id"], name="fk_submission_parts_submission_id"
        ),
    )
    op.create_table(
        "analyses",
        sa.Column("id", _ID, nullable=False),
        sa.Column("seq", _ID, nullable=False),
        sa.Column("author_id", _ID),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("policy", _NAME, nullable=False),
        sa.Column("settings", sa.Text, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("until", sa.BigInteger),
        sa.Column("began_at", sa.BigInteger),
        sa.Column("reason", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("changed_at", sa.BigInteger, nullable=False),
        sa.Column("change", sa.BigInteger, nullable=False),
        sa.Column("document", sa.LargeBinary),
        sa.PrimaryKeyConstraint("id", name="pk_analyses"),
        sa.ForeignKeyConstraint(["seq"], ["games.seq"], name="fk_analyses_seq"),
        sa.ForeignKeyConstraint(["author_id"], ["authors.id"], name="fk_analyses_author_id"),
    )
    op.create_index("ix_analyses_seq_id", "analyses", ["seq", "id"])
    op.create_index("ix_analyses_state_id", "analyses", ["state", "id"])
    op.create_index("ix_analyses_author_id_created_at", "analyses", ["author_id", "created_at"])
    op.create_index("ix_analyses_change", "analyses", ["change"])
    op.create_table(
        "audit",
        sa.Column("id", _ID, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("note", sa.Text, nullable=False),
        sa.Column("author_id", _ID),
        sa.Column("actor_id", _ID),
        sa.Column("actor", _NAME, nullable=False),
        sa.Column("address", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_audit"),
        sa.ForeignKeyConstraint(["author_id"], ["authors.id"], name="fk_audit_author_id"),
        sa.ForeignKeyConstraint(["actor_id"], ["authors.id"], name="fk_audit_actor_id"),
    )
    op.create_index("ix_audit_author_id_id", "audit", ["author_id", "id"])
    op.create_index("ix_audit_actor_id_id", "audit", ["actor_id", "id"])
