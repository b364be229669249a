"""`ladder login`, `logout` and `whoami`: who one is at a ladder on another machine.

Invariant: a code or a token is typed without being shown, or read from stdin; it is no argument.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING

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
_LONGEST_SECRET = 1000
_LONGEST_LABEL = 40


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
    can read; the ladder of the last login is meant where no other one is named.
    """
    if code not in (None, FROM_STDIN):
        raise UserError("a code in an argument is seen by others: write `--code -`, then type it")
    if code is None and (author is not None or label is not None):
        raise UserError("--author and --label belong to --code")
    from deepsea_arena.api.remote import RemoteLadder

    known = options.read_logins()
    url = options.read_url(url)
    pinned = _certificate(url, fingerprint)
    with RemoteLadder(url, None, pinned) as ladder:
        ladder.server()  # before a secret is typed in vain
        options.write_logins(known)  # and before a code is spent whose token could not be kept
        secret = _secret("invite code" if code else "token")
        if code is not None:
            token, account = _redeem(ladder, secret, author or "", label)
        else:
            token = options.checked_token(secret, "what was typed")
            with RemoteLadder(url, token, pinned) as own:
                account = own.who_am_i()
    login = options.StoredLogin(token=token, author=account.author, certificate=pinned)
    options.write_logins(known.with_login(url, login))
    echo(f"logged in at {url} as {_described(account)}")
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
    from deepsea_arena.api.errors import ApiError, RefusalKind, RemoteError
    from deepsea_arena.api.remote import RemoteLadder

    target = options.default_target() if url is None else options.find_target(url)
    if target is None or target.login is None:
        raise UserError("you are not logged in there" if url else "you are not logged in anywhere")
    trouble = ""
    try:
        login = target.login
        with RemoteLadder(target.url, login.token, login.certificate) as ladder:
            ladder.revoke_token(id=ladder.who_am_i().token_id)
    except ApiError as error:
        # A token that the ladder does not take has ended already.
        trouble = "" if error.kind is RefusalKind.UNAUTHENTICATED else str(error)
    except (RemoteError, UserError) as error:
        trouble = str(error)
    options.write_logins(options.read_logins().without(target.url))
    echo(f"logged out of {target.url}")
    if trouble:
        echo(f"its token could not be ended, and is valid until you revoke it: {trouble}")
        ctx.exit(NEGATIVE)


@click.command("whoami")
@click.option("--remote", metavar="NAME|URL", help="The ladder.  [default: the last login's]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def whoami(*, remote: str | None, as_json: bool) -> None:
    """Say who you are at a ladder on another machine, and until when."""
    target = options.default_target() if remote is None else options.find_target(remote)
    if target is None:
        raise UserError("you are not logged in anywhere: run `deepsea-referee ladder login URL`")
    with target.authorised().opened() as ladder:
        account = ladder.who_am_i()
    if as_json:
        print_document({"account": account})
    else:
        echo(f"{_described(account)} at {target.url}")


def _certificate(url: str, wanted: str | None) -> str | None:
    """The certificate to pin, if the system does not trust it; asks the user."""
    from deepsea_arena.api import remote as certificates
    from deepsea_arena.api.errors import UnknownCertificate
    from deepsea_arena.api.remote import RemoteLadder, offered_certificate

    if not url.startswith("https:"):
        if wanted is not None:
            raise UserError(f"--fingerprint: {url} has no certificate")
        return None
    why = ""
    if wanted is None:
        try:
            with RemoteLadder(url) as ladder:
                ladder.server()
        except UnknownCertificate as error:
            why = error.why
        else:
            return None
    offered = offered_certificate(url)
    found = certificates.fingerprint(offered)
    if wanted is not None:
        if not certificates.same_fingerprint(wanted, found):
            raise UserError(
                f"the certificate of {url} has another fingerprint, {found}: "
                "do not log in, and ask who runs it"
            )
        return offered
    click.echo(f"The certificate of {url} is not known to this machine: {printable(why)}.")
    click.echo(f"Its fingerprint is {found}")
    if not sys.stdin.isatty():
        raise UserError("ask who runs the ladder for it, compare, and give it with --fingerprint")
    if not click.confirm("Is this the one that you got from who runs the ladder?"):
        raise UserError("nothing was sent: ask who runs the ladder for its fingerprint")
    return offered


def _secret(what: str) -> str:
    """A secret, typed without being shown, or the first line of stdin."""
    if sys.stdin.isatty():
        text = click.prompt(what.capitalize(), hide_input=True, default="", show_default=False)
    else:
        text = sys.stdin.readline(_LONGEST_SECRET)
    if not text.strip():
        hint = "" if what == "invite code" else "; who has an invite code adds --code -"
        raise UserError(f"there is no {what}: type it, or give it on stdin{hint}")
    return str(text).strip()


def _redeem(ladder: LadderApi, code: str, author: str, label: str | None) -> tuple[str, Account]:
    from deepsea_arena.api.errors import ApiError

    used_for = label or printable(platform.node())[:_LONGEST_LABEL] or "command line"
    try:
        found = ladder.redeem(code=code, author=author, label=used_for)
    except ApiError as error:
        if author or "choose a name" not in str(error):
            raise
        raise UserError(f"{error}, with --author NAME") from None
    return options.checked_token(found.token, "what the ladder gave"), found.account


def _described(account: Account) -> str:
    may = ", ".join(account.scopes) or "nothing"
    return (
        f"{account.author} ({account.role}), who may {may}, until {minute(account.expires_at)} UTC"
    )
