"""The file with the user's tokens, one for each ladder.

Invariants: nobody but the user may read it, and one that others can read is refused; it is written
whole or not at all; no token is ever an argument, part of a message or of a URL.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepsea_bundle.atomic import write_atomically
from deepsea_cli.remote.address import Address, read_address
from deepsea_referee.errors import UserError
from deepsea_rules.printable import quoted

if TYPE_CHECKING:
    from deepsea_arena.api.remote import RemoteLadder

VARIABLE = "DEEPSEA_LADDER_TOKEN"

FORMAT = "deepsea-ladders/1"

PRIVATE = 0o600

_LARGEST = 1 << 20

_TOKEN = re.compile(r"[A-Za-z0-9_.-]{16,200}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """What is kept of one ladder."""

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

    def with_login(self, url: str, login: Login) -> Logins:
        """With another one, which is the default from now on."""
        return Logins({**self.ladders, url: login}, url)

    def without(self, url: str) -> Logins:
        """Without one; the default is then the last of the others."""
        rest = {name: login for name, login in self.ladders.items() if name != url}
        default = self.default if self.default != url else next(reversed(rest), None)
        return replace(self, ladders=rest, default=default)


def config_folder() -> Path:
    """The user's folder for settings of this program."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    # By the XDG specification: a path that is not absolute counts as not set.
    if not Path(base).is_absolute():
        base = os.environ.get("APPDATA", "") if sys.platform == "win32" else ""
    return (Path(base) if base else Path.home() / ".config") / "deepsea-referee"


def token_of_environment() -> str | None:
    """The token in the environment. Raises UserError if it is none."""
    text = os.environ.get(VARIABLE, "").strip()
    return checked_token(text, f"${VARIABLE}") if text else None


def checked_token(text: str, where: str) -> str:
    """The text, if it can be a token. Raises UserError, which does not show it."""
    if not _TOKEN.fullmatch(text):
        raise UserError(f"{where} is no token of a ladder: one begins with dsl_ and has no spaces")
    return text


class CredentialsFile:
    """The file. What is read is checked; what is written replaces it."""

    def __init__(self) -> None:
        self.path = config_folder() / "ladders.json"

    def read(self) -> Logins:
        """The logins; none if there is no file. Raises UserError if others can read it."""
        try:
            with self.path.open("rb") as file:
                self._refuse_readable(os.fstat(file.fileno()).st_mode)
                content = file.read(_LARGEST)
        except FileNotFoundError:
            return Logins()
        try:
            return _logins(json.loads(content))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, UserError):
            raise UserError(
                f"{self.path} is damaged: remove it, and log in again with `ladder login`"
            ) from None

    def write(self, logins: Logins) -> None:
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        document = {
            "format": FORMAT,
            "default": logins.default,
            "ladders": {url: asdict(login) for url, login in logins.ladders.items()},
        }
        write_atomically(self.path, json.dumps(document, indent=2) + "\n", mode=PRIVATE)

    def _refuse_readable(self, mode: int) -> None:
        if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
            raise UserError(
                f"{self.path} has tokens, and others on this machine can read it: "
                f"run `chmod 600 {self.path}`"
            )


def _logins(document: Any) -> Logins:
    if document["format"] != FORMAT:
        raise ValueError
    ladders = {
        str(url): Login(
            token=checked_token(one["token"], url),
            author=str(one["author"]),
            certificate=None if one["certificate"] is None else str(one["certificate"]),
        )
        for url, one in document["ladders"].items()
    }
    default = document["default"]
    if default is not None and default not in ladders:
        raise ValueError
    return Logins(ladders, default)


@dataclass(frozen=True, slots=True)
class Target:
    """A ladder on another machine, and what is known of the user there."""

    address: Address
    login: Login | None
    token: str | None = field(repr=False)
    """That of the environment, else that of the login; None asks as a visitor."""

    def opened(self) -> RemoteLadder:
        """A connection to be used and closed."""
        from deepsea_arena.api.remote import RemoteLadder

        pinned = None if self.login is None else self.login.certificate
        return RemoteLadder.at(self.address.url, self.token, pinned)

    def authorised(self) -> Target:
        """This one, if there is a token; raises UserError if there is none."""
        if self.token is None:
            raise UserError(
                f"you are not logged in at {self.address.url}: run "
                f"`deepsea-referee ladder login {self.address.url}`, or set {VARIABLE}"
            )
        return self


def find_target(text: str) -> Target:
    """The ladder that `text` names: its URL, or that of a login without its scheme."""
    logins = CredentialsFile().read()
    address = read_address(text) if "://" in text else _named(logins, text)
    return _target(logins, address)


def default_target() -> Target | None:
    """The ladder of the last login; None if there is none."""
    logins = CredentialsFile().read()
    return None if logins.default is None else _target(logins, read_address(logins.default))


def _target(logins: Logins, address: Address) -> Target:
    login = logins.ladders.get(address.url)
    token = token_of_environment() or (None if login is None else login.token)
    return Target(address, login, token)


def _named(logins: Logins, text: str) -> Address:
    known = [read_address(url) for url in logins.ladders]
    found = [one for one in known if text.lower() in (one.name.lower(), one.host)]
    if len(found) == 1:
        return found[0]
    names = ", ".join(one.name for one in found or known)
    if found:
        raise UserError(f"{quoted(text)} is several ladders: name one of {names}")
    hint = f"; you are logged in at {names}" if names else ""
    raise UserError(f"there is no login at {quoted(text)}{hint}; for another ladder write its URL")
