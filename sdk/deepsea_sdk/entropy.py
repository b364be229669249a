"""Random bytes from the system: the only module of the project that draws any."""

from __future__ import annotations

import secrets


def fresh_seed() -> bytes:
    """An unpredictable seed of 32 bytes."""
    return secrets.token_bytes(32)


def fresh_token() -> str:
    """A one-use token of 256 bits with which a bot authenticates."""
    return secrets.token_urlsafe(32)
