"""The base of the parts of the API: what the bodies of its methods share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deepsea_arena.api.errors import ApiError, Kind
from deepsea_bundle import names
from deepsea_ladder.accounts import Caller, Role, Scope
from deepsea_referee.errors import UserError

if TYPE_CHECKING:  # a client has neither
    from deepsea_arena.api.service import LadderService
    from deepsea_ladder.limits import RemoteLimits
    from deepsea_ladder.store import Store


class LadderPart:
    """Some methods of `LadderApi`, as one caller calls them on the ladder's machine."""

    service: LadderService
    caller: Caller
    store: Store
    limits: RemoteLimits

    @property
    def own_id(self) -> int:
        """The caller's author. Raises UserError for a caller without an account."""
        if not self.caller.author_id:
            raise UserError("this is about one's own account, and the machine has none")
        return self.caller.author_id

    def is_own(self, author: str) -> bool:
        """Whether this is the name of the caller's author."""
        return bool(self.caller.author) and names.key(author) == names.key(self.caller.author)

    def owns(self, bot: str) -> bool:
        """Whether the caller is the bot's author; NotOnLadder for a bot that is not there."""
        return bool(self.caller.author) and self.is_own(self.store.bots.get(bot).author)

    @property
    def is_admin(self) -> bool:
        """Whether the caller has the role and the scope of an admin."""
        return self.caller.may(Role.ADMIN, Scope.ADMIN)

    def check_admin(self) -> None:
        """Raise ApiError for callers who are no admins."""
        if not self.is_admin:
            raise ApiError(Kind.DENIED, "this needs an admin's token with the scope admin")
