"""`ladder submissions`: what an author has submitted from afar, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from deepsea_cli.ladder.place import Place, place_option
from deepsea_cli.ladder.tables import minute
from deepsea_cli.output import echo, print_json
from deepsea_cli.text_table import Column, grid

if TYPE_CHECKING:
    from deepsea_arena.api.types import SubmissionList


@click.command("submissions")
@click.argument("author", metavar="[AUTHOR]", required=False)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, 500),
    default=20,
    show_default=True,
    help="Number of submissions.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@place_option
def submissions(*, place: Place, author: str | None, limit: int, as_json: bool) -> None:
    """List what AUTHOR has submitted from afar, or from there your own, newest first."""
    with place.account(author) as ladder:
        found = ladder.submissions(limit=limit)
    _print(found, as_json=as_json)


def _print(found: SubmissionList, *, as_json: bool) -> None:
    from deepsea_arena.documents import to_json

    if as_json:
        print_json(to_json(found))
    elif not found.submissions:
        echo("nothing was submitted from afar")
    else:
        grid(_columns(found))


def _columns(found: SubmissionList) -> Sequence[Column]:
    listed = found.submissions
    return [
        Column("id", [str(one.id) for one in listed]),
        Column("bot", [one.bot or "-" for one in listed], text=True),
        Column("state", [str(one.state) for one in listed], text=True),
        Column("version", [str(one.version or "-") for one in listed], spare=1),
        Column("received", [minute(one.created_at) for one in listed], spare=2),
        Column("found", [one.found for one in listed], text=True),
    ]
