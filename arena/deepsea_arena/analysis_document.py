"""Analyses as one JSON document; docs/analyse.md describes each key.

Invariants: it depends on the records and the settings alone and has no times; seats count from 0;
scores are placement scores with four digits, errors those of 95 %.

The decisions of one seat of a game that has just ended, judged for the person who made them.

Invariant: a few seconds, with the numbers that `analyse --seat --luck` finds with the same effort.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from deepsea_arena.analysis import (
    AnalysedDecision,
    Analysis,
    AnalysisSettings,
    BotSums,
    ChanceEvent,
    GameAnalysis,
    Lost,
    SeatSums,
    by_bot,
    by_seat,
    mean,
)
from deepsea_arena.documents import DocumentError, read_json
from deepsea_rules.actions import Kind
from deepsea_rules.faults import Fault
from deepsea_rules.game import GameRecord
from deepsea_sdk.coach.decisions import MARKS, Effort, Estimate, Judgement, Option
from deepsea_sdk.coach.roll_outs import COACH_VERSION

FORMAT = "deepsea-analysis/1"
DIGITS = 4
MOST_STEPS = 10_000
"""Decisions, or chance events, of a game."""
_Score: TypeAlias = Annotated[float, Meta(ge=-1000, le=1000)]
_Rollouts: TypeAlias = Annotated[int, Meta(ge=0, le=1_000_000)]
_Seat: TypeAlias = Annotated[int, Meta(ge=0, le=5)]
_Index: TypeAlias = Annotated[int, Meta(ge=0, le=MOST_STEPS)]
_Die: TypeAlias = Annotated[int, Meta(ge=1, le=3)]
_Action: TypeAlias = Annotated[str, Meta(pattern=r"^[a-z0-9:,\[\]{}]{1,200}\Z")]
_Steps = Meta(max_length=MOST_STEPS)


def document(analyses: Sequence[GameAnalysis], settings: AnalysisSettings) -> dict[str, Any]:
    """The analyses, and the sums of each bot."""
    return {
        "format": FORMAT,
        "policy": COACH_VERSION,
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
        "dives": [
            {"seat": one.seat, "dive": one.dive, "mark": one.mark, "loss": _interval(one.loss)}
            for one in analysis.marked_dives
        ],
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


def _interval(interval: Estimate) -> dict[str, float]:
    return {"mean": _rounded(interval.mean), "error": _rounded(interval.error)}


def _rounded(number: float) -> float:
    # Without a negative zero.
    return round(number, DIGITS) + 0.0


class _Estimate(Struct):
    mean: _Score
    error: _Score

    @property
    def interval(self) -> Estimate:
        return Estimate(self.mean, self.error)


class _Option(_Estimate):
    action: _Action
    rollouts: _Rollouts


class _Decision(Struct):
    decision: _Index
    turn: _Index
    dive: Annotated[int, Meta(ge=1, le=3)]
    kind: Kind
    played: _Action
    best: _Action
    fault: Fault | None
    regret: _Estimate
    loss: _Estimate
    options: Annotated[list[_Option], _Steps]

    def analysed(self, record: GameRecord) -> AnalysedDecision:
        options = tuple(Option(one.action, one.interval, one.rollouts) for one in self.options)
        return AnalysedDecision(
            number=self.decision,
            seat=record.decisions[self.decision].seat,
            turn=self.turn,
            fault=self.fault,
            judged=Judgement(
                kind=self.kind,
                dive=self.dive,
                played=self.played,
                best=self.best,
                options=options,
                regret=self.regret.interval,
                loss=self.loss.interval,
            ),
        )


class _Chance(Struct):
    turn: _Index
    seat: _Seat | None
    dice: tuple[_Die, _Die] | None
    luck: list[_Estimate]

    def event(self) -> ChanceEvent:
        luck = tuple(estimate.interval for estimate in self.luck)
        return ChanceEvent(self.turn, self.seat, self.dice, luck)


class _Game(Struct):
    record: str
    game_id: str
    commitment: str
    decisions: Annotated[list[_Decision], _Steps]
    chances: Annotated[list[_Chance], _Steps]


class SettingsDocument(Struct):
    precision: Annotated[float, Meta(ge=0.001, le=1)] | None
    rollouts: Annotated[int, Meta(ge=2, le=1_000_000)]
    luck_rollouts: _Rollouts
    seat: _Seat | None
    seed: Annotated[str, Meta(pattern=r"^[^\x00-\x1f]{0,200}\Z")]

    @property
    def settings(self) -> AnalysisSettings:
        precision = self.precision
        effort = Effort.of(self.rollouts) if precision is None else Effort.to(precision)
        return AnalysisSettings(effort, self.luck_rollouts, self.seat, self.seed)


class AnalysisDocument(SettingsDocument):
    """The analysis of one game."""

    format: Literal["deepsea-analysis/1"]
    policy: Annotated[str, Meta(pattern=r"^[a-z0-9-]{1,40}\Z")]
    """The policy of the roll-outs, with its version."""
    games: Annotated[list[_Game], Meta(min_length=1, max_length=1)]

    def analysis(self, record: GameRecord) -> GameAnalysis:
        """The analysis of the record's game. Raises DocumentError if it is that of another one."""
        (game,) = self.games
        seats = len(record.seats)
        if (
            (game.game_id, game.commitment) != (record.game_id, record.commitment)
            or any(row.decision >= len(record.decisions) for row in game.decisions)
            or any(len(row.luck) != seats or (row.seat or 0) >= seats for row in game.chances)
        ):
            raise DocumentError("this is the analysis of another game - at `$.games[0]`")
        return GameAnalysis(
            name=game.record,
            record=record,
            decisions=tuple(row.analysed(record) for row in game.decisions),
            chances=tuple(row.event() for row in game.chances),
        )


def read_analysis(text: str) -> AnalysisDocument:
    """The document of an analysis. Raises DocumentError, with the path to what is wrong."""
    return read_json(AnalysisDocument, text)


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
