"""Callers of the API: a visitor, the holder of a token or of a session of the pages, the machine.

Invariant: who calls is proved by a token or a session, never by the caller's word.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from deepsea_ladder.accounts import Actor, Credential, Role, Scope, SecretKind, address_prefix


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """A caller with its rights."""

    author: str = ""
    """The author's name; "" of a visitor."""
    author_id: int = 0
    role: Role = Role.VISITOR
    scopes: AbstractSet[Scope] = frozenset()
    secret_id: int = 0
    """Of the token or session that was used; 0 without one."""
    secret_kind: SecretKind | None = None
    """Whether that is a token or a session of the pages."""
    visitor: str = ""
    """SHA-256 of the cookie of a visitor of the pages, in hex; "" without one."""
    address: str = ""
    """From where; "" from the ladder's own machine."""
    is_machine: bool = False
    """Whether it is a command on the ladder's machine; `author` is then whom it concerns."""

    @property
    def by(self) -> Actor:
        """The caller, for the audit log."""
        if self.is_machine:
            return Actor(None, "machine", "")
        return Actor(self.author_id or None, "", address_prefix(self.address))

    def may(self, role: Role, scope: Scope | None) -> bool:
        """Whether the caller has the role, and the scope if one is needed."""
        return self.role >= role and (scope is None or scope in self.scopes)

    def is_proved_by(self, found: Credential | None) -> bool:
        """Whether the token or session still has the role and the scopes of this caller."""
        return (
            found is not None and found.role >= self.role and self.scopes <= frozenset(found.scopes)
        )


MACHINE = Caller(role=Role.ADMIN, scopes=frozenset(Scope), is_machine=True)
"""Commands on the ladder's machine, which may do everything."""
READER = Caller(role=Role.AUTHOR)
"""Everybody who may read what is public, also on a private ladder."""


def visitor(address: str = "") -> Caller:
    """Somebody without a token."""
    return Caller(address=address)
