"""`deepsea-referee play`: a person plays against bots in the terminal or in a browser.

A match like any other (match.py), with one seat that a person decides, at the terminal (person.py)
or on the page of a throw-away ladder (deepsea_web/throwaway.py); afterwards its decisions are
judged by the coach.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import webbrowser
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deepsea_cli.errors import NEGATIVE, Interrupted
from deepsea_cli.options import (
    Seat,
    argument,
    bot_uids_option,
    complete_bot,
    flag,
    freeze_option,
    isolation_option,
    load_rules,
    looked_at,
    option,
    records_option,
    rules_option,
    seed_option,
    seed_text,
    shared,
    shown_hints,
    whole_number,
    with_options,
)
from deepsea_cli.output import count, echo
from deepsea_referee.errors import UserError
from deepsea_referee.sandbox.interface import IsolationLevel
from deepsea_rules.game import GameRecord
from deepsea_rules.randomness import Stream, seed_from_text
from deepsea_rules.ruleset import MAX_PLAYERS, SEAT_LETTERS
from deepsea_rules.time_control import TimeControl

if TYPE_CHECKING:
    from deepsea_arena.seat import StoredPerson
    from deepsea_cli.person import TerminalPerson
    from deepsea_referee.match import MatchSettings
    from deepsea_referee.results_folder import ResultsFolder
    from deepsea_referee.summary import GameResult, MatchResult, VoidGame

OPPONENTS = ("cautious", "greedy", "heuristic")
"""Sample bots of rising strength."""
WITH_HINTS = " (hints)"
"""Follows the name in the record of a game in which the coach was asked."""
MOST_GAMES = 1000
"""In a browser, where each next game is asked for."""


@dataclass(frozen=True)
class PlayOptions:
    """Arguments and options of `play`."""

    bots: tuple[str, ...] = argument(metavar="[BOT]...", nargs=-1, shell_complete=complete_bot)
    rules: str = shared(rules_option)
    seed: str | None = shared(seed_option("deal and dice"))
    seat: str = option(
        "Your seat in the first game, A to F; in each further one you move by one seat.",
        type=Seat("random"),
        default="random",
        show_default=True,
    )
    games: int | None = whole_number(
        "Number of games.  [default: 1; in a browser as many as you like]"
    )
    clock: str | None = option(
        "Your time, as in `match`.  [default: no limit]", metavar="TIME+BANK"
    )
    name: str = option("Your name in tables and records.", default="you", show_default=True)
    out: Path | None = shared(records_option)
    browser: bool = flag("Play on a page in the browser.")
    no_judge: bool = flag("Do not judge your decisions after each game.")
    isolation: IsolationLevel = shared(isolation_option, bot_uids_option)
    freeze: bool = shared(freeze_option)


@click.command("play")
@with_options(PlayOptions)
def command(options: PlayOptions) -> None:
    """Play against one to five bots, in the terminal or on a page in the browser.

    BOT is as in `match`; without one you play against cautious, greedy and heuristic, sample bots
    of rising strength. Each action has a key; into a pipe, answers are read as lines from stdin.

    Keys: ? the rules of the moment, h a hint, l the last turns, q leave.
    """
    rules = load_rules(options.rules)
    from deepsea_bundle.names import checked
    from deepsea_referee.bots.resolve import BotSpec, resolve, sample
    from deepsea_referee.system import SYSTEM

    bots = options.bots
    specs = [looked_at(resolve(bot)) for bot in bots] if bots else [*map(sample, OPPONENTS)]
    if len(specs) >= MAX_PLAYERS:
        raise UserError(f"you play against 1 to {MAX_PLAYERS - 1} bots, not {len(specs)}")
    you = BotSpec(checked("name", options.name), (), None, "")
    text = seed_text(options.seed)
    number = SEAT_LETTERS.find(options.seat)
    if number < 0:
        number = Stream(seed_from_text(text), "seat of a person").uniform(len(specs) + 1)
    if number > len(specs):
        raise UserError(f"--seat: the game has seats A to {SEAT_LETTERS[len(specs)]}")
    specs.insert(number, you)
    # A child process tests the sandbox while this one imports gRPC.
    with SYSTEM.begin_test(options.isolation) as begun:
        from deepsea_cli import match_report
        from deepsea_referee.bots.output import OutputPlan
        from deepsea_referee.bots.process import Hosting
        from deepsea_referee.match import MatchSettings
        from deepsea_referee.results_folder import ResultsFolder

        chosen = SYSTEM.choose(options.isolation, begun)
    settings = MatchSettings(
        bots=specs,
        hosting=Hosting(isolation=chosen, freeze=options.freeze),
        games=options.games or (MOST_GAMES if options.browser else 1),
        rules=rules,
        seed=seed_from_text(text),
        output=OutputPlan(folder=options.out, hints=shown_hints()),
    )
    control = None if options.clock is None else TimeControl.parse(options.clock)
    with ExitStack() as opened:
        out = options.out
        results = None if out is None else opened.enter_context(ResultsFolder(out, specs))
        person = _at_page(opened, settings, number) if options.browser else _at_terminal(opened)
        sitting = _Sitting(
            settings,
            number,
            person,
            results,
            judges=not options.no_judge,
            skips=not options.browser,
        )
        result = asyncio.run(sitting.play(control))
        if options.browser and options.games is None:
            result.games_asked = result.games
        if results is not None:
            results.finish(result)
        click.echo()
        if result.games or result.voids.count:
            match_report.report(result, text, out, again=None)
        if person.dropped:
            echo("you left: the last game was dropped" if sitting.is_playing else "you left")
        person.end("you left" if person.dropped or person.away else "that was the last game")
    if result.interrupted and not (person.away or person.dropped):
        where = f"; their records are in {out}" if out and result.games else ""
        played = count(result.games, "game")
        if options.games or not options.browser:
            played = f"{result.games} of {settings.games} games"
        raise Interrupted(f"after {played}{where}")
    if not (result.games or person.dropped):
        click.get_current_context().exit(NEGATIVE)


def _at_terminal(opened: ExitStack) -> TerminalPerson:
    from deepsea_cli.person import TerminalPerson, keys_of, lines_of
    from deepsea_referee.interrupts import WakePipe

    waker = WakePipe()
    opened.callback(waker.close)
    in_place = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    if not in_place:
        return TerminalPerson(lines_of(sys.stdin, waker), waker, in_place=False)
    from deepsea_cli.terminal_board import keys

    read = keys_of(opened.enter_context(keys(waker)), waker)
    return TerminalPerson(read, waker, in_place=True)


def _at_page(opened: ExitStack, settings: MatchSettings, number: int) -> StoredPerson:
    """The person at the page of a ladder that is there as long as the games, and then until the
    page is closed, for a minute or until Ctrl-C."""
    from deepsea_referee.clock import SystemClock
    from deepsea_referee.system import SYSTEM
    from deepsea_web.throwaway import ThrowawayLadder

    ladder = opened.enter_context(ThrowawayLadder(settings, number, SystemClock()))

    @opened.callback
    def stay() -> None:
        if not ladder.person.interrupted:
            with suppress(KeyboardInterrupt):
                ladder.wait()

    click.echo(f"play at {ladder.address}\nclosing the page or Ctrl-C ends the game", err=True)
    # A browser in the terminal would hide this; and some return when their window is closed.
    if SYSTEM.opens_browsers():
        threading.Thread(target=webbrowser.open, args=(ladder.address,), daemon=True).start()
    return ladder.person


class _Skipped(Exception):
    """The person does not wait for the judgement."""


@dataclass(slots=True)
class _Sitting:
    """The games of a person with bots, and what comes between them."""

    settings: MatchSettings
    number: int
    """That of the person among the bots."""
    person: TerminalPerson | StoredPerson
    results: ResultsFolder | None
    judges: bool
    skips: bool
    """Ctrl-C skips a judgement."""
    is_playing: bool = True
    """A game is under way, not between games."""
    judging: bool = False
    end: asyncio.Event = field(init=False)

    async def play(self, control: TimeControl | None) -> MatchResult:
        """Play the games; Ctrl-C skips a judgement, else it ends them early."""
        from deepsea_referee.clock import SystemClock
        from deepsea_referee.interrupts import on_signals
        from deepsea_referee.match import play_match
        from deepsea_referee.person import PersonSeat

        loop, clock, self.end = asyncio.get_running_loop(), SystemClock(), asyncio.Event()
        self.person.on_drop = partial(loop.call_soon_threadsafe, self.end.set)

        def end() -> None:
            self.person.skips = True
            self.person.interrupt()
            loop.call_soon_threadsafe(self.end.set)

        def interrupt() -> None:
            if self.judging and self.skips and not self.person.skips:
                self.person.skips = True
            else:
                end()

        with on_signals(interrupt, end):
            return await play_match(
                self.settings,
                self._on_game,
                self._on_void,
                clock=clock,
                interrupt=self.end,
                players={self.number: partial(PersonSeat, self.person, control, clock)},
            )

    def _on_game(self, outcome: GameResult, record: GameRecord) -> Future[None]:
        seat = outcome.seats.index(self.number)
        if self.person.hints:
            seats = list(record.seats)
            seats[seat] = seats[seat]._replace(name=f"{seats[seat].name}{WITH_HINTS}")
            record = replace(record, seats=tuple(seats))
        if self.results is not None:
            self.results.add(outcome, record)
        more = outcome.game < self.settings.games and not self.person.away
        self.is_playing = False
        judging = self.judges and not self.person.away
        self.person.over(outcome.game, record, seat, judging=judging, more=more)
        if self.person.away:
            self.end.set()
        judge = partial(self._judge, outcome.game, record, seat)
        return self._pause(judge if judging else None)

    def _on_void(self, void: VoidGame) -> Future[None]:
        if self.results is not None:
            self.results.add_void(void)
        self.is_playing = False
        self.person.void(void, more=void.game < self.settings.games and not self.person.away)
        return self._pause()

    def _pause(self, judge: Callable[[], object] | None = None) -> Future[None]:
        """Judge the decisions of a game, and wait until the next one is wanted."""

        def pause() -> None:
            if judge is not None:
                judge()
            self.person.wait_for_next()
            self.is_playing = not self.person.dropped

        # In a thread: bots stay frozen, and signals are heard.
        thread = ThreadPoolExecutor(1)
        paused = thread.submit(pause)
        thread.shutdown(wait=False)
        return paused

    def _judge(self, game: int, record: GameRecord, seat: int) -> None:
        from deepsea_arena.analysis_document import judge_seat, seat_document
        from deepsea_referee.summary import record_name

        def go_on(_steps: int) -> None:
            if self.person.skips:
                raise _Skipped

        self.judging = True
        found = None
        with suppress(_Skipped):
            found = judge_seat(record, seat, record_name(game), go_on)
        self.judging = False
        if found is not None and self.results is not None:
            self.results.add_analysis(game, seat_document(found, seat))
        self.person.judged(found, seat)
