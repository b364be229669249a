"""A match of trusted bots in this process: the same games without processes and gRPC.

Invariants: bots whose decisions depend only on the game give the same records as in processes,
except for times; a bot is charged the time in which its thread ran or slept, not that in which a
busy host gave it no CPU; bots are not isolated. What they print is kept, written and shown as that
of bots with processes of their own, by the bot that is being asked: what its threads print while
another one is asked is taken for the other's.

A bot that does not return ends the run: a Python thread cannot be killed. What is measured is
progress and not time, so that a process that was stopped or suspended harms nobody; what ends the
run is raised in the bot's own code, so that its stack is there; a bot that catches even that ends
the process. Ctrl-C, too, is raised where bots' code runs, and the game is dropped: anywhere else it
could leave something half done, such as giving the terminal back.
"""

from __future__ import annotations

import io
import os
import sys
import threading
import traceback
from collections.abc import Callable, Container, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Self

from deepsea_referee.bots.loading import load
from deepsea_referee.bots.output import BotLog, OutputPlan, OutputTail, author_error, show_hints
from deepsea_referee.bots.resolve import BotSpec, with_unique_names
from deepsea_referee.errors import UserError
from deepsea_referee.interrupts import on_signals
from deepsea_referee.match import MatchSettings, OnGame
from deepsea_referee.results.summary import GameResult, MatchResult
from deepsea_referee.system import SYSTEM
from deepsea_referee.timing.clock import ThreadClock
from deepsea_rules.game import Game
from deepsea_rules.record import GameRecord
from deepsea_rules.time_control import TimeControl
from deepsea_sdk.bot import AnyBot, misspelt
from deepsea_sdk.table import play_to_end

_PACKAGE = __name__.partition(".")[0]
ISOLATION = "in-process"
"""What results say where others name the level of isolation."""
SHORTEST_S = 10.0
BUDGETS = 10
_TICKS = 10
"""Interval of the checks for progress, until there was none for too long."""
_REPEATS = 5
"""How often it is raised again if the bot catches it."""


def run_match(
    settings: MatchSettings,
    on_game: OnGame | None = None,
    *,
    now_us: Callable[[], int] | None = None,
    watch: GameWatch | None = None,
) -> MatchResult:
    """Play a match; Ctrl-C ends it early and cleanly. `settings.hosting` is not used.

    now_us  the clock that bots are charged by; a ThreadClock's unless another is given
    watch   ends the run for a bot that does not return, and when its `stop` is called; by default
            after what the bots' clock suggests, and at Ctrl-C
    Raises UserError for a bot that cannot be imported or does not return.
    """
    now_us = now_us or ThreadClock().now_us
    result = settings.result(ISOLATION)
    output = InProcessOutput(result.bots, settings.output)
    troubled: set[int] = set()
    with ExitStack() as opened:
        if watch is None:
            watch = GameWatch.of(settings.time_control)
            if watch.works:
                opened.enter_context(on_signals(watch.stop))
        try:
            players = [*_loaded(settings, output, watch)]
            with watch:
                for number in settings.numbers():
                    outcome, record = play_number(settings, number, players, now_us, watch, output)
                    troubled |= {outcome.seats[fault.seat] for fault in outcome.faults}
                    result.add(outcome, record.decisions)
                    if on_game is not None:
                        room = on_game(outcome, record)
                        if isinstance(room, Future):
                            room.result()
        except KeyboardInterrupt:
            result.interrupted = True
        finally:
            result.logs += output.logs(troubled)
    result.interrupted |= watch.stopped
    return result


def _loaded(settings: MatchSettings, output: InProcessOutput, watch: GameWatch) -> Iterator[AnyBot]:
    for number, bot in enumerate(settings.bots):
        with output.redirected(number), watch.watching():
            player = load(bot)
        if settings.output.hints and settings.output.worker <= 1 and isinstance(player, type):
            show_hints(bot.name, "\n".join(misspelt(player)))
        yield player


def play_number(
    settings: MatchSettings,
    number: int,
    players: Sequence[AnyBot],
    now_us: Callable[[], int],
    watch: GameWatch,
    output: InProcessOutput | None = None,
) -> tuple[GameResult, GameRecord]:
    """Play one game of a match; `number` counts from 0.

    now_us  the clock that bots are charged by
    watch   a watch that is running
    output  takes what bots print; without it that is lost
    Raises UserError for a bot that does not return, whose stack is written to stderr, and
    KeyboardInterrupt if the watch's `stop` is called.
    """
    line_up = settings.line_up(number)
    output = output or InProcessOutput(settings.bots, OutputPlan())

    def on_seat(seat: int) -> None:
        output.bot = line_up[seat]

    game = settings.game(number)
    hung: Hanging | None = None
    try:
        with output.redirected(), watch.watching(game.game):
            seated = [players[bot] for bot in line_up]
            play_to_end(game, seated, on_error="forfeit", now_us=now_us, on_seat=on_seat)
    except Hanging as hanging:
        hung = hanging
    if hung is not None:
        raise _hangs(hung, settings, number, players, watch.limit_s)
    played = game.played()
    folders = [settings.bots[bot].folder for bot in line_up]
    faults = [
        replace(report, error=author_error(report.error, folders[report.seat]))
        for report in played.faults
    ]
    played = replace(played, faults=tuple(faults))
    return GameResult.of(number, line_up, played), played.record


def _hangs(
    hanging: Hanging, settings: MatchSettings, number: int, players: Sequence[AnyBot], limit: float
) -> UserError:
    """Write the bot's stack to stderr; returns the error that ends the run."""
    # Every bot's file is imported under a name of its own.
    bots = {player.__module__: bot for bot, player in enumerate(players)}
    frames = [*traceback.walk_tb(hanging.__traceback__)]
    modules = [str(frame.f_globals.get("__name__")) for frame, _ in frames]
    while modules and modules[-1].startswith(f"{_PACKAGE}."):  # the last ones are of the watch
        modules.pop()
    frames = frames[: len(modules)]
    first = next((i for i, module in enumerate(modules) if module in bots), None)
    named = with_unique_names(settings.bots)
    who = "a bot" if first is None else f"bot {named[bots[modules[first]]].name!r}"
    stack = traceback.StackSummary.extract(iter(frames[first or 0 :]))
    sys.stderr.write(f"{who} has been here for {limit:g} s:\n{''.join(stack.format())}")
    where = f"{Path(stack[-1].filename).name}, line {stack[-1].lineno}, in {stack[-1].name}"
    return UserError(
        f"{who} did not return for {limit:g} s in game {number + 1} ({where}): nothing can end it "
        "in this process; fix it, or play it without --in-process, where that is a timeout"
    )


# Bots that never return, and Ctrl-C


class Hanging(BaseException):
    """Raised in the code of a bot that does not return; not an Exception, which bots catch."""


class GameWatch:
    """Raises Hanging in the main thread when a game makes no progress for `limit_s`.

    `stop` raises KeyboardInterrupt, but in bots' code alone. In another thread, where no signal
    arrives, nothing is watched.
    """

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.works = threading.current_thread() is threading.main_thread()
        self.stopped = False
        """Whether the run is to end."""
        self._runs = False
        """Whether bots' code runs."""
        self._game: Game | None = None
        self._seen: tuple[Game, int] | None = None
        self._ticks = 0
        self._ticking = ExitStack()

    @classmethod
    def of(cls, control: TimeControl) -> Self:
        """Ten budgets, but at least 10 s, and the bank: far more than a timeout takes."""
        return cls(max(SHORTEST_S, BUDGETS * control.budget_us / 1e6) + control.bank_us / 1e6)

    def __enter__(self) -> Self:
        if self.works:
            self._ticking.enter_context(SYSTEM.ticking(self.limit_s / _TICKS, self._tick))
        return self

    def __exit__(self, *_error: object) -> None:
        self._ticking.close()

    def stop(self) -> None:
        """End the run; for a signal handler.

        The game under way is dropped, unless a bot catches what is raised: then the next one is.
        """
        self.stopped = True
        if self._runs:
            raise KeyboardInterrupt

    @contextmanager
    def watching(self, game: Game | None = None) -> Iterator[None]:
        """Around bots' code: watch a game; raises KeyboardInterrupt if `stop` is called."""
        self._runs, self._game = True, game
        try:
            if self.stopped:
                raise KeyboardInterrupt
            yield
        finally:
            self._runs, self._game = False, None

    def _tick(self, frame: FrameType | None) -> None:
        game = self._game
        seen = (game, len(game.decisions)) if game is not None else None
        self._ticks = self._ticks + 1 if seen is not None and seen == self._seen else 0
        self._seen = seen
        if self._ticks < _TICKS:
            return
        if self._ticks < _TICKS + _REPEATS:
            raise Hanging
        # Into the stream that is not redirected: what bots print may go nowhere.
        stderr = sys.__stderr__ or sys.stderr
        stderr.write("a bot does not return, and catches what would end it:\n")
        traceback.print_stack(frame, file=stderr)
        stderr.flush()
        os._exit(2)


# What bots print


class InProcessOutput:
    """The output of all bots of a match in this process."""

    def __init__(self, bots: Sequence[BotSpec], plan: OutputPlan) -> None:
        self._plan = plan
        self._outputs = [plan.open(number, bot.name, 1) for number, bot in enumerate(bots)]
        self._tails = [(OutputTail(), OutputTail()) for _ in bots]
        self.bot = 0
        """The bot with the code that runs."""

    @contextmanager
    def redirected(self, bot: int = 0) -> Iterator[None]:
        """Take what is printed inside; `bot` prints first."""
        self.bot = bot
        with redirect_stdout(self._stream(0)), redirect_stderr(self._stream(1)):
            yield

    def logs(self, troubled: Container[int]) -> list[BotLog]:
        """Close the files; the end of the output of those bots, and which have files."""
        logs = []
        for number, (output, (stdout, stderr)) in enumerate(
            zip(self._outputs, self._tails, strict=True)
        ):
            output.close()
            texts = (stdout.text(), stderr.text()) if number in troubled else ("", "")
            if any(texts) or output.in_file:
                logs.append(BotLog(number, 1, *texts, self._plan.worker, output.in_file))
        return logs

    def _stream(self, which: int) -> io.TextIOWrapper:
        # With `buffer` and all, as a process has it.
        router = _Router(lambda data: self._take(which, data))
        return io.TextIOWrapper(router, "utf-8", "backslashreplace", "", write_through=True)

    def _take(self, which: int, data: bytes) -> None:
        self._tails[self.bot][which].take(data)
        if (sinks := self._outputs[self.bot].sinks()) is not None:
            sinks[which](data)


class _Router(io.BufferedIOBase):
    """A binary stream that only passes on what is written."""

    name = "output of a bot"

    def __init__(self, take: Callable[[bytes], None]) -> None:
        super().__init__()
        self._take = take

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        taken = bytes(data)  # type: ignore[call-overload]
        self._take(taken)
        return len(taken)
