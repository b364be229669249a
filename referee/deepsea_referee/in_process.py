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

from deepsea_referee.bots.loading import Player, load
from deepsea_referee.bots.resolve import with_unique_names
from deepsea_referee.match import MatchSettings, OnGame
from deepsea_referee.results.summary import FaultReport, GameResult, MatchResult
from deepsea_referee.timing.clock import Clock, SystemClock
from deepsea_rules.game import Decision, Game, Question
from deepsea_rules.record import GameRecord
from deepsea_sdk.table import Timer, play

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
    players: Sequence[Player],
    clock: Clock,
    output: TextIO | None = None,
) -> tuple[GameResult, GameRecord]:
    """Play one game of a match; `number` counts from 0.

    output  where goes what bots print, to stdout as to stderr; stderr by default
    """
    output = output or sys.stderr
    seating = settings.line_up(number)
    bots = with_unique_names(settings.bots)
    control = settings.time_control
    game_id = settings.game_id(number)
    faults: list[tuple[Question, int, Decision]] = []
    with redirect_stdout(output), redirect_stderr(output):
        game = play(
            [players[bot] for bot in seating],
            settings.rules,
            settings.game_seed(number),
            game_id=game_id,
            on_error="forfeit",
            timer=Timer(clock.now_us, control.budget_us, control.bank_us),
            on_fault=lambda question, number, decision: faults.append((question, number, decision)),
        )
    outcome = GameResult(
        game=number + 1,
        game_id=game_id,
        seats=seating,
        points=game.result().points,
        placements=game.result().placements,
        forfeits=tuple(game.forfeits),
        faults=tuple(_report(game, *fault) for fault in faults),
    )
    record = GameRecord.of(
        game,
        game_id=game_id,
        clock=control.format(),
        seats=[(bots[bot].name, bots[bot].digest) for bot in seating],
    )
    return outcome, record


def _report(game: Game, question: Question, number: int, decision: Decision) -> FaultReport:
    assert decision.fault is not None
    return FaultReport(
        seat=question.seat,
        decision=number,
        fault=decision.fault,
        kind=question.kind,
        legal=tuple(question.legal),
        came=decision.came or "",
        us=decision.us,
        played=decision.action,
        forfeit=any(f.seat == question.seat and f.decision == number for f in game.forfeits),
    )
