"""Who looks at a page, and what they may call.

Invariant: what somebody may do is decided by the API alone, in `Visit.ladder`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from deepsea_arena.api.callers import Caller
from deepsea_arena.api.local import LocalLadder
from deepsea_arena.api.service import LadderService
from deepsea_ladder.accounts import Role


@dataclass(frozen=True, kw_only=True)
class Visit:
    """Somebody who looks at pages."""

    caller: Caller
    service: LadderService
    form_token: str = ""
    """What the forms that are made for this visit carry."""

    @cached_property
    def ladder(self) -> LocalLadder:
        """The ladder, as the caller may use it."""
        return LocalLadder(self.service, self.caller)

    @property
    def author(self) -> str:
        """The name of who looks; "" of a visitor."""
        return self.caller.author

    @property
    def is_admin(self) -> bool:
        """Whether links to the pages of admins are shown."""
        return self.caller.role >= Role.ADMIN
