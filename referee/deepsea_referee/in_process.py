"""A match of trusted bots in this process: the same games without processes and gRPC.

Laws: bots that decide by what they are told alone make the records that their processes make,
times aside; time is read around a bot's code and counted by the same clock, but a bot that hangs
is not stopped, and nothing keeps bots apart.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import redirect_stderr, redirect_stdout
from typing import Final, TextIO

from deepsea_referee.bots.loading import load
from deepsea_referee.match import MatchSettings, OnGame
from deepsea_referee.results.summary import GameResult, MatchResult
from deepsea_referee.timing.clock import Clock, SystemClock
from deepsea_rules.record import GameRecord
from deepsea_sdk.bot import AnyBot
from deepsea_sdk.table import play_to_end

ISOLATION: Final = "in-process"
"""What results say where others name the level of isolation."""


def run_match(
    settings: MatchSettings, on_game: OnGame | None = None, *, clock: Clock | None = None
) -> MatchResult:
    """Play a match; Ctrl-C ends it early and cleanly. `settings.hosting` is not used.

    Raises UserError for a bot that cannot be imported.
    """
    players = [load(bot) for bot in settings.bots]
    result = settings.result(ISOLATION)
    try:
        for number in settings.numbers():
            outcome, record = play_number(settings, number, players, clock or SystemClock())
            result.add(outcome, record.decisions)
            if on_game is not None and isinstance(room := on_game(outcome, record), Future):
                room.result()
    except KeyboardInterrupt:
        result.interrupted = True
    return result


def play_number(
    settings: MatchSettings,
    number: int,
    players: Sequence[AnyBot],
    clock: Clock,
    output: TextIO | None = None,
) -> tuple[GameResult, GameRecord]:
    """Play one game of a match; `number` counts from 0.

    output  where goes what bots print, to stdout as to stderr; stderr by default
    """
    output = output or sys.stderr
    line_up = settings.line_up(number)
    game = settings.game(number)
    with redirect_stdout(output), redirect_stderr(output):
        seated = [players[bot] for bot in line_up]
        play_to_end(game, seated, on_error="forfeit", now_us=clock.now_us)
    played = game.played()
    return GameResult.of(number, line_up, played), played.record
