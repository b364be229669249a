"""Where the methods of the service are in the HTTP API, as clients need them.

Invariant: a test compares this table with the server's; importing that one would load its store.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

API: Final = "/api/v1"


class Route(NamedTuple):
    """A method's place."""

    verb: str
    path: str
    """Below /api/v1; names in braces are fields of the request."""


ROUTES: Final[Mapping[str, Route]] = {
    "GetServer": Route("GET", "/server"),
    "Redeem": Route("POST", "/redeem"),
    "WhoAmI": Route("GET", "/account"),
    "ListTokens": Route("GET", "/account/tokens"),
    "RevokeToken": Route("DELETE", "/account/tokens/{id}"),
    "Submit": Route("PUT", "/bots/{bot}"),
    "WatchSubmission": Route("GET", "/submissions/{id}"),
    "ListSubmissions": Route("GET", "/submissions"),
    "Withdraw": Route("POST", "/bots/{bot}/withdraw"),
    "GetLog": Route("GET", "/games/{game_id}/log"),
    "GetStandings": Route("GET", "/standings"),
    "GetBot": Route("GET", "/bots/{bot}"),
    "ListGames": Route("GET", "/games"),
    "GetRecord": Route("GET", "/games/{game_id}/record"),
    "RequestAnalysis": Route("POST", "/games/{game_id}/analysis"),
    "GetAnalysis": Route("GET", "/games/{game_id}/analysis"),
    "WatchAnalysis": Route("GET", "/games/{game_id}/analysis/steps"),
}


def target(name: str, fields: Mapping[str, Any]) -> tuple[str, str, dict[str, Any] | None]:
    """The verb, the path with its query, and the body of a call; fields without a value are left
    out."""
    verb, path = ROUTES[name]
    rest = {key: value for key, value in fields.items() if value or isinstance(value, bool)}
    for key in fields:
        slot = f"{{{key}}}"
        if slot in path:
            path = path.replace(slot, quote(str(fields[key]), safe=""))
            rest.pop(key, None)
    if verb not in ("GET", "DELETE"):
        return verb, API + path, rest
    texts = {key: _text(value) for key, value in rest.items()}
    return verb, API + path + (f"?{urlencode(texts)}" if texts else ""), None


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
