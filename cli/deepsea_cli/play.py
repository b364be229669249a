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
    command_hints,
    complete_bot,
    flag,
    freeze_option,
    isolation_option,
    load_rules,
    option,
    records_option,
    rules_option,
    seed_option,
    seed_text,
    shared,
    show_hints,
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
"""Sample bots of rising strength, which play if no bot is named."""
WITH_HINTS = " (hints)"
"""Added to the person's name in the record of a game in which it asked the coach."""
MAX_BROWSER_GAMES = 1000
"""Largest number of games in a browser, where the person asks for each further one."""


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
    from deepsea_bundle.names import valid_bot_name
    from deepsea_referee.bots.resolve import BotSpec, resolve, sample
    from deepsea_referee.system import SYSTEM

    bots = options.bots
    specs = [show_hints(resolve(bot)) for bot in bots] if bots else [*map(sample, OPPONENTS)]
    if len(specs) >= MAX_PLAYERS:
        raise UserError(f"you play against 1 to {MAX_PLAYERS - 1} bots, not {len(specs)}")
    you = BotSpec(valid_bot_name("name", options.name), (), None, "")
    text = seed_text(options.seed)
    person_index = SEAT_LETTERS.find(options.seat)
    if person_index < 0:  # a random seat
        person_index = Stream(seed_from_text(text), "seat of a person").uniform(len(specs) + 1)
    if person_index > len(specs):
        raise UserError(f"--seat: the game has seats A to {SEAT_LETTERS[len(specs)]}")
    specs.insert(person_index, you)
    # A child process tests the sandbox while this one imports gRPC.
    with SYSTEM.start_sandbox_test(options.isolation) as sandbox_test:
        from deepsea_cli import match_report
        from deepsea_referee.bots.output import OutputPlan
        from deepsea_referee.bots.process import Hosting
        from deepsea_referee.match import MatchSettings
        from deepsea_referee.results_folder import ResultsFolder

        isolation = SYSTEM.choose(options.isolation, sandbox_test)
    settings = MatchSettings(
        bots=specs,
        hosting=Hosting(isolation=isolation, freeze=options.freeze),
        games=options.games or (MAX_BROWSER_GAMES if options.browser else 1),
        rules=rules,
        seed=seed_from_text(text),
        output=OutputPlan(folder=options.out, hints=command_hints()),
    )
    control = None if options.clock is None else TimeControl.parse(options.clock)
    with ExitStack() as stack:
        out = options.out
        results = None if out is None else stack.enter_context(ResultsFolder(out, specs))
        person: TerminalPerson | StoredPerson
        if options.browser:
            person = _person_at_page(stack, settings, person_index)
        else:
            person = _person_at_terminal(stack)
        sitting = _Sitting(
            settings,
            person_index,
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


def _person_at_terminal(stack: ExitStack) -> TerminalPerson:
    """Return the person at this terminal, who answers by keys; in a pipe it answers by lines.

    stack  restores the terminal when it is closed
    """
    from deepsea_cli.person import TerminalPerson, keys_of, lines_of
    from deepsea_referee.interrupts import WakePipe

    waker = WakePipe()
    stack.callback(waker.close)
    is_terminal = sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    if not is_terminal:
        return TerminalPerson(lines_of(sys.stdin, waker), waker, in_place=False)
    from deepsea_cli.keys import keys

    read_key = keys_of(stack.enter_context(keys(waker)), waker)
    return TerminalPerson(read_key, waker, in_place=True)


def _person_at_page(stack: ExitStack, settings: MatchSettings, person_index: int) -> StoredPerson:
    """Serve the pages of a ladder for this match alone, and return the person who plays there.

    The page of the match is opened in a browser.

    stack         ends the ladder when it is closed; before, the person may look at the last page
    person_index  index of the person among the bots of the match
    """
    from deepsea_referee.clock import SystemClock
    from deepsea_referee.system import SYSTEM
    from deepsea_web.throwaway import ThrowawayLadder

    ladder = stack.enter_context(ThrowawayLadder(settings, person_index, SystemClock()))

    def wait_for_reader() -> None:
        """Wait until the page is closed, for a minute at most or until Ctrl-C."""
        if not ladder.person.interrupted:
            with suppress(KeyboardInterrupt):
                ladder.wait()

    stack.callback(wait_for_reader)
    click.echo(f"play at {ladder.address}\nclosing the page or Ctrl-C ends the game", err=True)
    # A browser in the terminal would hide the line above.
    if SYSTEM.opens_browsers():
        # Some browsers return only when their window is closed, so a thread waits for them.
        threading.Thread(target=webbrowser.open, args=(ladder.address,), daemon=True).start()
    return ladder.person


def _with_hints_in_name(record: GameRecord, seat: int) -> GameRecord:
    """Return the record with the remark in the person's name that it was given hints."""
    seats = list(record.seats)
    seats[seat] = seats[seat]._replace(name=f"{seats[seat].name}{WITH_HINTS}")
    return replace(record, seats=tuple(seats))


class _JudgementSkipped(Exception):
    """The person does not wait for the judgement of its decisions."""


@dataclass(slots=True)
class _Sitting:
    """The games of a person with bots, and the judgements and pauses between them."""

    settings: MatchSettings
    person_index: int
    """Index of the person among the bots of the match."""
    person: TerminalPerson | StoredPerson
    results: ResultsFolder | None
    judges: bool
    """True if the person's decisions are judged after each game."""
    skips: bool
    """True if Ctrl-C during a judgement skips it, and does not end the games."""
    is_playing: bool = True
    """True during a game, False between games."""
    is_judging: bool = False
    end: asyncio.Event = field(init=False)
    """Set to end the games early; it is made in the event loop that plays them."""

    async def play(self, control: TimeControl | None) -> MatchResult:
        """Play the games, with the person's time control or without limit.

        The first Ctrl-C during a judgement skips it; otherwise Ctrl-C ends the games early.
        """
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
            if self.is_judging and self.skips and not self.person.skips:
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
                players={self.person_index: partial(PersonSeat, self.person, control, clock)},
            )

    def _on_game(self, outcome: GameResult, record: GameRecord) -> Future[None]:
        """Store a game that is over, show its result, and judge the person's decisions if wanted.

        The next game begins when the returned future is done. There is none after the person has
        left.
        """
        self.is_playing = False
        seat = outcome.seats.index(self.person_index)
        if self.person.hints:
            record = _with_hints_in_name(record, seat)
        if self.results is not None:
            self.results.add(outcome, record)
        has_left = self.person.away
        has_next = outcome.game < self.settings.games and not has_left
        is_judged = self.judges and not has_left
        self.person.over(outcome.game, record, seat, judging=is_judged, more=has_next)
        if self.person.away:
            self.end.set()
        judge = partial(self._judge, outcome.game, record, seat) if is_judged else None
        return self._pause(judge)

    def _on_void(self, void: VoidGame) -> Future[None]:
        """Store that a game is void, and show the reason.

        The next game begins when the returned future is done.
        """
        self.is_playing = False
        if self.results is not None:
            self.results.add_void(void)
        has_next = void.game < self.settings.games and not self.person.away
        self.person.void(void, more=has_next)
        return self._pause()

    def _pause(self, judge: Callable[[], object] | None = None) -> Future[None]:
        """Start the pause after a game, and return a future that is done when it is over.

        In the pause the person's decisions are judged, and then it says when it wants to go on.

        judge  function that judges the decisions; None if they are not judged
        """

        def pause() -> None:
            if judge is not None:
                judge()
            self.person.wait_for_next()
            self.is_playing = not self.person.dropped

        # In a thread, so that the event loop can answer to Ctrl-C and keep the bots frozen.
        executor = ThreadPoolExecutor(1)
        future = executor.submit(pause)
        executor.shutdown(wait=False)
        return future

    def _judge(self, game: int, record: GameRecord, seat: int) -> None:
        """Judge the person's decisions in a game, and store and show the analysis.

        If the person skips the judgement, nothing is stored.
        """
        from deepsea_arena.analysis_document import judge_seat, seat_document
        from deepsea_referee.summary import record_name

        def stop_if_skipped(_steps: int) -> None:
            if self.person.skips:
                raise _JudgementSkipped

        self.is_judging = True
        analysis = None
        with suppress(_JudgementSkipped):
            analysis = judge_seat(record, seat, record_name(game), stop_if_skipped)
        self.is_judging = False
        if analysis is not None and self.results is not None:
            self.results.add_analysis(game, seat_document(analysis, seat))
        self.person.judged(analysis, seat)
