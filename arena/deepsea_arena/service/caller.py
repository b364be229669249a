"""Who calls the service."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

from deepsea_ladder.accounts import Actor, Role, Scope, address_prefix
from deepsea_ladder.model.people import Credential


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls, as a token, a session or the machine proves it, not by the caller's word."""

    author: str = ""
    """The author's name; "" of a visitor and of the machine."""
    author_id: int = 0
    role: Role = Role.VISITOR
    scopes: AbstractSet[Scope] = frozenset()
    token_id: int = 0
    """Of the token that was used; 0 without one."""
    session_id: int = 0
    """Of the session of the pages; 0 without one."""
    address: str = ""
    """From where; "" from the ladder's own machine."""
    actor: str = ""
    """Who did it, for the audit log."""

    @property
    def by(self) -> Actor:
        """The caller, for the audit log."""
        name = "" if self.author_id else self.actor
        return Actor(self.author_id or None, name, address_prefix(self.address))

    def may(self, role: Role, scope: Scope | None) -> bool:
        """Whether the caller has the role, and the scope if one is needed."""
        return self.role >= role and (scope is None or scope in self.scopes)

    def is_proved_by(self, found: Credential | None) -> bool:
        """Whether the token or session still gives what it gave when the call began."""
        return (
            found is not None and found.role >= self.role and self.scopes <= frozenset(found.scopes)
        )


MACHINE: Final = Caller(role=Role.ADMIN, scopes=frozenset(Scope), actor="machine")
"""Commands that are run on the ladder's machine."""


def visitor(address: str = "") -> Caller:
    """Somebody without a token."""
    return Caller(address=address)
