"""`ladder status` and `requeue`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from deepsea_cli.ladder.options import open_store, store_option
from deepsea_cli.ladder.tables import count, minute, peculiarities
from deepsea_cli.output import echo, print_json

if TYPE_CHECKING:
    from deepsea_arena.status import LadderStatus, SeasonStatus

LISTED: Final = 10


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@store_option
def status(*, store_text: str, as_json: bool) -> None:
    """Show each season's queue and leases, the rate of games, and problems."""
    from deepsea_arena.status import ladder_status
    from deepsea_arena.wire.json import to_json

    with open_store(store_text) as store:
        found = ladder_status(store)
    if as_json:
        print_json(to_json(found))
    else:
        _show(found)


def _show(found: LadderStatus) -> None:
    out = found.taken_out
    echo(f"{found.store}: {count(found.bots, 'bot')}, {count(len(out), 'bot')} taken out")
    for bot in out:
        echo(f"  {bot.bot} is {bot.state}: {bot.reason}")
    for season in found.seasons:
        _show_season(season)
    click.echo()
    echo("recently:")
    for entry in found.audit:
        echo(f"  {minute(entry.at)} {entry.kind} {entry.subject}: {entry.note}")


def _show_season(found: SeasonStatus) -> None:
    click.echo()
    closed = ", closed" if found.season.closed_at else ""
    rate = found.games_per_second
    echo(f"season {found.season.name}{closed}: {count(found.done, 'game')} played")
    for line in peculiarities(found.season):
        echo(f"  {line}")
    if rate is not None:
        echo(f"  {rate:.2g} games a second recently, the last at {minute(found.last_game_at)}")
    echo(
        f"  waiting {found.waiting}, the oldest for {found.oldest_wait_seconds:.0f} s; "
        f"leased {found.leased}, run out {found.expired}, cancelled {found.cancelled}"
    )
    for job in found.leases[:LISTED]:
        echo(f"  {job.game_id} is played by {job.owner}, attempt {job.attempt}")
    if stuck := found.quarantined:
        echo(f"  {count(len(stuck), 'game')} set aside; `ladder requeue GAME` tries one again:")
        for job in stuck[:LISTED]:
            echo(f"  {job.game_id} {job.note}")


@click.command("requeue")
@click.argument("game_id", metavar="GAME")
@store_option
def requeue(*, store_text: str, game_id: str) -> None:
    """Retry GAME, which was set aside because it failed too often."""
    with open_store(store_text) as store:
        state = store.jobs.requeue(game_id)
    echo(f"{game_id} is {state} again" if state == "todo" else f"{game_id} is {state}")
