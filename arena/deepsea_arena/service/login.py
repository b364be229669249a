"""Who somebody is: from a token, or from a session of the pages that a token opened.

Invariants: a text that has not the form of a secret is refused before the store is asked; every
refusal has the same words, whether a token never was, has ended, or is of somebody who is blocked.
"""

from __future__ import annotations

from typing import NamedTuple

from deepsea_arena.service.caller import Caller
from deepsea_arena.service.errors import ENDED, INVALID, Kind, ServiceError, refusal_of
from deepsea_arena.service.service import LadderService
from deepsea_ladder.accounts import address_prefix, new_session, session_digest, token_digest
from deepsea_ladder.errors import LadderError
from deepsea_ladder.model.people import Credential


class Login(NamedTuple):
    """A session of the pages that was opened."""

    session: str
    """Its secret, for a cookie; shown this one time."""
    caller: Caller


def caller_of_token(service: LadderService, token: str, address: str) -> Caller:
    """Who calls with a token. Raises ServiceError if it is not valid."""
    digest = token_digest(token)
    try:
        found = None if digest is None else service.store.accounts.by_token(digest)
    except LadderError as error:
        raise refusal_of(error) from error
    if found is None:
        raise ServiceError(Kind.UNAUTHENTICATED, INVALID)
    return _caller(found, address)


def caller_of_session(service: LadderService, session: str, address: str) -> Caller:
    """Who looks at pages with a session. Raises ServiceError if it is not valid."""
    digest = session_digest(session)
    try:
        found = None if digest is None else service.store.sessions.find(digest)
    except LadderError as error:
        raise refusal_of(error) from error
    if found is None:
        raise ServiceError(Kind.UNAUTHENTICATED, ENDED)
    return _caller(found, address)


def log_in(service: LadderService, token: str, address: str) -> Login:
    """Open a session of the pages with a token; a failure is counted by address.

    Raises ServiceError if the token is not valid; after too many failures it says when to try
    again. Who has a valid token is not kept out by others at the same address.
    """
    digest = token_digest(token)
    secret = new_session(service.entropy())
    stored = session_digest(secret)
    assert stored is not None
    try:
        found = digest and service.store.sessions.open(
            digest,
            stored,
            service.limits.session_days,
            service.limits.sessions,
            address_prefix(address),
        )
    except LadderError as error:
        raise refusal_of(error) from error
    if not found:
        service.failures.add(address)
        raise ServiceError(Kind.UNAUTHENTICATED, INVALID)
    return Login(secret, _caller(found, address))


def log_out(service: LadderService, caller: Caller) -> None:
    """End the session that the caller uses, if it has not ended."""
    if caller.session_id and still_valid(service, caller):
        try:
            service.store.sessions.end(caller.author_id, caller.session_id, caller.by)
        except LadderError as error:
            raise refusal_of(error) from error


def still_valid(service: LadderService, caller: Caller) -> bool:
    """Whether the caller's token or session is still what it was when the call began.

    Ask it every few seconds for everything that lasts: what is false here has to end.
    """
    if not caller.token_id and not caller.session_id:
        return True
    try:
        found = service.store.accounts.still(caller.token_id, caller.session_id)
    except LadderError as error:
        raise refusal_of(error) from error
    return caller.is_proved_by(found)


def _caller(found: Credential, address: str) -> Caller:
    return Caller(
        author=found.author,
        author_id=found.author_id,
        role=found.role,
        scopes=frozenset(found.scopes),
        token_id=found.token_id,
        session_id=found.session_id,
        address=address,
        actor=found.author,
    )
