"""The service: what can be asked of a ladder, with every check of who may.

Invariants: nothing can be called that is not in the table of methods, and nobody may who does not
have the role and the scope that stand there; every write of a call begins, in its own transaction,
with a check that the caller's token or session still gives them; gRPC, the HTTP API, pages and
commands call `LadderService.call` and check nothing by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from deepsea_arena.service.caller import Caller
from deepsea_arena.service.errors import ENDED, INVALID, Kind, ServiceError, refusal_of
from deepsea_arena.service.failures import Failures
from deepsea_arena.service.table import Method
from deepsea_arena.service.upload import Uploads
from deepsea_ladder.accounts import Role
from deepsea_ladder.model.people import Credential
from deepsea_ladder.remote_limits import USUAL_LIMITS, RemoteLimits
from deepsea_ladder.store import Store
from deepsea_referee.timing.clock import SystemClock
from deepsea_sdk.clock import monotonic


class ServerAddress(NamedTuple):
    """Where a server is reached."""

    url: str = ""
    """Of its pages and its HTTP API; "" of no server."""
    grpc: str = ""
    """HOST:PORT; "" if there is none."""


class LadderService:
    """What can be asked of a ladder. Threads may share one.

    store    may be written
    public   the same ladder as strangers may see it: read only, without what is under embargo
    methods  what can be called, by name
    entropy  32 unpredictable bytes at each call
    uploads  what is taken in; None: with the usual limits, as strangers' uploads
    private  whether visitors may read nothing
    limits   how much of everything
    clock    the time in seconds, from any origin
    """

    def __init__(
        self,
        store: Store,
        public: Store,
        methods: Mapping[str, Method],
        *,
        entropy: Callable[[], bytes],
        uploads: Uploads | None = None,
        private: bool = False,
        limits: RemoteLimits = USUAL_LIMITS,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.store = store
        self.public = public
        self.methods = methods
        self.entropy = entropy
        self.uploads = uploads or Uploads(SystemClock(), limits)
        self.private = private
        self.limits = limits
        self.address = ServerAddress()
        """Set by the server, once it listens."""
        self.failures = Failures(clock, limits.failures_per_hour)

    def call(self, caller: Caller, name: str, /, **fields: object) -> Any:
        """The response of a method: a dataclass, or an iterator of them, as its `flow` says.

        Raises ServiceError for everything that is refused. Errors of an iterator's later steps are
        turned into one by `refusal_of`.
        """
        method = self.allowed(caller, name)
        try:
            with self._checked_writes(caller):
                return method.handler(self, caller, **fields)
        except Exception as error:
            refused = refusal_of(error)
            if refused is error:
                raise
            raise refused from error

    def _checked_writes(self, caller: Caller) -> AbstractContextManager[None]:
        def check(found: Credential | None) -> None:
            if not caller.is_proved_by(found):
                raise ServiceError(Kind.UNAUTHENTICATED, INVALID if caller.token_id else ENDED)

        if not caller.token_id and not caller.session_id:
            return nullcontext()  # a visitor, or the machine
        accounts = self.store.accounts
        return accounts.checked_writes(check, caller.token_id, caller.session_id)

    def allowed(self, caller: Caller, name: str) -> Method:
        """The method of that name. Raises ServiceError if the caller may not call it."""
        method = self.methods.get(name)
        if method is None:
            raise ServiceError(Kind.NOT_FOUND, "there is no such method")
        least = Role.AUTHOR if self.private and not method.always else method.role
        role = max(least, method.role)
        if caller.may(role, method.scope):
            return method
        if caller.role is Role.VISITOR:
            raise ServiceError(
                Kind.UNAUTHENTICATED, "this needs a token: deepsea-referee ladder login"
            )
        if caller.role < role:
            raise ServiceError(Kind.DENIED, f"this needs the role {role.word}")
        raise ServiceError(Kind.DENIED, f"this needs a token with the scope {method.scope}")
