"""`ladder authors`, `tokens`, `reset`, `rename`, `block`, `unblock` and `anonymise`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from deepsea_cli.ladder.place import Place, place_option
from deepsea_cli.ladder.tables import count, minute
from deepsea_cli.output import echo, print_json
from deepsea_cli.text_table import Column, grid
from deepsea_referee.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deepsea_ladder.model.people import TokenLine


@click.command("authors")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@place_option
def authors(*, place: Place, as_json: bool) -> None:
    """List all authors with their role and state."""
    from deepsea_arena.documents import to_json

    with place.opened(own=True) as ladder:
        found = ladder.authors()
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
def tokens(*, place: Place, author: str | None, revoke: int | None, as_json: bool) -> None:
    """List the tokens of AUTHOR, or from afar your own, without their secrets."""
    from deepsea_arena.documents import to_json

    with place.account(author) as ladder:
        if revoke is not None:
            ladder.revoke_token(id=revoke)
            whose = "" if author is None else f" of {author}"
            echo(f"token {revoke}{whose} has ended, and what was open with it")
            return
        found = ladder.tokens()
    if as_json:
        print_json(to_json(found))
    elif not found.tokens:
        echo(f"{author} has no valid token; `ladder reset` prints a code for one")
    else:
        grid(_token_columns(found.tokens))


def _token_columns(lines: Sequence[TokenLine]) -> list[Column]:
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
@place_option
def reset(*, place: Place, author: str) -> None:
    """End all tokens and sessions of AUTHOR, and print a code for a new token.

    For a token that was lost, or that somebody else may have seen.
    """
    with place.opened(own=True) as ladder:
        made = ladder.reset_author(author=author)
    click.echo(made.code.code)


@click.command("rename")
@click.argument("author", metavar="AUTHOR")
@click.argument("name", metavar="NAME")
@place_option
def rename(*, place: Place, author: str, name: str) -> None:
    """Give AUTHOR the new name NAME, with all bots and tokens."""
    with place.opened(own=True) as ladder:
        changed = ladder.rename_author(author=author, to=name).author
    echo(f"{author} is {changed.author} now")


@click.command("block")
@click.argument("author", metavar="AUTHOR")
@place_option
def block(*, place: Place, author: str) -> None:
    """End all tokens and sessions of AUTHOR, who gets no new ones; bots stay."""
    with place.opened(own=True) as ladder:
        changed = ladder.block_author(author=author, blocked=True).author
    echo(
        f"{changed.author} is blocked, with {count(changed.bots, 'bot')} on the ladder; "
        "`ladder disable` takes a bot out"
    )


@click.command("unblock")
@click.argument("author", metavar="AUTHOR")
@place_option
def unblock(*, place: Place, author: str) -> None:
    """Lift the block of AUTHOR, whose old tokens remain dead."""
    with place.opened(own=True) as ladder:
        changed = ladder.block_author(author=author, blocked=False).author
    echo(f"{changed.author} is {changed.state}; `ladder reset` prints a code for a new token")


@click.command("anonymise")
@click.argument("author", metavar="AUTHOR")
@click.option("--yes", is_flag=True, help="Do it: it cannot be undone.")
@place_option
def anonymise(*, place: Place, author: str, yes: bool) -> None:
    """Remove the name and all rights of AUTHOR for good; bots and games stay."""
    if not yes:
        raise UserError(f"{author} would lose name and rights for good: say --yes")
    with place.opened(own=True) as ladder:
        changed = ladder.anonymise_author(author=author).author
    echo(f"{author} is {changed.author} now, with {count(changed.bots, 'bot')} on the ladder")
