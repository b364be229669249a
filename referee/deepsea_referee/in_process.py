"""A match of trusted bots in this process: the same games without processes and gRPC.

Invariants: bots whose decisions depend only on the game give the same records as in processes,
except for times; a bot is charged the time in which its thread ran or slept, not that in which a
busy host gave it no CPU; a bot that does not return ends the run; bots are not isolated.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Final

from deepsea_referee.bots.author_error import author_error
from deepsea_referee.bots.in_process_output import InProcessOutput
from deepsea_referee.bots.loading import load
from deepsea_referee.bots.output import OutputPlan
from deepsea_referee.bots.resolve import with_unique_names
from deepsea_referee.errors import UserError
from deepsea_referee.hang_watch import Hanging, HangWatch
from deepsea_referee.match import MatchSettings, OnGame
from deepsea_referee.results.summary import GameResult, MatchResult
from deepsea_referee.timing.clock import ThreadClock
from deepsea_rules.record import GameRecord
from deepsea_sdk.bot import AnyBot
from deepsea_sdk.table import play_to_end

_PACKAGE: Final = __name__.partition(".")[0]
ISOLATION: Final = "in-process"
"""What results say where others name the level of isolation."""


def run_match(
    settings: MatchSettings,
    on_game: OnGame | None = None,
    *,
    now_us: Callable[[], int] | None = None,
    watch: HangWatch | None = None,
) -> MatchResult:
    """Play a match; Ctrl-C ends it early and cleanly. `settings.hosting` is not used.

    now_us  the clock that bots are charged by; a ThreadClock's unless another is given
    watch   ends the run for a bot that does not return; by default after what its clock suggests
    Raises UserError for a bot that cannot be imported or does not return.
    """
    now_us = now_us or ThreadClock().now_us
    result = settings.result(ISOLATION)
    output = InProcessOutput(result.bots, settings.output)
    players: list[AnyBot] = []
    for number, bot in enumerate(settings.bots):
        with output.redirected(number):
            players.append(load(bot))
    troubled: set[int] = set()
    try:
        with watch or HangWatch.of(settings.time_control) as watch:
            for number in settings.numbers():
                outcome, record = play_number(settings, number, players, now_us, watch, output)
                troubled |= {outcome.seats[fault.seat] for fault in outcome.faults}
                result.add(outcome, record.decisions)
                if on_game is not None and isinstance(room := on_game(outcome, record), Future):
                    room.result()
    except KeyboardInterrupt:
        result.interrupted = True
    finally:
        result.logs += output.logs(troubled)
    return result


def play_number(
    settings: MatchSettings,
    number: int,
    players: Sequence[AnyBot],
    now_us: Callable[[], int],
    watch: HangWatch,
    output: InProcessOutput | None = None,
) -> tuple[GameResult, GameRecord]:
    """Play one game of a match; `number` counts from 0.

    now_us  the clock that bots are charged by
    watch   a watch that is running
    output  takes what bots print; without it that is lost
    Raises UserError for a bot that does not return; its stack is written to stderr.
    """
    line_up = settings.line_up(number)
    output = output or InProcessOutput(settings.bots, OutputPlan())

    def on_seat(seat: int) -> None:
        output.bot = line_up[seat]

    game = settings.game(number)
    hung: Hanging | None = None
    watch.game = game.game
    try:
        with output.redirected():
            seated = [players[bot] for bot in line_up]
            play_to_end(game, seated, on_error="forfeit", now_us=now_us, on_seat=on_seat)
    except Hanging as hanging:
        hung = hanging
    finally:
        watch.game = None
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
