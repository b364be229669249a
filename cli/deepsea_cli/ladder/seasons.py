"""`ladder init`, `season`, `deadline`, `pause` and `close`: commands about a ladder's seasons.

A season's settings never change: other settings are another season. Bots belong to the ladder and
play in every season.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deepsea_arena.api.errors import ApiError, RefusalKind
from deepsea_cli.errors import NEGATIVE
from deepsea_cli.ladder.options import (
    FIRST_SEASON,
    VARIABLE,
    Location,
    default_store,
    location_option,
    read_time,
    season_from,
    season_option,
    settings_options,
    store_option,
)
from deepsea_cli.output import (
    count,
    echo,
    minute,
    percent,
    print_document,
    print_extensions,
    print_table,
    short_digest,
    unusual_settings,
)
from deepsea_referee.errors import UserError

if TYPE_CHECKING:
    from deepsea_arena.api.accounts import SeasonControl
    from deepsea_arena.api.ladder_api import LadderApi
    from deepsea_arena.seasons import SeasonInfo, Unfinished
    from deepsea_arena.standings import Standings


deadline_option = click.option(
    "--deadline",
    metavar="TIME",
    callback=read_time,
    show_default="none",
    help="Accept no submissions after this time, such as 2027-01-31T18:00Z.",
)


@click.command("init")
@store_option
@click.option(
    "--season",
    "name",
    metavar="NAME",
    show_default=FIRST_SEASON,
    help="The name of its first season.",
)
@deadline_option
@settings_options
def init(*, store_text: str, name: str | None, deadline: datetime | None, **settings: Any) -> None:
    """Create a ladder in a new file, or in an empty PostgreSQL database.

    An existing file is not changed.
    """
    first_season = season_from(name, settings)
    from deepsea_arena.seasons import open_season
    from deepsea_ladder.store import Store

    is_default_place = store_text == default_store()
    if is_default_place:
        Path(store_text).parent.mkdir(parents=True, exist_ok=True)
    with Store.create(store_text) as store:
        info = open_season(store, first_season, submissions_until=deadline)
        echo(f"a ladder at {store.database}")
    _print_season(info)
    if not is_default_place:
        echo(f"give it to every command with --store, or in the variable {VARIABLE}")


@click.command("season")
@click.argument("name", metavar="NAME")
@deadline_option
@location_option
@settings_options
def season(*, location: Location, name: str, deadline: datetime | None, **settings: Any) -> None:
    """Open the season NAME, in which every bot starts without games."""
    season_settings = season_from(name, settings)
    until = "" if deadline is None else deadline.isoformat()
    with location.open_ladder(needs_token=True) as ladder:
        info = ladder.open_season(settings=json.loads(season_settings.to_json()), deadline=until)
    _print_season(info, is_here=location.remote is None)


@click.command("deadline")
@click.argument("time", metavar="[TIME]", required=False, callback=read_time)
@click.option("--author", metavar="NAME", default="", help="More time for this author alone.")
@click.option("--remove", is_flag=True, help="Take in bots until it is closed, as without one.")
@season_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@location_option
def deadline(
    *,
    location: Location,
    time: datetime | None,
    author: str,
    remove: bool,
    season_name: str | None,
    as_json: bool,
) -> None:
    """Show until when a season takes in bots, or let it be TIME.

    With --author this author may submit until TIME, after everybody else, and with --remove no
    longer than others. From afar, changes are for admins, and authors read their own deadline.
    """
    if remove and time is not None:
        raise UserError("TIME and --remove exclude each other")
    if author and not remove and time is None:
        raise UserError("say until when this author may submit, or --remove")
    season, changes = season_name or "", remove or time is not None
    with location.open_ladder(needs_token=changes) as ladder:
        if changes:
            until = "none" if time is None else time.isoformat()
            control = ladder.set_deadline(season=season, until=until, author=author)
            is_for_all = True
        else:
            control, is_for_all = _read_deadline(ladder, season)
        refusal = ladder.server().submissions_refused
    if as_json:
        print_document(control)
        return
    bots = "bots" if is_for_all else "your bots"
    last_time = control.season.submissions_until
    end = "it is closed" if last_time is None else f"{minute(last_time)} UTC"
    echo(f"season {control.season.name} takes in {bots} until {end}")
    print_extensions(control.extensions)
    if refusal:
        echo(f"now: {refusal}")


def _read_deadline(ladder: LadderApi, season: str) -> tuple[SeasonControl, bool]:
    """Return the deadline of a season as the user may see it, and True if the user is an admin.

    An admin sees the deadline for everybody, with the extensions of single authors. Others see
    only their own deadline.
    """
    from deepsea_arena.api.accounts import SeasonControl

    try:
        return ladder.season_control(season=season), True
    except ApiError as error:
        is_no_admin = error.kind in (RefusalKind.DENIED, RefusalKind.UNAUTHENTICATED)
        if not is_no_admin:
            raise
        own_season = ladder.season(season=season)
        return SeasonControl(own_season, extensions=()), False


@click.command("pause")
@click.argument("name", metavar="[SEASON]", required=False)
@click.option("--undo", is_flag=True, help="Start games of a paused season again.")
@location_option
def pause(*, location: Location, name: str | None, undo: bool) -> None:
    """Start no more games of a season until `pause --undo`; games that are being played count.

    Runs and servers wait meanwhile; submissions are checked.
    """
    with location.open_ladder(needs_token=True) as ladder:
        season = ladder.pause_season(season=name or "", paused=not undo).season
    state = "is played" if undo else "is paused: no game is started until `pause --undo`"
    echo(f"season {season.name} {state}")


@click.command("close")
@click.argument("name", metavar="NAME")
@click.option("--at-once", is_flag=True, help="Do not wait for bots that were submitted.")
@location_option
@click.pass_context
def close(ctx: click.Context, *, location: Location, name: str, at_once: bool) -> None:
    """Close the season NAME for more games, and show its seed.

    The season takes in no more bots, and is closed when those that were submitted are checked and
    new versions have played: until then repeat the command. Games that are being played count;
    until they have ended, repeat it for the final table and the seed. The season committed to this
    seed when it was opened.

    Exit status: 0 closed, 1 there are bots to be checked or games to be played.
    """
    with location.open_ladder(needs_token=True) as ladder:
        closing = ladder.close_season(season=name, at_once=at_once)
        if closing.unfinished is not None:
            _print_unfinished(name, closing.unfinished)
            ctx.exit(NEGATIVE)
        games_in_play = closing.in_play
        if games_in_play:
            games = "a game that is" if games_in_play == 1 else f"{games_in_play} games that are"
            echo(f"season {name} gets no new games, but {games} being played will count;")
            echo("repeat the command for the final table and the seed")
            ctx.exit(NEGATIVE)
        table = ladder.standings(season=name)
    print_table(table, whole_head=True)
    click.echo()
    _print_winner(table)
    echo(f"season {closing.season} is closed; seed {closing.seed}")


def _print_unfinished(name: str, unfinished: Unfinished) -> None:
    """Print why a season is not closed yet, and how to close it in any case.

    New versions of bots have to play a certain number of games before, and submissions have to be
    checked.
    """
    echo(f"season {name} takes in no more bots, and is not closed yet:")
    games = count(unfinished.games, "game")
    for bot in unfinished.bots:
        echo(f"  {bot}: its present version has not played {games}, and a former one has played")
    if unfinished.submissions:
        echo(f"  {count(unfinished.submissions, 'submission')} to be checked")
    echo("let a run play, and repeat the command; with --at-once former versions keep their ranks")


def _print_winner(table: Standings) -> None:
    """Print which bot wins a season, and how probably it is more skilled than the second one.

    Nobody wins if two bots share the first rank, or if none has a rank.
    """
    from deepsea_ladder.rating import Rating
    from deepsea_ladder.standings import certainty

    season = table.season.name
    ranked = [line for line in table.standings if line.rank is not None]
    shares_first_rank = [line.rank for line in ranked[:2]] == [1, 1]
    if not ranked or shares_first_rank:
        echo(f"nobody wins season {season}")
        return
    winner = ranked[0]
    sentence = f"{winner.bot} v{winner.version} wins season {season}"
    if len(ranked) > 1:
        second = ranked[1]
        # A line's `high` is two standard deviations above its mean.
        ratings = [Rating(line.mu, (line.high - line.mu) / 2) for line in (winner, second)]
        probability = percent(certainty(*ratings))
        sentence += (
            f", better than {second.bot} v{second.version} with a probability of {probability}"
        )
    echo(sentence)


def _print_season(season: SeasonInfo, *, is_here: bool = True) -> None:
    """Print a new season's settings, and the commitment to the seed of its games.

    is_here  True if the ladder is on this machine; then a note says if the sandbox that its bots
             need does not work here
    """
    from deepsea_arena.seasons import isolation_trouble

    seats = " or ".join(map(str, season.seats))
    echo(
        f"season {season.name}: rules {season.rules!r}, {seats} seats, "
        f"clock {season.clock}, isolation {season.isolation}"
    )
    for line in unusual_settings(season):
        echo(line)
    commitment = short_digest(season.commitment)
    echo(f"commitment to its games' seed: {commitment} (`ladder status --json` has all of it)")
    if season.isolation == "process":
        echo("its bots are trusted: they run as plain processes with your rights")
    problem = isolation_trouble(season.isolation) if is_here else ""
    if problem:
        echo(
            f"note: the sandbox does not work here: {problem}; or open a season "
            "with --isolation process"
        )
