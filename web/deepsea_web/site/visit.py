"""Who looks at a page, and what they may call.

Invariant: what somebody may do is decided by the service alone, in `Visit.call`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deepsea_arena.service.caller import Caller
from deepsea_arena.service.service import LadderService
from deepsea_ladder.accounts import Role


@dataclass(frozen=True, kw_only=True)
class Visit:
    """Somebody who looks at pages."""

    caller: Caller
    service: LadderService
    form_token: str = ""
    """What the forms that are made for this visit carry."""

    def call(self, name: str, /, **fields: object) -> Any:
        """The response of the service. Raises ServiceError for everything that is refused."""
        return self.service.call(self.caller, name, **fields)

    @property
    def author(self) -> str:
        """The name of who looks; "" of a visitor."""
        return self.caller.author

    @property
    def is_admin(self) -> bool:
        """Whether links to the pages of admins are shown."""
        return self.caller.role >= Role.ADMIN
