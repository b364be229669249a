"""`ladder audit` and `ladder limits`."""

from __future__ import annotations

import click

from deepsea_cli.ladder.place import Place, place_option
from deepsea_cli.output import echo, print_json


@click.command("audit")
@click.option("--author", metavar="NAME", default="", help="Only what NAME did, or is about NAME.")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=100,
    show_default=True,
    help="The newest entries.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@place_option
def audit(*, place: Place, author: str, limit: int, as_json: bool) -> None:
    """Print the audit log, the newest entries first: who did what, from where."""
    from deepsea_arena.documents import to_json

    with place.opened(own=True, author=author or None) as ladder:
        found = ladder.audit(limit=limit, everybody=not author)
    if as_json:
        print_json(to_json(found))
        return
    for entry in found.entries:
        who = f"{entry.actor or 'the ladder'}{f' at {entry.address}' if entry.address else ''}"
        words = f": {entry.note}" if entry.note else ""
        echo(f"{entry.at:%Y-%m-%d %H:%M:%S} {who}: {entry.kind} {entry.subject}{words}")


@click.command("limits")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def limits(*, as_json: bool) -> None:
    """Print the limits of a ladder that is reached from afar."""
    from deepsea_arena.documents import to_json
    from deepsea_ladder.remote_limits import USUAL_LIMITS

    table = USUAL_LIMITS.table()
    if as_json:
        print_json({"limits": to_json(table)})
        return
    # Not a table that fits the terminal: no word of it is to be cut.
    name, unit = (max(len(getattr(one, key)) for one in table) for key in ("name", "unit"))
    for one in table:
        echo(f"{one.name:<{name}}  {one.value:>11,} {one.unit:<{unit}}  {one.about}")
