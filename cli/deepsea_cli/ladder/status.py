"""`ladder status` and `requeue`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from deepsea_cli.ladder.options import Place, open_store, place_option, store_option
from deepsea_cli.ladder.tables import closed_or_paused, minute, peculiarities, print_extensions
from deepsea_cli.output import count, echo, print_json
from deepsea_ladder.accounts import MACHINE
from deepsea_referee.errors import UserError

if TYPE_CHECKING:
    from deepsea_arena.reports.status import LadderStatus, SeasonStatus
    from deepsea_ladder.model.bots import BotConduct

LISTED = 10


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@place_option
def status(*, place: Place, as_json: bool) -> None:
    """Show each season's queue and leases, the rate of games, and problems."""
    from deepsea_arena.reports.status import status_document

    with place.opened(own=True) as ladder:
        found = ladder.status()
    if as_json:
        print_json(status_document(found))
    else:
        _show(found, here=place.remote is None)


def _show(found: LadderStatus, *, here: bool) -> None:
    out = found.taken_out
    echo(f"{found.store}: {count(found.bots, 'bot')}, {count(len(out), 'bot')} taken out")
    for bot in out:
        echo(f"  {bot.bot} is {bot.state}: {bot.reason}")
    if found.shown and found.played and found.shown not in found.played:
        played = " and ".join(found.played)
        echo(f"pages show season {found.shown}, but games of {played} are played")
    for season in found.seasons:
        _show_season(season, here=here)
    if waiting := found.submissions:
        click.echo()
        echo(f"{count(len(waiting), 'submission')}: `ladder run` checks them")
        for one in waiting[:LISTED]:
            games = f", game {one.games} of {one.of_games}" if one.of_games else ""
            echo(f"  {f'{one.bot} ' if one.bot else ''}of {one.author}: {one.state}{games}")
    if analyses := found.analyses:
        click.echo()
        echo(f"{count(len(analyses), 'game')} to be analysed: `ladder run` does it")
        for analysis in analyses[:LISTED]:
            echo(f"  {analysis.game_id}: {analysis.state}")
    click.echo()
    echo("recently:")
    for entry in found.audit:
        echo(f"  {minute(entry.at)} {entry.kind} {entry.subject}: {entry.note}")


def _show_season(found: SeasonStatus, *, here: bool) -> None:
    from deepsea_arena.reports.seasons import without_cgroups

    click.echo()
    closed = closed_or_paused(found.season)
    rate = found.games_per_second
    echo(f"season {found.season.name}{closed}: {count(found.done, 'game')} played")
    if found.unplayable is not None:
        echo(f"  no game can be scheduled: {found.unplayable}")
    echo(f"  head {found.season.place}: {found.season.head}")
    for line in peculiarities(found.season):
        echo(f"  {line}")
    print_extensions(found.extensions)
    if (
        here
        and found.season.closed_at is None
        and (note := without_cgroups(found.season.isolation))
    ):
        echo(f"  note: {note}")
    if rate is not None:
        echo(f"  {rate:.2g} games a second recently, the last at {minute(found.last_game_at)}")
    echo(
        f"  waiting {found.waiting}, the oldest for {found.oldest_wait_seconds:.0f} s; "
        f"leased {found.leased}, run out {found.expired}, cancelled {found.cancelled}"
    )
    if found.lost:
        lost = ", ".join(f"{number} {ended}" for ended, number in sorted(found.lost.items()))
        echo(f"  attempts without a result: {lost}")
    for one in found.strikes[:LISTED]:
        echo(f"  {one.bot}: {_strikes(one)}")
    for job in found.leases[:LISTED]:
        echo(f"  {job.game_id} is played by {job.owner}, attempt {job.attempt}")
    if stuck := found.quarantined:
        echo(f"  {count(len(stuck), 'game')} set aside; `ladder requeue GAME` tries one again:")
        for job in stuck[:LISTED]:
            echo(f"  {job.game_id} {job.note}")


def _strikes(line: BotConduct) -> str:
    counted = (
        (line.absences, "in a row without it"),
        (line.spoiled, "of its last 10 forfeited, or with two faults"),
        (line.voids, "of its last 20 void while it was asked"),
    )
    return "games " + ", ".join(f"{number} {words}" for number, words in counted if number)


@click.command("requeue")
@click.argument("game_id", metavar="[GAME]", required=False)
@click.option("--all", "every", is_flag=True, help="All games that were set aside.")
@click.option("--run", "owner", metavar="OWNER", help="Games of a run, as `status` names it.")
@store_option
def requeue(*, store_text: str, game_id: str | None, every: bool, owner: str | None) -> None:
    """Retry GAME, which was set aside because it failed too often, or all of these.

    With --run those of a run that has ended without giving up its leases, on another machine: they
    need not wait until the leases expire. If it still plays, the first result of a game counts.
    """
    if every + (game_id is not None) + (owner is not None) != 1:
        raise UserError("name a game, or --all, or --run OWNER")
    from deepsea_arena.lease_owner import release_leases

    with open_store(store_text) as store:
        if owner is not None:
            echo(f"{count(release_leases(store, owner), 'game')} will be played again")
        elif game_id is None:
            echo(f"{count(store.jobs.requeue_all(by=MACHINE), 'game')} will be tried again")
        else:
            state = store.jobs.requeue(game_id, MACHINE)
            echo(f"{game_id} is {state} again" if state == "todo" else f"{game_id} is {state}")
