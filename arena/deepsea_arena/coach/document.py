"""Analyses as one JSON document; docs/analyse.md describes each key.

Invariants: it depends on the records and the settings alone and has no times; seats count from 0;
scores are placement scores with four digits, errors those of 95 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from deepsea_arena.analysis_sums import BotSums, Lost, SeatSums, by_bot, by_seat, mean
from deepsea_arena.coach.analysis import (
    AnalysedDecision,
    AnalysisSettings,
    ChanceEvent,
    GameAnalysis,
)
from deepsea_sdk.coach.decisions import MARKS, Interval
from deepsea_sdk.policies import STEADY_VERSION

FORMAT: Final = "deepsea-analysis/1"
DIGITS: Final = 4


def document(analyses: Sequence[GameAnalysis], settings: AnalysisSettings) -> dict[str, Any]:
    """The analyses, and the sums of each bot."""
    return {
        "format": FORMAT,
        "policy": STEADY_VERSION,
        **settings_data(settings),
        "bots": [_bot(sums) for sums in by_bot(analyses, settings.seat)],
        "games": [_game(analysis) for analysis in analyses],
    }


def settings_data(settings: AnalysisSettings) -> dict[str, Any]:
    """The settings, as in the document."""
    return {
        "precision": settings.effort.precision or None,
        "rollouts": settings.effort.most,
        "luck_rollouts": settings.luck,
        "seat": settings.seat,
        "seed": settings.seed,
    }


def _game(analysis: GameAnalysis) -> dict[str, Any]:
    record = analysis.record
    return {
        "record": analysis.name,
        "game_id": record.game_id,
        "commitment": record.commitment,
        "rules": record.rules.name,
        "seats": [_seat(sums) for sums in by_seat(analysis)],
        "decisions": [decision_data(decision) for decision in analysis.decisions],
        "chances": [_chance(event) for event in analysis.chances],
    }


def decision_data(decision: AnalysedDecision) -> dict[str, Any]:
    """A decision, as in the document."""
    judged = decision.judged
    return {
        "decision": decision.number,
        "seat": decision.seat,
        "turn": decision.turn,
        "dive": judged.dive,
        "kind": judged.kind,
        "played": judged.played,
        "best": judged.best,
        "fault": decision.fault,
        "mark": judged.mark,
        "level": judged.is_level,
        "regret": _interval(judged.regret),
        "loss": _interval(judged.loss),
        "options": [
            {"action": option.action, **_interval(option.score), "rollouts": option.rollouts}
            for option in judged.options
        ],
    }


def _chance(event: ChanceEvent) -> dict[str, Any]:
    return {
        "turn": event.turn,
        "seat": event.seat,
        "dice": None if event.dice is None else list(event.dice),
        "luck": [_interval(luck) for luck in event.luck],
    }


def _seat(sums: SeatSums) -> dict[str, Any]:
    luck = sums.luck
    return {
        "name": sums.bot.name,
        "digest": sums.bot.digest,
        **_lost(sums.lost),
        "result": _rounded(sums.result),
        "luck": luck
        and {
            "own_dice": _interval(luck.own_dice),
            "other_dice": _interval(luck.other_dice),
            "values": _interval(luck.values),
        },
        "adjusted": None if sums.adjusted is None else _interval(sums.adjusted),
    }


def _bot(sums: BotSums) -> dict[str, Any]:
    return {
        "name": sums.bot.name,
        "digest": sums.bot.digest,
        "games": sums.games,
        **_lost(sums.lost),
        "loss_per_game": _mean(sums.losses),
        "result": _mean(sums.results),
        "adjusted": _mean(sums.adjusted),
        "kinds": _parts(sums.kinds),
        "dives": _parts(sums.dives),
    }


def _parts(parts: Mapping[Any, Lost]) -> dict[str, Any]:
    return {str(part): _lost(parts[part]) for part in sorted(parts)}


def _lost(lost: Lost) -> dict[str, Any]:
    return {
        "decisions": lost.decisions,
        "loss": _interval(lost.loss),
        "marks": {name: lost.marks[name] for _, name in MARKS},
    }


def _mean(numbers: Sequence[float]) -> dict[str, float | None] | None:
    """The mean over games; of one game its error is null."""
    found = mean(numbers)
    if found is None:
        return None
    alone = len(numbers) < 2
    return {"mean": _rounded(found.mean), "error": None if alone else _rounded(found.error)}


def _interval(interval: Interval) -> dict[str, float]:
    return {"mean": _rounded(interval.mean), "error": _rounded(interval.error)}


def _rounded(number: float) -> float:
    # Without a negative zero.
    return round(number, DIGITS) + 0.0
