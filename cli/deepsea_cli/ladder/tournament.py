"""`ladder tournament`: round-robin, gauntlet and elimination, over the ladder's runner.

Laws: a tournament is a season of its own, so that its games rate nobody elsewhere; what it plays
follows from its bots and its season, so the same command goes on where it was stopped; at its end
the season is closed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Final, Literal

import click

from deepsea_cli.ladder.options import (
    open_store,
    store_option,
)
from deepsea_cli.ladder.run import play, report
from deepsea_cli.ladder.tables import count, number
from deepsea_cli.output import print_json, say
from deepsea_cli.text_table import Column, grid
from deepsea_ladder.errors import PairingError
from deepsea_referee.errors import RefereeError, UserError

if TYPE_CHECKING:
    from deepsea_ladder.model import StoredGame, StoredSeason
    from deepsea_ladder.scheduling.pairing import LineUp
    from deepsea_ladder.scheduling.tournament import Score
    from deepsea_ladder.store import Store

Kind = Literal["round-robin", "gauntlet", "elimination"]
NO_SHOW: Final = -1.0
"""The share of a bot that was taken out before its games: it stands behind all others."""


@click.command("tournament")
@click.argument("kind", type=click.Choice(["round-robin", "gauntlet", "elimination"]))
@click.argument("name", metavar="NAME")
@click.argument("bots", metavar="[BOT]...", nargs=-1)
@click.option(
    "--seats",
    metavar="N",
    type=click.IntRange(2, 6),
    default=2,
    show_default=True,
    help="At a table.",
)
@click.option(
    "--meetings",
    metavar="N",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="How often every two meet, or a table of an elimination plays.",
)
@click.option(
    "--season",
    "season_name",
    metavar="NAME",
    help="Whose rules, clock and isolation it has.  [default: the open one]",
)
@click.option(
    "--jobs",
    metavar="J",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="How many games are played at once.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@store_option
def tournament(
    *,
    store_text: str,
    kind: Kind,
    name: str,
    bots: tuple[str, ...],
    seats: int,
    meetings: int,
    season_name: str | None,
    jobs: int,
    as_json: bool,
) -> None:
    """Play the tournament NAME between these bots, or all that get games.

    A meeting is a game from every seat for each. In a gauntlet the first bot meets all others; an
    elimination seeds the bots in their order. The same command goes on after a stop.
    """
    with open_store(store_text) as store:
        field = Field(store, store_text, bots, jobs, quiet=as_json)
        field.begin(name, season_name, kind, seats)
        if kind == "elimination":
            champion = field.eliminate(seats, meetings)
        else:
            field.play(0, field.tables(kind, seats, meetings), whole=True)
            champion = None
        games = field.games()
        scores = field.scores(games)
        labels = field.labels
        seed = store.seasons.close(name)
    if champion is not None:
        scores.sort(key=lambda score: score.bot != champion)
    if as_json:
        print_json(
            {
                "tournament": name,
                "kind": kind,
                "games": len(games),
                "seed": seed,
                "champion": None if champion is None else labels[champion],
                "scores": [{**s._asdict(), "bot": labels[s.bot]} for s in scores],
            }
        )
        return
    click.echo()
    grid(
        [
            Column("", [str(place) for place, _ in enumerate(scores, 1)]),
            Column("bot", [labels[score.bot] for score in scores], text=True),
            Column("games", [str(score.games) for score in scores]),
            Column("share", [f"{100 * score.share:.0f} %" for score in scores]),
            Column("wins", [str(score.wins) for score in scores]),
            Column("points", [number(score.mean_points) for score in scores]),
        ]
    )
    click.echo()
    if champion is not None:
        say(f"{labels[champion]} wins the tournament {name}")
    say(f"season {name} is closed; seed {seed}")


class Field:
    """The bots of a tournament, and the season that they play in."""

    season: StoredSeason

    def __init__(
        self, store: Store, target: str, bots: Sequence[str], jobs: int, *, quiet: bool
    ) -> None:
        from deepsea_ladder.model import BotState

        self._store = store
        self._target = target
        self._jobs = jobs
        self._quiet = quiet
        if bots:
            found = [store.bots.get(bot) for bot in bots]
        else:
            found = [bot for bot in store.bots.all() if bot.state is BotState.ACTIVE]
        self._out = {bot.current.id for bot in found if bot.state is not BotState.ACTIVE}
        self.labels = {bot.current.id: bot.current.label for bot in found}
        if len(self.labels) != len(found):
            raise UserError("a bot takes part in a tournament once")
        self.bots = list(self.labels)

    def begin(self, name: str, like: str | None, kind: Kind, seats: int) -> None:
        """Open the tournament's season, or find the one that was begun."""
        from deepsea_arena.seasons import find_season
        from deepsea_referee.random import fresh_seed

        found = [season for season in self._store.seasons.all() if season.name == name]
        if found and found[0].closed_at is not None:
            raise UserError(f"season {name!r} is closed; choose another name")
        if not found:
            settings = find_season(self._store, like).season
            # The last tables of an elimination may be smaller.
            sizes = tuple(range(2, seats + 1)) if kind == "elimination" else (seats,)
            opened = replace(settings, name=name, seats=sizes)
            found = [self._store.seasons.open(opened, fresh_seed())]
        self.season = found[0]

    def tables(self, kind: Kind, seats: int, meetings: int) -> list[LineUp]:
        """The tables of a tournament that is not played in rounds."""
        from deepsea_ladder.scheduling.tournament import gauntlet, round_robin

        seed = self.season.commitment.encode()
        if kind == "gauntlet":
            return gauntlet(self.bots[0], self.bots[1:], seats, seed, meetings)
        return round_robin(self.bots, seats, seed, meetings)

    def play(
        self, after: int, tables: Sequence[LineUp], times: int = 1, *, whole: bool = False
    ) -> int:
        """Play tables, whose first game follows job `after`; the number of their last job.

        whole  nothing else is played in the season
        """
        from deepsea_arena.runner import RunEnd, RunGoal, no_source

        store, season = self._store, self.season
        blocks = [table.seatings() for table in tables for _ in range(times)]
        store.jobs.add(season, blocks, after=after)  # unless a former run has done so
        # A block of a bot that was taken out is not there; no later round has the same tables.
        ours = {frozenset(table.bots) for table in tables}
        there = store.queue.arranged(season, after=after)
        own = list(takewhile(lambda job: frozenset(job.lineup) in ours, there))
        missing = ours - {frozenset(job.lineup) for job in own}
        others = whole and len(own) < len(there)
        if others or any(self._out.isdisjoint(table) for table in missing):
            raise PairingError(f"tournament {season.name!r} was begun with other bots or tables")
        summary = play(store, season, self._target, self._jobs, no_source, RunGoal())
        stuck = store.queue.counts(season).quarantined
        if stuck or summary.ended is RunEnd.IN_VAIN:
            raise RefereeError(
                f"{count(stuck, 'game')} of {season.name} came to nothing: `ladder status` says "
                "why; `ladder requeue` them, and call the tournament again"
            )
        if summary.ended is RunEnd.STOPPED or (summary.accepted and not self._quiet):
            report(summary, season)
        return own[-1].number if own else after

    def eliminate(self, seats: int, times: int) -> int:
        """Play round after round; the champion."""
        from deepsea_ladder.scheduling.tournament import Elimination, Score

        bracket, after, turn = Elimination(tuple(self.bots), seats), 0, 0
        while bracket.champion is None:
            turn += 1
            tables = bracket.tables()
            if not self._quiet:
                say(f"round {turn}: {count(len(tables), 'table')}, {len(bracket.entrants)} bots")
            last = self.play(after, tables, times)
            scores = {score.bot: score for score in self.scores(self.games(after, last))}
            bracket = bracket.after(
                scores.get(bot) or Score(bot, 1, NO_SHOW, 0, 0.0)
                for table in tables
                for bot in table.bots
            )
            after = last
        return bracket.champion

    def games(self, after: int = 0, last: int | None = None) -> list[StoredGame]:
        """The games of the jobs after `after`, up to `last`."""
        prefix = f"{self.season.name}-"
        numbered = [
            (int(game.game_id.removeprefix(prefix)), game)
            for game in self._store.history.games(self.season)
        ]
        return [game for job, game in numbered if after < job and (last is None or job <= last)]

    def scores(self, games: Sequence[StoredGame]) -> list[Score]:
        """What the bots made of these games, best first."""
        from deepsea_ladder.scheduling.tournament import scores

        return scores([seat.result for seat in game.seats] for game in games)
