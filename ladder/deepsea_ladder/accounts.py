"""Accounts: who may do what."""

from __future__ import annotations

from enum import IntEnum, StrEnum


class Role(IntEnum):
    """Who somebody is; each may do what those before may."""

    VISITOR = 0
    AUTHOR = 1
    ADMIN = 2

    @property
    def word(self) -> str:
        """Its name as people and programs read it."""
        return self.name.lower()


class Scope(StrEnum):
    """What a token may be used for."""

    READ = "read"
    SUBMIT = "submit"
    ADMIN = "admin"
