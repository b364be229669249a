"""The service: callers, the state that all calls share, and logins.

Invariants: who calls is proved by a token or a session, never by the caller's word; a text that has
not the form of a secret is refused before the store is asked; every refusal has the same words,
whether a token never was, has ended, or is of somebody who is blocked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from deepsea_arena.api.errors import (
    ENDED,
    HOUR_US,
    INVALID,
    ApiError,
    Rate,
    RefusalKind,
    refused_as_api_error,
)
from deepsea_ladder.accounts import (
    Caller,
    Role,
    Scope,
    SecretKind,
    address_prefix,
    new_secret,
    secret_digest,
    source,
)
from deepsea_ladder.limits import USUAL_LIMITS, RemoteLimits
from deepsea_ladder.store import Store
from deepsea_referee.clock import Clock, SystemClock

MACHINE = Caller(role=Role.ADMIN, scopes=frozenset(Scope), is_machine=True)
"""Commands on the ladder's machine, which may do everything."""
READER = Caller(role=Role.AUTHOR)
"""Everybody who may read what is public, also on a private ladder."""


def visitor(address: str = "") -> Caller:
    """Somebody without a token."""
    return Caller(address=address)


class NewSession(NamedTuple):
    """A session of the pages that was opened."""

    session: str
    """Its secret, for a cookie; shown this one time."""
    caller: Caller


class SeatHost(Protocol):
    """The server in which the games of people are played, where no runner plays them."""

    def fields(self, game_id: str) -> Mapping[str, Any]:
        """Fields of the seat's document beside what is stored; none of a game that is past."""

    def request(self, game_id: str, what: str) -> None:
        """Request a "hint" or the "next" game. Raises PersonGameError."""

    def settle(self) -> None:
        """Go on with what was answered, and return soon."""


class LadderService:
    """The state that all calls share. Threads may share one.

    store     the ladder
    entropy   32 unpredictable bytes at each call
    is_local  whether everybody who can reach the ladder is on its own machine: the server listens
              on loopback, has no public address, and trusts no proxy. Else a season without a
              sandbox gets no uploads
    private   whether visitors may read nothing
    install   the line that installs the program for authors; "": from the package index
    limits    the defaults of the ladder's settings
    clock     of failures
    host      who plays the games of people, if that is this process; None: a runner
    """

    def __init__(
        self,
        store: Store,
        *,
        entropy: Callable[[], bytes],
        is_local: bool = False,
        private: bool = False,
        install: str = "",
        limits: RemoteLimits = USUAL_LIMITS,
        clock: Clock | None = None,
        host: SeatHost | None = None,
    ) -> None:
        self.store = store
        self.entropy = entropy
        clock = clock or SystemClock()
        self.is_local = is_local
        self.private = private
        self.install = install
        self.host = host
        self._usual = limits
        self.limits: RemoteLimits
        """The limits, from the settings when they were last read."""
        self.read_settings()
        self.url = ""
        """Of its pages and its HTTP API, set by the server once it listens."""
        self._failures = Rate(lambda: self.limits.failures_per_hour, HOUR_US, clock.now_us)

    def read_settings(self) -> None:
        """Read the limits again: what begins from now on has these."""
        self.limits = self.store.settings.limits(self._usual)

    # ------------------------------------------------------------------------------ logins

    @refused_as_api_error
    def caller_of(self, secret: str, address: str, kind: SecretKind = SecretKind.TOKEN) -> Caller:
        """The holder of a token, or of a session. Raises ApiError if it is not valid."""
        digest = secret_digest(kind, secret)
        holder = None if digest is None else self.store.accounts.proven(kind, digest)
        return _at(holder, address, kind)

    @refused_as_api_error
    def log_in(self, token: str, address: str) -> NewSession:
        """Open a session of the pages with a token; a failure is counted by address.

        Raises ApiError if the token is not valid. The holder of a valid token is not kept out by
        others at the same address.
        """
        token_digest = secret_digest(SecretKind.TOKEN, token)
        session, digest = new_secret(SecretKind.SESSION, self.entropy())
        limits = self.limits
        holder = None
        if token_digest is not None:
            holder = self.store.accounts.open_session(
                token_digest, digest, limits.session_days, limits.sessions, address_prefix(address)
            )
        if holder is None:
            self.count_failure(address)
        return NewSession(session, _at(holder, address, SecretKind.TOKEN))

    def count_failure(self, address: str) -> None:
        """Count a wrong code, token or login of an address. Raises ApiError if there were too many.

        Never called for a valid one, so that nobody is kept out by others behind the same address.
        """
        self._failures.take(source(address), "too many wrong codes or tokens from your address")

    @refused_as_api_error
    def log_out(self, caller: Caller) -> None:
        """End the session that the caller uses, if it has not ended."""
        if caller.secret_kind is SecretKind.SESSION and self.still_valid(caller):
            self.store.accounts.revoke(
                SecretKind.SESSION, caller.secret_id, caller.by, caller.author_id
            )

    @refused_as_api_error
    def still_valid(self, caller: Caller) -> bool:
        """True if the caller's token or session is still what it was when the call began.

        Ask it every few seconds for everything that lasts: what is false here has to end.
        """
        if not caller.secret_id:
            return True
        return caller.is_proved_by(self.store.accounts.still(caller.secret_id))


def invalid_secret(kind: SecretKind | None) -> ApiError:
    """The refusal of a token or session, in the same words whatever the reason is."""
    return ApiError(RefusalKind.UNAUTHENTICATED, ENDED if kind is SecretKind.SESSION else INVALID)


def _at(holder: Caller | None, address: str, kind: SecretKind) -> Caller:
    """The holder of a secret, at an address; raises ApiError if there is none."""
    if holder is None:
        raise invalid_secret(kind)
    return replace(holder, address=address)
