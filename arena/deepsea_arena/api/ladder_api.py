"""The ladder's API: for pages and commands on its machine, and for programs on other machines.

Invariants: nothing here loads the store, so that a client imports no database; only arguments that
equal their parameter's default are left out of a request; the name "" stands for the default name,
and the number 0 for the default number.
"""

from __future__ import annotations

from collections.abc import Mapping

from deepsea_arena.api.accounts import AccountMethods, AdminMethods
from deepsea_arena.api.declarations import Method, methods_of
from deepsea_arena.api.person_games import PersonGameMethods
from deepsea_arena.api.reads import ReadMethods
from deepsea_arena.api.submissions import SubmissionMethods

ROOT = "/api/v1"
"""The path below which the methods are served."""
SHA256 = "x-content-sha256"
"""The header of an upload with the SHA-256 of the archive, in hex."""
KEY = "idempotency-key"
"""The header of an upload with the sender's key: the same key is the same submission."""


class LadderApi(ReadMethods, PersonGameMethods, AccountMethods, SubmissionMethods, AdminMethods):
    """A ladder, on this machine or another one, as a caller with certain rights may use it.

    Every method raises ApiError for what is refused. The bodies of the methods are for
    `LocalLadder`, which checks the caller before each; `RemoteLadder` sends a request instead.
    """


METHODS: Mapping[str, Method] = methods_of(LadderApi)
"""Every method of the API, by name."""
