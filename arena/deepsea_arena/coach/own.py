"""The decisions of one seat of a game that has just ended, judged for the person who made them.

Invariant: a few seconds, with the numbers that `analyse --seat --luck` finds with the same effort.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deepsea_arena.coach.analysis import (
    AnalysedDecision,
    Analysis,
    AnalysisSettings,
    GameAnalysis,
    by_seat,
)
from deepsea_arena.coach.document import document
from deepsea_rules.record import GameRecord
from deepsea_sdk.coach.decisions import Effort

WORST = 2
LUCK_ROLLOUTS = 40


def judge_seat(
    record: GameRecord, seat: int, name: str, go_on: Callable[[int], object]
) -> GameAnalysis:
    """Judge the decisions of a seat.

    name   where the record is from
    go_on  called with each step; what it raises ends the analysis
    """
    [found] = Analysis([(name, record)], _settings(seat)).run(on_steps=go_on)
    return found


def _settings(seat: int) -> AnalysisSettings:
    return AnalysisSettings(Effort.to(), luck=LUCK_ROLLOUTS, seat=seat)


def seat_document(found: GameAnalysis, seat: int) -> dict[str, Any]:
    """The analysis as `analyse --json` prints it."""
    return document([found], _settings(seat))


def in_words(found: GameAnalysis, seat: int) -> str:
    """The loss by the seat's decisions, its luck and its result."""
    sums = by_seat(found)[seat]
    luck = f"; luck gave you {sums.luck.total.mean:+.2f}" if sums.luck else ""
    return (
        f"your {sums.lost.decisions} decisions lost {max(0.0, sums.lost.loss.mean):.2f} of "
        f"placement score in all{luck}; your result is {sums.result:.2f} (1 wins, 0 is last)"
    )


def worst(found: GameAnalysis) -> list[AnalysedDecision]:
    """The decisions that certainly lost most, the worst first."""
    behind = [one for one in found.decisions if one.judged.regret.low > 0]
    return sorted(behind, key=lambda one: -one.judged.regret.low)[:WORST]
