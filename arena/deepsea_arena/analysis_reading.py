"""Reads the JSON documents of analyses: what `analysis_document` writes.

Invariants: a document that makes no sense raises DocumentError, never anything else; a text that
was read is a word of this program or an action, so that it can be printed; a key that is new gets a
default, because analyses of earlier versions are read for ever.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from deepsea_arena.coach.analysis import (
    AnalysedDecision,
    AnalysisSettings,
    ChanceEvent,
    GameAnalysis,
)
from deepsea_arena.documents import DocumentError, read_json
from deepsea_rules.actions import Kind
from deepsea_rules.faults import Fault
from deepsea_rules.record import GameRecord
from deepsea_sdk.coach.decisions import Effort, Interval, Judgement, Option

MOST_STEPS = 10_000
"""Decisions, or chance events, of a game."""
_Score: TypeAlias = Annotated[float, Meta(ge=-1000, le=1000)]
_Rollouts: TypeAlias = Annotated[int, Meta(ge=0, le=1_000_000)]
_Seat: TypeAlias = Annotated[int, Meta(ge=0, le=5)]
_Index: TypeAlias = Annotated[int, Meta(ge=0, le=MOST_STEPS)]
_Die: TypeAlias = Annotated[int, Meta(ge=1, le=3)]
_Action: TypeAlias = Annotated[str, Meta(pattern=r"^[a-z0-9:,\[\]{}]{1,200}\Z")]
_Steps = Meta(max_length=MOST_STEPS)


class _Estimate(Struct):
    mean: _Score
    error: _Score

    @property
    def interval(self) -> Interval:
        return Interval(self.mean, self.error)


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
    """The settings of an analysis."""

    precision: Annotated[float, Meta(ge=0.001, le=1)] | None
    rollouts: Annotated[int, Meta(ge=2, le=1_000_000)]
    luck_rollouts: _Rollouts
    seat: _Seat | None
    seed: Annotated[str, Meta(pattern=r"^[^\x00-\x1f]{0,200}\Z")]

    def __post_init__(self) -> None:
        if self.settings.effort.most != self.rollouts:
            raise ValueError("Expected as many `rollouts` as the `precision` allows")

    @property
    def settings(self) -> AnalysisSettings:
        """The settings to analyse by."""
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
