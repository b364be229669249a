"""`ladder login`, `logout` and `whoami`: the user's account at a ladder on another machine.

Invariant: a code or a token is typed without being shown, or read from stdin; it is no argument.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from deepsea_cli.errors import NEGATIVE
from deepsea_cli.ladder import options
from deepsea_cli.ladder.options import VARIABLE, default_store
from deepsea_cli.output import echo, minute, print_document
from deepsea_referee.errors import UserError
from deepsea_rules.printable import printable

if TYPE_CHECKING:
    from deepsea_arena.api.accounts import Account
    from deepsea_arena.api.ladder_api import LadderApi

FROM_STDIN = "-"
"""Value of --code: the code is typed, or read from stdin."""
_LONGEST_SECRET = 1000
"""Characters that are read of a secret on stdin."""
_LONGEST_LABEL = 40
"""Characters of a token's label that is the name of this machine."""


@click.command("login")
@click.argument("url", metavar="URL")
@click.option(
    "--code", metavar="-", help="Redeem an invite code; `-` asks for it, or reads it from stdin."
)
@click.option("--author", metavar="NAME", help="With --code: the name that you choose.")
@click.option(
    "--label", metavar="TEXT", help="With --code: what the token is for.  [default: this machine]"
)
@click.option(
    "--fingerprint",
    metavar="SHA256",
    help="Of the ladder's own certificate: accept this one, and no other, without asking.",
)
def login(
    *,
    url: str,
    code: str | None,
    author: str | None,
    label: str | None,
    fingerprint: str | None,
) -> None:
    """Log in to the ladder at URL, with an invite code or with a token.

    Without --code a token is asked for, or read from stdin. It is kept in a file that nobody else
    can read. Commands that name no ladder mean that of the last login.
    """
    if code not in (None, FROM_STDIN):
        raise UserError("a code in an argument is seen by others: write `--code -`, then type it")
    if code is None and (author is not None or label is not None):
        raise UserError("--author and --label belong to --code")
    from deepsea_arena.api.remote import RemoteLadder

    logins = options.read_logins()
    url = options.read_url(url)
    certificate = _certificate_to_pin(url, fingerprint)
    with RemoteLadder(url, None, certificate) as ladder:
        # Two tests first: before a secret is typed, the ladder answers; before a code is used up,
        # the file can be written in which its token is kept.
        ladder.server()
        options.write_logins(logins)
        if code is not None:
            token, account = _redeem(ladder, _read_secret("invite code"), author or "", label)
        else:
            token = options.checked_token(_read_secret("token"), "what was typed")
            with RemoteLadder(url, token, certificate) as ladder_with_token:
                account = ladder_with_token.who_am_i()
    login = options.StoredLogin(token=token, author=account.author, certificate=certificate)
    options.write_logins(logins.with_login(url, login))
    echo(f"logged in at {url} as {_account_words(account)}")
    echo(f"the token is in {options.logins_file()}")
    if VARIABLE in os.environ or Path(default_store()).exists():
        name = options.name_of(url)
        echo(f"there is a ladder on this machine, too: name this one with --remote {name}")


@click.command("logout")
@click.argument("url", metavar="[URL]", required=False)
@click.pass_context
def logout(ctx: click.Context, *, url: str | None) -> None:
    """End the token of a login, at the ladder and here.

    URL is that of the login or its name, by default the last login's.

    Exit status: 0 done, 1 forgotten here, but the ladder could not be asked to end the token.
    """
    target = options.default_target() if url is None else options.find_target(url)
    if target is None or target.login is None:
        raise UserError("you are not logged in there" if url else "you are not logged in anywhere")
    # The login is forgotten here, even if the ladder cannot be asked to end its token.
    problem = _end_token(target.url, target.login)
    options.write_logins(options.read_logins().without(target.url))
    echo(f"logged out of {target.url}")
    if problem:
        echo(f"its token could not be ended, and is valid until you revoke it: {problem}")
        ctx.exit(NEGATIVE)


def _end_token(url: str, login: options.StoredLogin) -> str:
    """Ask the ladder to end the token of a login, and return why that failed, or "" if not."""
    from deepsea_arena.api.errors import ApiError, RefusalKind, RemoteError
    from deepsea_arena.api.remote import RemoteLadder

    try:
        with RemoteLadder(url, login.token, login.certificate) as ladder:
            ladder.revoke_token(id=ladder.who_am_i().token_id)
    except ApiError as error:
        if error.kind is RefusalKind.UNAUTHENTICATED:
            return ""  # the ladder does not accept the token, so it has ended already
        return str(error)
    except (RemoteError, UserError) as error:
        return str(error)
    return ""


@click.command("whoami")
@click.option("--remote", metavar="NAME|URL", help="The ladder.  [default: the last login's]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def whoami(*, remote: str | None, as_json: bool) -> None:
    """Say who you are at a ladder on another machine, and until when."""
    target = options.default_target() if remote is None else options.find_target(remote)
    if target is None:
        raise UserError("you are not logged in anywhere: run `deepsea-referee ladder login URL`")
    with target.authorised().connect() as ladder:
        account = ladder.who_am_i()
    if as_json:
        print_document({"account": account})
    else:
        echo(f"{_account_words(account)} at {target.url}")


def _certificate_to_pin(url: str, fingerprint: str | None) -> str | None:
    """Return the certificate that is accepted at a URL from now on, and no other one, as PEM.

    With a fingerprint it is the one that the ladder offers, which must have this fingerprint.
    Without one it is None if the system trusts the ladder's certificate; if not, the user is asked
    to compare its fingerprint. Raises UserError if the certificate is not accepted.
    """
    from deepsea_arena.api import remote as certificates
    from deepsea_arena.api.errors import UnknownCertificate
    from deepsea_arena.api.remote import RemoteLadder, offered_certificate

    if not url.startswith("https:"):
        if fingerprint is not None:
            raise UserError(f"--fingerprint: {url} has no certificate")
        return None
    reason = ""
    if fingerprint is None:
        try:
            with RemoteLadder(url) as ladder:
                ladder.server()
        except UnknownCertificate as error:
            reason = error.why
        else:
            return None
    certificate = offered_certificate(url)
    offered = certificates.fingerprint(certificate)
    if fingerprint is not None:
        if not certificates.same_fingerprint(fingerprint, offered):
            raise UserError(
                f"the certificate of {url} has another fingerprint, {offered}: "
                "do not log in, and ask who runs it"
            )
        return certificate
    click.echo(f"The certificate of {url} is not known to this machine: {printable(reason)}.")
    click.echo(f"Its fingerprint is {offered}")
    if not sys.stdin.isatty():
        raise UserError("ask who runs the ladder for it, compare, and give it with --fingerprint")
    if not click.confirm("Is this the one that you got from who runs the ladder?"):
        raise UserError("nothing was sent: ask who runs the ladder for its fingerprint")
    return certificate


def _read_secret(kind: Literal["invite code", "token"]) -> str:
    """Ask the user for a secret, and return it; raises UserError if it is empty.

    At a terminal it is typed without being shown; otherwise it is the first line of stdin.
    """
    if sys.stdin.isatty():
        text = click.prompt(kind.capitalize(), hide_input=True, default="", show_default=False)
    else:
        text = sys.stdin.readline(_LONGEST_SECRET)
    secret = str(text).strip()
    if not secret:
        hint = "; who has an invite code adds --code -" if kind == "token" else ""
        raise UserError(f"there is no {kind}: type it, or give it on stdin{hint}")
    return secret


def _redeem(ladder: LadderApi, code: str, author: str, label: str | None) -> tuple[str, Account]:
    """Redeem an invite code at a ladder, and return the new token with its account.

    author  name that a new author has chosen; "" if none was given
    label   name of the token among the author's others; None for the name of this machine
    """
    from deepsea_arena.api.errors import ApiError

    token_label = label or printable(platform.node())[:_LONGEST_LABEL] or "command line"
    try:
        redeemed = ladder.redeem(code=code, author=author, label=token_label)
    except ApiError as error:
        # Nothing but the ladder's message shows that the code is for a new author without a name.
        must_choose_name = "choose a name" in str(error)
        if must_choose_name and not author:
            raise UserError(f"{error}, with --author NAME") from None
        raise
    token = options.checked_token(redeemed.token, "what the ladder gave")
    return token, redeemed.account


def _account_words(account: Account) -> str:
    """Return an account in words: its author and role, and the scopes and end of its token."""
    scopes = ", ".join(account.scopes) or "nothing"
    until = minute(account.expires_at)
    return f"{account.author} ({account.role}), who may {scopes}, until {until} UTC"
