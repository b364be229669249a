"""`ladder admin-token`, `invite` and `codes`: what lets people in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from deepsea_cli.ladder.options import open_store, store_option
from deepsea_cli.ladder.place import Place, place_option
from deepsea_cli.ladder.tables import minute
from deepsea_cli.options import read_text
from deepsea_cli.output import echo, print_json
from deepsea_cli.text_table import Column, grid
from deepsea_referee.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deepsea_ladder.model.people import CodeLine

CUT: Final = "- " * 31 + "8<"


@click.command("admin-token")
@click.option("--author", metavar="NAME", default="", help="The admin to be.  [default: admin]")
@click.option("--label", metavar="TEXT", default="", help="What the token is for.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@store_option
def admin_token(*, store_text: str, author: str, label: str, as_json: bool) -> None:
    """Make an admin, and print a token with every right, this one time."""
    from deepsea_arena.api.local import ladder_of
    from deepsea_arena.documents import to_json

    with open_store(store_text) as store:
        made = ladder_of(store).admin_token(author, label)
    if as_json:
        print_json(to_json(made))
    else:
        click.echo(made.token)


@click.command("invite")
@click.option("--count", metavar="N", type=int, default=0, help="Codes for new authors.")
@click.option(
    "--authors",
    "authors_file",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="A name on each line; a code for each.",
)
@click.option("--days", metavar="N", type=int, show_default="14", help="Days until they end.")
@click.option("--slips", is_flag=True, help="Print slips of paper to cut out.")
@click.option("--url", metavar="URL", help="The ladder's address, for links.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@place_option
def invite(
    *,
    place: Place,
    count: int,
    authors_file: Path | None,
    days: int | None,
    slips: bool,
    url: str | None,
    as_json: bool,
) -> None:
    """Make codes that let people in; each is good once.

    Who redeems one of --count chooses a name. One of --authors is for that author, who may be there
    already.
    """
    from deepsea_arena.documents import to_json

    if slips and as_json:
        raise UserError("choose --slips or --json")
    if days is not None and days < 1:
        raise UserError(f"--days {days}: a code lasts at least a day")
    names = [] if authors_file is None else _names(authors_file)
    if count < 0 or not (count or names):
        raise UserError("say for how many: --count N, or --authors FILE")
    with place.opened(own=True) as ladder:
        made = ladder.create_codes(count=count, authors=names, days=days or 0)
    address = url.rstrip("/") if url else None
    if as_json:
        print_json(to_json(made))
    elif slips:
        _print_slips(made.codes, address)
    else:
        for one in made.codes:
            shown = f"{address}/join#{one.code}" if address else one.code
            click.echo(f"{shown}  {one.author}".rstrip())


def _names(file: Path) -> list[str]:
    lines = (line.strip() for line in read_text(file).splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _print_slips(codes: Sequence[CodeLine], url: str | None) -> None:
    """Slips to cut out, each with what somebody needs to join."""
    for one in codes:
        click.echo(CUT)
        click.echo(f"Your code for the ladder{f': {one.author}' if one.author else ''}")
        click.echo()
        click.echo(f"    {one.code}")
        click.echo()
        if url:
            click.echo(f"In a browser:  {url}/join")
            click.echo(f"In a terminal: deepsea-referee ladder login {url} --code -")
        click.echo(f"Good once, until {minute(one.expires_at)} UTC. Keep it to yourself.")
    click.echo(CUT)


@click.command("codes")
@click.option("--revoke", metavar="ID", type=int, help="End this code.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@place_option
def codes(*, place: Place, revoke: int | None, as_json: bool) -> None:
    """List the codes that may be redeemed, without their secrets."""
    from deepsea_arena.documents import to_json

    with place.opened(own=True) as ladder:
        if revoke is not None:
            ladder.revoke_code(id=revoke)
            echo(f"code {revoke} has ended")
            return
        found = ladder.codes()
    if as_json:
        print_json(to_json(found))
        return
    lines = found.codes
    if not lines:
        echo("no code may be redeemed; `ladder invite` makes some")
        return
    grid(
        [
            Column("id", [str(one.id) for one in lines]),
            Column("for", [one.author or "anybody" for one in lines], text=True),
            Column("until", [minute(one.expires_at) for one in lines]),
        ]
    )
