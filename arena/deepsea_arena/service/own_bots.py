"""The bots of an author, and of everybody for an admin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from deepsea_arena.service.caller import Caller
from deepsea_arena.service.errors import Kind, ServiceError
from deepsea_arena.service.service import LadderService
from deepsea_arena.service.submissions import BotPlace, bot_place
from deepsea_arena.service.table import Method
from deepsea_bundle import names
from deepsea_ladder.accounts import Role, Scope


@dataclass(frozen=True, slots=True)
class BotList:
    """Bots, by name."""

    bots: tuple[BotPlace, ...]


def list_bots(service: LadderService, caller: Caller, *, everybody: bool = False) -> BotList:
    """The bots of the caller's author, or of everybody, for an admin."""
    if everybody and not caller.may(Role.ADMIN, Scope.ADMIN):
        raise ServiceError(Kind.DENIED, "this needs an admin's token with the scope admin")
    own = names.key(caller.author)
    found = service.store.bots.all()
    return BotList(
        tuple(bot_place(bot) for bot in found if everybody or names.key(bot.author) == own)
    )


OWN_BOTS: Final = (
    Method(
        name="ListBots",
        handler=list_bots,
        role=Role.AUTHOR,
        scope=Scope.READ,
        path="/account/bots",
    ),
)
