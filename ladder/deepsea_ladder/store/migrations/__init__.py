"""Alembic's scripts, inside the package so that an installed wheel has them."""
