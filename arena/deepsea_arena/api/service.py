"""The service of a ladder: the state that all API calls share, its callers, and logins to pages.

Invariants: a caller is identified by a token or a session, never by what it claims; a text that
does not have the form of a secret is refused before the store is asked; every refusal has the same
words, whether a token never existed, has ended, or belongs to an author who is blocked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from deepsea_arena.api.errors import (
    HOUR_US,
    INVALID_TOKEN,
    SESSION_ENDED,
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
    address_key,
    address_prefix,
    new_secret,
    secret_digest,
)
from deepsea_ladder.limits import USUAL_LIMITS, RemoteLimits
from deepsea_ladder.store import Store
from deepsea_referee.clock import Clock, SystemClock

MACHINE = Caller(role=Role.ADMIN, scopes=frozenset(Scope), is_machine=True)
"""The caller of commands on the ladder's machine, which may do everything."""
READER = Caller(role=Role.AUTHOR)
"""A caller without an account that may read everything public, also on a private ladder."""


def visitor(address: str = "") -> Caller:
    """Return a caller without a token, at a network address if it is known."""
    return Caller(address=address)


class NewSession(NamedTuple):
    """A session of the pages that has just been opened."""

    session: str
    """The session's secret, for a cookie; it is not stored and cannot be shown again."""
    caller: Caller
    """The author who has logged in."""


class SeatHost(Protocol):
    """The player of people's games within the server, on a ladder without a runner."""

    def fields(self, game_id: str) -> Mapping[str, Any]:
        """Return fields for the seat's document that are not stored; empty for a past game."""

    def request(self, game_id: str, what: str) -> None:
        """Request a "hint" or the "next" game. Raises PersonGameError if neither can be had."""

    def wait_for_question(self) -> None:
        """Continue the game with the answers that are stored now, until the next question.

        Returns after a short time in any case.
        """


class LadderService:
    """The state that all API calls share. Threads may share one service.

    store     the ladder
    entropy   returns 32 unpredictable bytes at each call
    is_local  True if only callers on the ladder's machine can reach it: the server listens on
              loopback, has no public address, and trusts no proxy. If False, a season without a
              sandbox takes no uploads
    private   True if visitors may read nothing
    install   the command that installs the program for authors; "": from the package index
    limits    the defaults of the ladder's settings
    clock     the clock for the rate of failed logins
    host      plays the games of people within this process; None if a runner plays them
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
        """Read the limits in force from the store's settings; for the arguments see the class."""
        self.store = store
        self.entropy = entropy
        clock = clock or SystemClock()
        self.is_local = is_local
        self.private = private
        self.install = install
        self.host = host
        self._default_limits = limits
        self.limits: RemoteLimits
        """The limits in force when the settings were last read."""
        self.read_settings()
        self.url = ""
        """The address of the pages and of the HTTP API, set by the server once it listens."""
        self._failures = Rate(lambda: self.limits.failures_per_hour, HOUR_US, clock.now_us)

    def read_settings(self) -> None:
        """Read the limits from the store again; they hold for every call that begins afterwards."""
        self.limits = self.store.settings.limits(self._default_limits)

    # ------------------------------------------------------------------------------ logins

    @refused_as_api_error
    def caller_of(self, secret: str, address: str, kind: SecretKind = SecretKind.TOKEN) -> Caller:
        """Return the author who holds a token or session, as a caller at a network address.

        Raises ApiError if the secret is not valid.
        """
        digest = secret_digest(kind, secret)  # None if the text does not have a secret's form
        holder = None if digest is None else self.store.accounts.holder_by_digest(kind, digest)
        return _caller_at(address, holder, kind)

    @refused_as_api_error
    def log_in(self, token: str, address: str) -> NewSession:
        """Open a session of the pages for the author who holds a token.

        Raises ApiError if the token is not valid, or if too many logins from the address have
        failed. A valid token is accepted however many others at the same address have failed.
        """
        token_digest = secret_digest(SecretKind.TOKEN, token)  # None if the text is no token
        session, session_digest = new_secret(SecretKind.SESSION, self.entropy())
        holder = None
        if token_digest is not None:
            holder = self.store.accounts.open_session(
                token_digest,
                session_digest,
                self.limits.session_days,
                self.limits.sessions,
                address_prefix(address),
            )
        if holder is None:
            self.count_failure(address)
        return NewSession(session, _caller_at(address, holder, SecretKind.TOKEN))

    def count_failure(self, address: str) -> None:
        """Count a wrong code, token or login from an address. Raises ApiError beyond the rate.

        Call it only after a secret proved to be wrong, so that the holder of a valid secret is
        not locked out by others behind the same address.
        """
        self._failures.take(
            address_key(address), "too many wrong codes or tokens from your address"
        )

    @refused_as_api_error
    def log_out(self, caller: Caller) -> None:
        """End the caller's session of the pages; does nothing for a token or an ended session."""
        if caller.secret_kind is SecretKind.SESSION and self.still_valid(caller):
            self.store.accounts.revoke(
                SecretKind.SESSION, caller.secret_id, caller.by, caller.author_id
            )

    @refused_as_api_error
    def still_valid(self, caller: Caller) -> bool:
        """Return True if the caller's token or session still gives the same rights as before.

        Long calls such as streams check this every few seconds, and end when it is False.
        """
        if not caller.secret_id:  # a visitor or the ladder's machine has no secret that could end
            return True
        return caller.is_proved_by(self.store.accounts.holder_by_id(caller.secret_id))


def invalid_secret(kind: SecretKind | None) -> ApiError:
    """Return the refusal of a token or session, in the same words for every reason."""
    return ApiError(
        RefusalKind.UNAUTHENTICATED, SESSION_ENDED if kind is SecretKind.SESSION else INVALID_TOKEN
    )


def _caller_at(address: str, holder: Caller | None, kind: SecretKind) -> Caller:
    """Return the holder of a secret with the network address of its call.

    Raises ApiError if there is no holder, which means that the secret is not valid.
    """
    if holder is None:
        raise invalid_secret(kind)
    return replace(holder, address=address)
