"""What a client has to know of a server first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from deepsea_arena.service.caller import Caller
from deepsea_arena.service.service import LadderService
from deepsea_arena.service.table import Method
from deepsea_arena.wire.json import utc_time
from deepsea_ladder.accounts import Role
from deepsea_ladder.remote_limits import Limit
from deepsea_sdk import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What a client has to know of a server first."""

    version: str
    url: str
    grpc_address: str
    private: bool
    season: str
    submissions_until: datetime | None
    limits: tuple[Limit, ...]


def get_server(service: LadderService, caller: Caller) -> Server:
    """What a client has to know first; of a private ladder's season members alone."""
    opened = [
        one
        for one in service.public.seasons.all()
        if one.closed_at is None and one.tournament is None
    ]
    hidden = service.private and caller.role is Role.VISITOR
    season = opened[-1] if opened and not hidden else None
    until = None if season is None else season.submissions_until
    return Server(
        version=__version__,
        url=service.address.url,
        grpc_address=service.address.grpc,
        private=service.private,
        season="" if season is None else season.name,
        submissions_until=None if until is None else utc_time(until),
        limits=service.limits.table(),
    )


SERVER: Final = (Method(name="GetServer", handler=get_server, path="/server", always=True),)
