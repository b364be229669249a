"""True randomness: the only place of the project that draws any."""

from __future__ import annotations

import secrets


def fresh_seed() -> bytes:
    """32 bytes that nobody can predict, for a run that is not to be repeated."""
    return secrets.token_bytes(32)


def fresh_token() -> str:
    """A one-use token of 256 bits with which a bot shows that it is the one that was started."""
    return secrets.token_urlsafe(32)
