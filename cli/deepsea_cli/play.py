"""`deepsea-referee play`: a person plays against bots in the terminal.

A match like any other (match.py), with one seat that person.py decides; afterwards its decisions
are judged by the coach.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deepsea_cli.errors import NEGATIVE, Interrupted
from deepsea_cli.options import (
    Seat,
    bot_uids_option,
    complete_bot,
    freeze_option,
    isolation_option,
    load_rules,
    number_option,
    path_option,
    rules_option,
    seed_text,
)
from deepsea_cli.output import draw, echo, width
from deepsea_referee.errors import UserError
from deepsea_rules import narration
from deepsea_rules.randomness import Stream, seed_from_text
from deepsea_rules.ruleset import MAX_PLAYERS, SEAT_LETTERS
from deepsea_rules.scoring import Result

if TYPE_CHECKING:
    from concurrent.futures import Future

    from deepsea_arena.coach.analysis import GameAnalysis
    from deepsea_cli.person import TerminalPerson
    from deepsea_referee.match import MatchSettings
    from deepsea_referee.results.folder import ResultsFolder
    from deepsea_referee.results.summary import GameResult, MatchResult
    from deepsea_referee.sandbox.interface import IsolationLevel
    from deepsea_rules.record import GameRecord
    from deepsea_rules.time_control import TimeControl

OPPONENTS = ("cautious", "greedy", "heuristic")
"""Sample bots of rising strength."""
WITH_HINTS = " (hints)"
"""Follows the name in the record of a game in which the coach was asked."""
WORST = 2
LUCK_ROLLOUTS = 40


@click.command("play")
@click.argument("bots", metavar="[BOT]...", nargs=-1, shell_complete=complete_bot)
@rules_option
@click.option(
    "--seed", metavar="TEXT", help="Seed text: the same text gives the same deal and dice."
)
@click.option(
    "--seat",
    type=Seat("random"),
    default="random",
    show_default=True,
    help="Your seat in the first game, A to F; in each further one you move by one seat.",
)
@number_option("--games", default=1, help="Number of games.")
@click.option("--clock", metavar="TIME+BANK", help="Your time, as in `match`.  [default: no limit]")
@click.option("--name", default="you", show_default=True, help="Your name in tables and records.")
@path_option(
    "--out", metavar="DIR", help="Write each game's record and results.json to this folder."
)
@click.option("--no-judge", is_flag=True, help="Do not judge your decisions after each game.")
@isolation_option
@bot_uids_option
@freeze_option
@click.pass_context
def command(
    ctx: click.Context,
    *,
    bots: tuple[str, ...],
    rules_text: str,
    seed: str | None,
    seat: str,
    games: int,
    clock: str | None,
    name: str,
    out: Path | None,
    no_judge: bool,
    isolation: IsolationLevel,
    freeze: bool,
) -> None:
    """Play against one to five bots in the terminal.

    BOT is as in `match`; without one you play against cautious, greedy and heuristic, sample bots
    of rising strength. Each action has a key; into a pipe, answers are read as lines from stdin.

    Keys: ? the rules of the moment, h a hint, l the last turns, q leave.
    """
    rules = load_rules(rules_text)
    from deepsea_bundle.names import checked
    from deepsea_referee.bots.resolve import BotSpec, resolve
    from deepsea_referee.system import SYSTEM

    specs = [resolve(bot) for bot in bots or OPPONENTS]
    if len(specs) >= MAX_PLAYERS:
        raise UserError(f"you play against 1 to {MAX_PLAYERS - 1} bots, not {len(specs)}")
    you = BotSpec(checked("name", name), (), None, "")
    text = seed_text(seed)
    number = SEAT_LETTERS.find(seat)
    if number < 0:
        number = Stream(seed_from_text(text), "seat of a person").uniform(len(specs) + 1)
    if number > len(specs):
        raise UserError(f"--seat: the game has seats A to {SEAT_LETTERS[len(specs)]}")
    specs.insert(number, you)
    # A child process tests the sandbox while this one imports gRPC.
    with SYSTEM.begin_test(isolation) as begun:
        from deepsea_cli import match_report
        from deepsea_cli.person import TerminalPerson, keys_of, lines_of
        from deepsea_referee.bots.output import OutputPlan
        from deepsea_referee.bots.process import Hosting
        from deepsea_referee.interrupts import WakePipe
        from deepsea_referee.match import MatchSettings
        from deepsea_referee.results.folder import ResultsFolder
        from deepsea_rules.time_control import TimeControl

        chosen = SYSTEM.choose(isolation, begun)
    settings = MatchSettings(
        bots=specs,
        hosting=Hosting(isolation=chosen, freeze=freeze),
        games=games,
        rules=rules,
        seed=seed_from_text(text),
        output=OutputPlan(folder=out, hints=True),
    )
    control = None if clock is None else TimeControl.parse(clock)
    with ExitStack() as opened:
        results = None if out is None else opened.enter_context(ResultsFolder(out))
        waker = WakePipe()
        opened.callback(waker.close)
        in_place = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
        if in_place:
            from deepsea_cli.keys import keys

            read = keys_of(opened.enter_context(keys(waker)), waker)
        else:
            read = lines_of(sys.stdin, waker)
        person = TerminalPerson(read, waker, in_place=in_place)
        sitting = _Sitting(settings, number, person, results, judges=not no_judge)
        result = asyncio.run(sitting.play(control))
        if results is not None:
            results.finish(result)
    click.echo()
    if result.games or result.voids.count:
        match_report.report(result, text, out, again=None)
    if person.dropped:
        echo("you left: the last game was dropped")
    elif result.interrupted and not person.away:
        where = f"; their records are in {out}" if out and result.games else ""
        raise Interrupted(f"after {result.games} of {games} games{where}")
    elif not result.games:
        ctx.exit(NEGATIVE)


class _Skipped(Exception):
    """The person does not wait for the judgement."""


class _Sitting:
    """The games of one call."""

    def __init__(
        self,
        settings: MatchSettings,
        number: int,
        person: TerminalPerson,
        results: ResultsFolder | None,
        *,
        judges: bool,
    ) -> None:
        """`number` is that of the person among the bots."""
        self._settings = settings
        self._number = number
        self._person = person
        self._results = results
        self._judges = judges
        self._judging: Future[None] | None = None
        self._skipped = False
        self._end: asyncio.Event

    async def play(self, control: TimeControl | None) -> MatchResult:
        """Play the games; Ctrl-C skips a judgement, else it ends them early."""
        from deepsea_referee.interrupts import on_signals
        from deepsea_referee.match import play_match
        from deepsea_referee.person import PersonSeat
        from deepsea_referee.timing.clock import SystemClock

        loop, clock, self._end = asyncio.get_running_loop(), SystemClock(), asyncio.Event()
        self._person.on_drop = partial(loop.call_soon_threadsafe, self._end.set)

        def end() -> None:
            self._skipped = True
            self._person.close()
            loop.call_soon_threadsafe(self._end.set)

        def interrupt() -> None:
            if self._judging is not None and not self._judging.done():
                self._skipped = True
            else:
                end()

        with on_signals(interrupt, end):
            return await play_match(
                self._settings,
                self._on_game,
                None if self._results is None else self._results.add_void,
                clock=clock,
                interrupt=self._end,
                players={self._number: partial(PersonSeat, self._person, control, clock)},
            )

    def _on_game(self, outcome: GameResult, record: GameRecord) -> Future[None] | None:
        from concurrent.futures import ThreadPoolExecutor

        seat = outcome.seats.index(self._number)
        if self._person.hints:
            seats = list(record.seats)
            seats[seat] = seats[seat]._replace(name=f"{seats[seat].name}{WITH_HINTS}")
            record = replace(record, seats=tuple(seats))
        if self._results is not None:
            self._results.add(outcome, record)
        click.echo()
        echo(f"game {outcome.game} is over")
        result = Result(outcome.points, outcome.placements)
        for line in narration.tell_end(result, narration.names(record)):
            echo(f"  {line}")
        if self._person.away and outcome.game < self._settings.games:
            self._end.set()
        if self._person.away or not self._judges:
            return None
        thread = ThreadPoolExecutor(1)
        self._skipped = False
        self._judging = thread.submit(self._judge, record, seat)
        thread.shutdown(wait=False)
        return self._judging

    def _judge(self, record: GameRecord, seat: int) -> None:
        from deepsea_arena.coach.analysis import Analysis, AnalysisSettings
        from deepsea_sdk.coach.decisions import Effort

        def go_on(_steps: int) -> None:
            if self._skipped:
                raise _Skipped

        echo("judging your decisions takes some seconds; Ctrl-C skips it")
        settings = AnalysisSettings(Effort.to(0.03), luck=LUCK_ROLLOUTS, seat=seat)
        try:
            [found] = Analysis([(record.game_id, record)], settings).run(on_steps=go_on)
        except _Skipped:
            echo("skipped")
        else:
            _report(found, seat)


def _report(found: GameAnalysis, seat: int) -> None:
    """Print what the seat's decisions lost, its luck, and its worst decisions."""
    from deepsea_arena.coach.analysis import by_seat
    from deepsea_cli.analysis_report import print_decision
    from deepsea_cli.terminal_board import draw_board
    from deepsea_referee.workbench.replay import game_at

    sums = by_seat(found)[seat]
    luck = f"; luck gave you {sums.luck.total.mean:+.2f}" if sums.luck else ""
    click.echo()
    echo(
        f"your {sums.lost.decisions} decisions lost {max(0.0, sums.lost.loss.mean):.2f} of "
        f"placement score in all{luck}; your result is {sums.result:.2f} (1 wins, 0 is last)"
    )
    behind = [one for one in found.decisions if one.judged.regret.low > 0]
    worst = sorted(behind, key=lambda one: -one.judged.regret.low)[:WORST]
    if not worst:
        echo("no decision was certainly worse than another")
    for decision in worst:
        view = game_at(found.record, decision.number).view(seat)
        click.echo()
        names = narration.names(found.record)
        for line in draw_board(view, names, None, width(), known=view.known):
            draw(line)
        print_decision(decision, found)
        echo(f"  better: {decision.judged.best}")
