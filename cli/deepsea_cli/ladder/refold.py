"""`ladder refold`: ratings made again from the games.

Laws: a check compares bit for bit; a what-if changes nothing; only --rewrite writes.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import click

from deepsea_cli.errors import NEGATIVE
from deepsea_cli.ladder.options import (
    chosen_season,
    count,
    number,
    open_store,
    season_option,
    store_option,
)
from deepsea_cli.output import say
from deepsea_cli.text_table import Column, grid
from deepsea_referee.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deepsea_ladder.model import StoredSeason
    from deepsea_ladder.rating.trueskill_fold import RatingParameters
    from deepsea_ladder.standings import Standing
    from deepsea_ladder.store import Store


@click.command("refold")
@season_option
@click.option("--check", is_flag=True, help="Compare bit for bit, all seasons (the default).")
@click.option("--records", is_flag=True, help="Play every record again too, and compare.")
@click.option("--rewrite", is_flag=True, help="Replace the season's stored ratings.")
@click.option("--mu", type=float, help="What if newcomers had this mean?")
@click.option("--sigma", type=float, help="What if newcomers were this uncertain?")
@click.option("--beta", type=float, help="What if there were so much luck in a game?")
@click.option("--tau", type=float, help="What if skills drifted so far from game to game?")
@click.option("--draw-probability", type=float, help="What if equals shared a place so often?")
@store_option
@click.pass_context
def refold(
    ctx: click.Context,
    /,
    *,
    store_text: str,
    season_name: str | None,
    check: bool,
    records: bool,
    rewrite: bool,
    **parameters: float | None,
) -> None:
    """Make the ratings again from the stored games, in their order.

    Without a number it compares what is stored, and exits 1 if it differs anywhere. With other
    parameters it shows the standings as they would be, and changes nothing.
    """
    given = {name: value for name, value in parameters.items() if value is not None}
    if bool(given) + (check or records) + rewrite > 1:
        raise UserError("a check, --rewrite and other parameters exclude each other")
    with open_store(store_text) as store:
        if given:
            season = chosen_season(store, season_name)
            _what_if(store, season, replace(season.season.rating, **given))
        elif rewrite:
            season = chosen_season(store, season_name)
            games = store.ratings.rewrite(season)
            say(f"season {season.name}: the ratings of {count(games, 'game')} were made again")
        elif not _check(store, season_name, records=records):
            ctx.exit(NEGATIVE)


def _check(store: Store, name: str | None, *, records: bool) -> bool:
    """Compare; whether all agrees."""
    sound = True
    for season in store.seasons.all() if name is None else [store.seasons.get(name)]:
        found = store.ratings.differences(season, records=records)
        games = store.queue.counts(season).done
        if found:
            sound = False
            say(f"season {season.name}: the stored ratings are not those of its games")
            for line in found:
                say(f"  {line}")
        else:
            again = ", every record played again" if records else ""
            say(f"season {season.name}: {count(games, 'game')}, the same to the last bit{again}")
    return sound


def _what_if(store: Store, season: StoredSeason, parameters: RatingParameters) -> None:
    from deepsea_cli.ladder.standings import plays
    from deepsea_ladder.rating.totals import RatingTotals
    from deepsea_ladder.standings import StandingRow, standings

    entries = [entry for entry in store.ratings.entries(season) if plays(entry)]
    folded = store.ratings.refold(season, parameters)
    newcomer = RatingTotals(parameters.newcomer)

    def lines(tallies: Sequence[RatingTotals]) -> list[Standing]:
        return standings(
            StandingRow(entry.version.bot, entry.version.author, entry.version.number, tally)
            for entry, tally in zip(entries, tallies, strict=True)
        )

    now = {line.bot: line for line in lines([entry.tally for entry in entries])}
    then = lines([folded.get(entry.version.id, newcomer) for entry in entries])
    words = ", ".join(f"{name} {value:.6g}" for name, value in asdict(parameters).items())
    say(f"season {season.name}, if it had {words}")
    click.echo()
    grid(
        [
            Column("rank", ["-" if line.rank is None else str(line.rank) for line in then]),
            Column("now", [str(now[line.bot].rank or "-") for line in then]),
            Column("bot", [line.bot for line in then], text=True),
            Column("rating", [number(line.rating) for line in then]),
            Column("now", [number(now[line.bot].rating) for line in then]),
            Column("skill", [f"{line.mu:.1f} ±{line.high - line.mu:4.1f}" for line in then]),
            Column("games", [str(line.games) for line in then], spare=1),
        ]
    )
    click.echo()
    say("nothing was changed; a season's parameters are those that it was opened with")
