"""The address of a ladder, as users write it and as it is kept.

Invariant: an address that was accepted is safe for a token: it has TLS, or it is this machine.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from deepsea_ladder.accounts import is_loopback
from deepsea_referee.errors import UserError
from deepsea_rules.printable import quoted

_PORTS = {"http": 80, "https": 443}
_PREFIX = re.compile(r"[A-Za-z0-9._~/-]*")
_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+")
LONGEST = 500


@dataclass(frozen=True, slots=True)
class Address:
    """Where a ladder is."""

    scheme: str
    """`https`, or `http` on this machine."""
    host: str
    """A name in lower case, or an IP address, without brackets."""
    port: int
    prefix: str = ""
    """The path in front of its pages, such as `/ladder`, or ""."""

    @property
    def secure(self) -> bool:
        return self.scheme == "https"

    @property
    def authority(self) -> str:
        """`host:port`."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The one way in which it is written."""
        usual = self.port == _PORTS[self.scheme]
        host = self.authority.removesuffix(f":{self.port}") if usual else self.authority
        return f"{self.scheme}://{host}{self.prefix}"

    @property
    def name(self) -> str:
        """By which users may call it: the URL without its scheme."""
        return self.url.partition("://")[2]


def read_address(text: str) -> Address:
    """The address that a URL is. Raises UserError for one that is none, or not safe."""
    try:
        parts = urlsplit(text.strip()[:LONGEST])
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise _no_address(text) from None
    if (
        parts.scheme not in _PORTS
        or not _HOST.fullmatch(host)
        or parts.query
        or parts.fragment
        or not _PREFIX.fullmatch(parts.path)
        or ".." in parts.path
        or port == 0
    ):
        raise _no_address(text)
    if "@" in parts.netloc:
        raise UserError("the address of a ladder has no user and no password in it")
    if parts.scheme == "http" and not is_loopback(host):
        raise UserError(
            f"{quoted(text)}: without TLS everybody on the way could read the token; use https://"
        )
    return Address(parts.scheme, host, port or _PORTS[parts.scheme], parts.path.rstrip("/"))


def _no_address(text: str) -> UserError:
    return UserError(f"{quoted(text)} is no address of a ladder, such as https://ladder.example")
