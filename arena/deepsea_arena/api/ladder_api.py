"""The ladder's API: for pages and commands on its machine, and for programs from afar.

Invariants: nothing here loads the store, so that a client imports no database; what is not a
parameter's default is never left out of a call on purpose; a name that is "" stands for the usual
one, a number that is 0 for the usual number.
"""

from __future__ import annotations

from collections.abc import Mapping

from deepsea_arena.api.accounts import AccountMethods, AdminMethods
from deepsea_arena.api.declarations import Method, methods_of
from deepsea_arena.api.person_games import PersonGameMethods
from deepsea_arena.api.reads import ReadMethods
from deepsea_arena.api.submissions import SubmissionMethods

ROOT = "/api/v1"
"""The path below which the methods are."""
SHA256 = "x-content-sha256"
KEY = "idempotency-key"
"""The headers of an upload."""


class LadderApi(ReadMethods, PersonGameMethods, AccountMethods, SubmissionMethods, AdminMethods):
    """A ladder, here or elsewhere, as somebody with certain rights may use it.

    Every method raises ApiError for what is refused. The bodies are those of `LocalLadder`, which
    checks the caller before each; `RemoteLadder` sends a request in place of each.
    """


METHODS: Mapping[str, Method] = methods_of(LadderApi)
"""Every method of the API, by name."""
