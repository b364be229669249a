"""Random bytes from the system; no other module of the project draws any."""

from __future__ import annotations

import secrets


def fresh_seed() -> bytes:
    """Return an unpredictable seed of 32 bytes."""
    return secrets.token_bytes(32)


def fresh_token() -> str:
    """Return a new token of 256 bits, with which a bot authenticates once."""
    return secrets.token_urlsafe(32)
