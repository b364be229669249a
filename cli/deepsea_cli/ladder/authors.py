"""`ladder authors`, `tokens`, `reset`, `rename`, `block`, `unblock` and `anonymise`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from deepsea_cli.ladder.options import open_store, store_option
from deepsea_cli.ladder.place import Place, place_option
from deepsea_cli.ladder.tables import count, minute
from deepsea_cli.output import echo, print_json
from deepsea_cli.text_table import Column, grid
from deepsea_referee.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deepsea_arena.service.accounts import TokenLine, TokenList
    from deepsea_cli.remote.answers import Token, Tokens
    from deepsea_cli.remote.client import Note
    from deepsea_cli.remote.logins import Target
    from deepsea_ladder.store import Store


@click.command("authors")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@store_option
def authors(*, store_text: str, as_json: bool) -> None:
    """List all authors with their role and state."""
    from deepsea_arena.local_accounts import call
    from deepsea_arena.wire.json import to_json

    with open_store(store_text) as store:
        found = call(store, "ListAuthors")
    if as_json:
        print_json(to_json(found))
        return
    lines = found.authors
    grid(
        [
            Column("author", [one.author for one in lines], text=True),
            Column("role", [one.role for one in lines], text=True),
            Column("state", [one.state for one in lines], text=True),
            Column("bots", [str(one.bots) for one in lines]),
            Column("tokens", [str(one.tokens) for one in lines]),
            Column("since", [minute(one.created_at) for one in lines], spare=1),
        ]
    )


@click.command("tokens")
@click.argument("author", metavar="[AUTHOR]", required=False)
@click.option("--revoke", metavar="ID", type=int, help="End this token.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@place_option
@click.pass_context
def tokens(
    ctx: click.Context, *, place: Place, author: str | None, revoke: int | None, as_json: bool
) -> None:
    """List the tokens of AUTHOR, or from afar your own, without their secrets."""
    if place.remote is not None:
        if author is not None:
            raise UserError(f"AUTHOR: at {place.remote.address.url} your token says who you are")
        found: TokenList | Tokens | None = _own_tokens(
            place.remote.authorised(), place.note, revoke
        )
    elif author is None:
        raise click.UsageError("Missing argument 'AUTHOR'.", ctx)
    else:
        with open_store(place.store_text) as store:
            found = _tokens_of(store, author, revoke)
    _print_tokens(found, author, revoke, as_json=as_json)


def _print_tokens(
    found: TokenList | Tokens | None, author: str | None, revoke: int | None, *, as_json: bool
) -> None:
    from deepsea_arena.wire.json import to_json

    if found is None:
        whose = "" if author is None else f" of {author}"
        echo(f"token {revoke}{whose} has ended, and what was open with it")
    elif as_json:
        print_json(to_json(found))
    elif not found.tokens:
        echo(f"{author} has no valid token; `ladder reset` prints a code for one")
    else:
        grid(_token_columns(found.tokens))


def _tokens_of(store: Store, author: str, revoke: int | None) -> TokenList | None:
    """The tokens of an author; None if one was ended."""
    from deepsea_arena.local_accounts import revoke_token, tokens_of

    if revoke is None:
        return tokens_of(store, author)
    revoke_token(store, author, revoke)
    return None


def _own_tokens(target: Target, note: Note, revoke: int | None) -> Tokens | None:
    """The caller's tokens at a ladder on another machine; None if one was ended."""
    from deepsea_cli.remote.answers import Nothing, Tokens

    with target.client(note) as client:
        if revoke is None:
            return client.ask("ListTokens", Tokens)
        client.ask("RevokeToken", Nothing, id=revoke)
        return None


def _token_columns(lines: Sequence[TokenLine | Token]) -> list[Column]:
    return [
        Column("id", [str(one.id) for one in lines]),
        Column("starts", [one.start for one in lines]),
        Column("label", [one.label for one in lines], text=True),
        Column("scopes", [" ".join(one.scopes) for one in lines]),
        Column("last used", [one.last_used or "-" for one in lines], spare=1),
        Column("until", [minute(one.expires_at) for one in lines]),
    ]


@click.command("reset")
@click.argument("author", metavar="AUTHOR")
@store_option
def reset(*, store_text: str, author: str) -> None:
    """End all tokens and sessions of AUTHOR, and print a code for a new token.

    For a token that was lost, or that somebody else may have seen.
    """
    from deepsea_arena.local_accounts import call

    with open_store(store_text) as store:
        made = call(store, "ResetAuthor", author=author)
    click.echo(made.code.code)


@click.command("rename")
@click.argument("author", metavar="AUTHOR")
@click.argument("name", metavar="NAME")
@store_option
def rename(*, store_text: str, author: str, name: str) -> None:
    """Give AUTHOR the new name NAME, with all bots and tokens."""
    from deepsea_arena.local_accounts import call

    with open_store(store_text) as store:
        changed = call(store, "RenameAuthor", author=author, to=name).author
    echo(f"{author} is {changed.author} now")


@click.command("block")
@click.argument("author", metavar="AUTHOR")
@store_option
def block(*, store_text: str, author: str) -> None:
    """End all tokens and sessions of AUTHOR, who gets no new ones; bots stay."""
    from deepsea_arena.local_accounts import call

    with open_store(store_text) as store:
        changed = call(store, "BlockAuthor", author=author, blocked=True).author
    echo(
        f"{changed.author} is blocked, with {count(changed.bots, 'bot')} on the ladder; "
        "`ladder disable` takes a bot out"
    )


@click.command("unblock")
@click.argument("author", metavar="AUTHOR")
@store_option
def unblock(*, store_text: str, author: str) -> None:
    """Lift the block of AUTHOR, whose old tokens remain dead."""
    from deepsea_arena.local_accounts import call

    with open_store(store_text) as store:
        changed = call(store, "BlockAuthor", author=author, blocked=False).author
    echo(f"{changed.author} is {changed.state}; `ladder reset` prints a code for a new token")


@click.command("anonymise")
@click.argument("author", metavar="AUTHOR")
@click.option("--yes", is_flag=True, help="Do it: it cannot be undone.")
@store_option
def anonymise(*, store_text: str, author: str, yes: bool) -> None:
    """Remove the name and all rights of AUTHOR for good; bots and games stay."""
    from deepsea_arena.local_accounts import call

    if not yes:
        raise UserError(f"{author} would lose name and rights for good: say --yes")
    with open_store(store_text) as store:
        changed = call(store, "AnonymiseAuthor", author=author).author
    echo(f"{author} is {changed.author} now, with {count(changed.bots, 'bot')} on the ladder")
