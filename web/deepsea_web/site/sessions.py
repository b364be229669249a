"""The cookies of the site: one for a session, one for visitors' forms.

Invariants: a cookie is sent to this site alone and is not seen by scripts; where there is TLS it
has the prefix `__Host-`, with which no other host and no plain connection can set it. Two ladders
on one host have cookies of different names.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Final

from deepsea_web.server.access import Access

_VALUE: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")


class Cookie:
    """One cookie of the site."""

    def __init__(self, access: Access, purpose: str) -> None:
        address = f"{access.origin}{access.prefix}"
        # The path has to be / for the prefix, so that the name has to tell ladders apart.
        name = f"deepsea-{purpose}-{hashlib.sha256(address.encode()).hexdigest()[:8]}"
        self._safe = access.origin.startswith("https:")
        self.name = f"__Host-{name}" if self._safe else name

    def read(self, headers: Sequence[str]) -> str | None:
        """Its value in the `Cookie` headers; None if it is not there, is none of ours, or is
        there twice: what others put beside it is not to be mistaken for it."""
        pairs = [one.strip().partition("=") for header in headers for one in header.split(";")]
        values = [value for name, _, value in pairs if name == self.name]
        return values[0] if len(values) == 1 and _VALUE.fullmatch(values[0]) else None

    def give(self, value: str, seconds: int | None = None) -> str:
        """The `Set-Cookie` header that sets it: for the browser's session, or for a time."""
        return self._header(value, "" if seconds is None else f"; Max-Age={seconds}")

    def take(self) -> str:
        """The `Set-Cookie` header that removes it."""
        return self._header("", "; Max-Age=0")

    def _header(self, value: str, age: str) -> str:
        secure = "; Secure" if self._safe else ""
        return f"{self.name}={value}; Path=/{age}{secure}; HttpOnly; SameSite=Lax"
