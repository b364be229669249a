"""Finds out which ladder is meant, and as whom it is asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deepsea_cli.remote.address import Address, read_address
from deepsea_cli.remote.credentials import (
    VARIABLE,
    CredentialsFile,
    Login,
    Logins,
    token_of_environment,
)
from deepsea_referee.errors import UserError
from deepsea_rules.printable import quoted

if TYPE_CHECKING:
    from deepsea_arena.api.remote import RemoteLadder


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
