"""Ladders on other machines: how users write their addresses, and the file with the user's tokens.

Invariants: an address that was accepted is safe for a token: it has TLS, or it is this machine;
nobody but the user may read the file, and one that others can read is refused; it is written whole
or not at all; no token is ever an argument, part of a message or of a URL.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from deepsea_arena.documents import DocumentError, json_text, read_json
from deepsea_bundle.atomic import write_atomically
from deepsea_ladder.accounts import is_loopback
from deepsea_referee.errors import UserError
from deepsea_rules.printable import quoted

if TYPE_CHECKING:
    from deepsea_arena.api.remote import RemoteLadder

VARIABLE = "DEEPSEA_LADDER_TOKEN"
FORMAT = "deepsea-ladders/1"
LONGEST = 500
_PORTS = {"http": 80, "https": 443}
_PREFIX = re.compile(r"[A-Za-z0-9._~/-]*")
_HOST = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+")
_LARGEST = 1 << 20
_TOKEN = re.compile(r"[A-Za-z0-9_.-]{16,200}")


def read_url(text: str) -> str:
    """The one way to write a ladder's address. Raises UserError if it is none, or not safe."""
    if "@" in text:
        raise UserError("the address of a ladder has no user and no password in it")
    none = UserError(f"{quoted(text)} is no address of a ladder, such as https://ladder.example")
    try:
        parts = urlsplit(text.strip()[:LONGEST])
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise none from None
    if (
        parts.scheme not in _PORTS
        or not _HOST.fullmatch(host)
        or parts.query
        or parts.fragment
        or not _PREFIX.fullmatch(parts.path)
        or ".." in parts.path
        or port == 0
    ):
        raise none
    if parts.scheme == "http" and not is_loopback(host):
        raise UserError(
            f"{quoted(text)}: without TLS everybody on the way could read the token; use https://"
        )
    place = f"[{host}]" if ":" in host else host
    if port not in (None, _PORTS[parts.scheme]):
        place += f":{port}"
    return f"{parts.scheme}://{place}{parts.path.rstrip('/')}"


def name_of(url: str) -> str:
    """By which users may call a ladder: its URL without the scheme."""
    return url.partition("://")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    token: str = field(repr=False)
    author: str
    certificate: str | None = None
    """The one certificate that is accepted there, as PEM; None: any that the system trusts."""


@dataclass(frozen=True, slots=True)
class Logins:
    """The ladders that the user has logged in to, by URL."""

    ladders: Mapping[str, Login] = field(default_factory=dict)
    default: str | None = None
    """The URL of the one that is meant where none is named."""
    format: str = field(default="", compare=False)

    def with_login(self, url: str, login: Login) -> Logins:
        """With another one, which is the default from now on."""
        return Logins({**self.ladders, url: login}, url)

    def without(self, url: str) -> Logins:
        """Without one; the default is then the last of the others."""
        rest = {name: login for name, login in self.ladders.items() if name != url}
        default = self.default if self.default != url else next(reversed(rest), None)
        return Logins(rest, default)


def logins_file() -> Path:
    """The file with the user's tokens, in its folder for settings."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    # By the XDG specification: a path that is not absolute counts as not set.
    if not Path(base).is_absolute():
        base = os.environ.get("APPDATA", "") if sys.platform == "win32" else ""
    folder = Path(base) if base else Path.home() / ".config"
    return folder / "deepsea-referee" / "ladders.json"


def checked_token(text: str, where: str) -> str:
    """The text, if it can be a token. Raises UserError, which does not show it."""
    if not _TOKEN.fullmatch(text):
        raise UserError(f"{where} is no token of a ladder: one begins with dsl_ and has no spaces")
    return text


def read_logins() -> Logins:
    """The logins; none if there is no file. Raises UserError if others can read it."""
    path = logins_file()
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            content = file.read(_LARGEST)
    except FileNotFoundError:
        return Logins()
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        raise UserError(
            f"{path} has tokens, and others on this machine can read it: run `chmod 600 {path}`"
        )
    try:
        logins = read_json(Logins, content)
        for url, login in logins.ladders.items():
            checked_token(login.token, read_url(url))
        if logins.format != FORMAT or logins.default not in (None, *logins.ladders):
            raise DocumentError
    except (DocumentError, UserError):
        raise UserError(
            f"{path} is damaged: remove it, and log in again with `ladder login`"
        ) from None
    return logins


def write_logins(logins: Logins) -> None:
    path = logins_file()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(path, json_text(replace(logins, format=FORMAT)), mode=0o600)


@dataclass(frozen=True, slots=True)
class Target:
    """A ladder on another machine, and what is known of the user there."""

    url: str
    login: Login | None
    token: str | None = field(repr=False)
    """That of the environment, else that of the login; None asks as a visitor."""

    def opened(self) -> RemoteLadder:
        from deepsea_arena.api.remote import RemoteLadder

        pinned = None if self.login is None else self.login.certificate
        return RemoteLadder(self.url, self.token, pinned)

    def authorised(self) -> Target:
        """This one, if there is a token; raises UserError if there is none."""
        if self.token is None:
            raise UserError(
                f"you are not logged in at {self.url}: run "
                f"`deepsea-referee ladder login {self.url}`, or set {VARIABLE}"
            )
        return self


def find_target(text: str) -> Target:
    """The ladder that `text` names: its URL, or that of a login without its scheme."""
    logins = read_logins()
    return _target(logins, read_url(text) if "://" in text else _named(logins, text))


def default_target() -> Target | None:
    """The ladder of the last login; None if there is none."""
    logins = read_logins()
    return None if logins.default is None else _target(logins, logins.default)


def _target(logins: Logins, url: str) -> Target:
    login = logins.ladders.get(url)
    if given := os.environ.get(VARIABLE, "").strip():
        return Target(url, login, checked_token(given, f"${VARIABLE}"))
    return Target(url, login, None if login is None else login.token)


def _named(logins: Logins, text: str) -> str:
    known = list(logins.ladders)
    found = [url for url in known if text.lower() in (name_of(url).lower(), urlsplit(url).hostname)]
    if len(found) == 1:
        return found[0]
    names = ", ".join(map(name_of, found or known))
    if found:
        raise UserError(f"{quoted(text)} is several ladders: name one of {names}")
    hint = f"; you are logged in at {names}" if names else ""
    raise UserError(f"there is no login at {quoted(text)}{hint}; for another ladder write its URL")
