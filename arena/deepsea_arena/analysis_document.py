"""Analyses as one JSON document, and the judgement of one person's decisions.

docs/analyse.md describes each key. Start reading at `document`, `read_analysis` and `judge_seat`.

Invariants: a document depends on the records and the settings alone and has no times; seats count
from 0; scores are placement scores with four digits, and errors are half intervals of 95 %;
`judge_seat` takes a few seconds, and finds the numbers of `analyse --seat --luck` with the same
effort.
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
    LossTotal,
    SeatSums,
    mean,
    sums_by_bot,
    sums_by_seat,
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
"""Largest number of decisions, or of chance events, of a game that is read."""
_Score: TypeAlias = Annotated[float, Meta(ge=-1000, le=1000)]
_Rollouts: TypeAlias = Annotated[int, Meta(ge=0, le=1_000_000)]
_Seat: TypeAlias = Annotated[int, Meta(ge=0, le=5)]
_Index: TypeAlias = Annotated[int, Meta(ge=0, le=MOST_STEPS)]
_Die: TypeAlias = Annotated[int, Meta(ge=1, le=3)]
_Action: TypeAlias = Annotated[str, Meta(pattern=r"^[a-z0-9:,\[\]{}]{1,200}\Z")]
_Steps = Meta(max_length=MOST_STEPS)


def document(analyses: Sequence[GameAnalysis], settings: AnalysisSettings) -> dict[str, Any]:
    """Return the JSON document for analysed games: the settings, the sums of each bot, the games.

    This is what `analyse --json` prints.
    """
    return {
        "format": FORMAT,
        "policy": COACH_VERSION,
        **settings_data(settings),
        "bots": [_bot(sums) for sums in sums_by_bot(analyses, settings.seat)],
        "games": [_game(analysis) for analysis in analyses],
    }


def settings_data(settings: AnalysisSettings) -> dict[str, Any]:
    """Return the settings of an analysis as the first fields of its JSON document.

    The precision is null if the number of roll-outs is fixed.
    """
    return {
        "precision": settings.effort.precision or None,
        "rollouts": settings.effort.most,
        "luck_rollouts": settings.luck,
        "seat": settings.seat,
        "seed": settings.seed,
    }


def _game(analysis: GameAnalysis) -> dict[str, Any]:
    """Return the JSON object of one game: its seats, decisions, marked dives and chance events."""
    record = analysis.record
    return {
        "record": analysis.name,
        "game_id": record.game_id,
        "commitment": record.commitment,
        "rules": record.rules.name,
        "seats": [_seat(sums) for sums in sums_by_seat(analysis)],
        "decisions": [decision_data(decision) for decision in analysis.decisions],
        "dives": [
            {"seat": dive.seat, "dive": dive.dive, "mark": dive.mark, "loss": _interval(dive.loss)}
            for dive in analysis.marked_dives
        ],
        "chances": [_chance(event) for event in analysis.chances],
    }


def decision_data(decision: AnalysedDecision) -> dict[str, Any]:
    """Return the JSON object of a judged decision.

    It has the action that was played, the best one, the loss, and the score of each option.
    """
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
    """Return the JSON object of a roll or a reveal of values, with the luck of each seat.

    A reveal has no dice, and belongs to no seat: both are null.
    """
    return {
        "turn": event.turn,
        "seat": event.seat,
        "dice": None if event.dice is None else list(event.dice),
        "luck": [_interval(luck) for luck in event.luck],
    }


def _seat(sums: SeatSums) -> dict[str, Any]:
    """Return the JSON object of a seat in a game: its bot, losses, result and luck.

    `luck` and `adjusted`, the result less the luck, are null if luck was not measured.
    """
    luck = None
    if sums.luck is not None:
        luck = {
            "own_dice": _interval(sums.luck.own_dice),
            "other_dice": _interval(sums.luck.other_dice),
            "values": _interval(sums.luck.values),
        }
    return {
        "name": sums.bot.name,
        "digest": sums.bot.digest,
        **_loss_fields(sums.loss_total),
        "result": _rounded(sums.result),
        "luck": luck,
        "adjusted": None if sums.adjusted is None else _interval(sums.adjusted),
    }


def _bot(sums: BotSums) -> dict[str, Any]:
    """Return the JSON object of a bot: its losses over all games, and its means per game."""
    return {
        "name": sums.bot.name,
        "digest": sums.bot.digest,
        "games": sums.games,
        **_loss_fields(sums.loss_total),
        "loss_per_game": _mean(sums.game_losses),
        "result": _mean(sums.results),
        "adjusted": _mean(sums.adjusted),
        "kinds": _losses_by_part(sums.kinds),
        "dives": _losses_by_part(sums.dives),
    }


def _losses_by_part(parts: Mapping[Any, LossTotal]) -> dict[str, Any]:
    """Return the losses by kind of decision or by dive, in the order of their keys."""
    return {str(part): _loss_fields(parts[part]) for part in sorted(parts)}


def _loss_fields(total: LossTotal) -> dict[str, Any]:
    """Return the number of decisions, the sum of their losses, and how many have each mark."""
    return {
        "decisions": total.decisions,
        "loss": _interval(total.loss),
        "marks": {mark: total.marks[mark] for _, mark in MARKS},
    }


def _mean(numbers: Sequence[float]) -> dict[str, float | None] | None:
    """Return the mean of one number for each game, with its error, as a JSON object.

    Without games return None. With one game the error is None: it would be infinite, which JSON
    does not have.
    """
    estimate = mean(numbers)
    if estimate is None:
        return None
    error = _rounded(estimate.error) if len(numbers) > 1 else None
    return {"mean": _rounded(estimate.mean), "error": error}


def _interval(interval: Estimate) -> dict[str, float]:
    return {"mean": _rounded(interval.mean), "error": _rounded(interval.error)}


def _rounded(number: float) -> float:
    # The sum turns -0.0 into 0.0.
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

    def with_seat_of(self, record: GameRecord) -> AnalysedDecision:
        """Return this decision as part of an analysis; the record says which seat it was."""
        options = tuple(Option(row.action, row.interval, row.rollouts) for row in self.options)
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
    """The settings of an analysis, as a document names them."""

    precision: Annotated[float, Meta(ge=0.001, le=1)] | None
    rollouts: Annotated[int, Meta(ge=2, le=1_000_000)]
    luck_rollouts: _Rollouts
    seat: _Seat | None
    seed: Annotated[str, Meta(pattern=r"^[^\x00-\x1f]{0,200}\Z")]

    @property
    def settings(self) -> AnalysisSettings:
        """The settings of the analysis; a document with a precision has its standard effort."""
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
        """Return the analysis of the recorded game.

        Raises DocumentError if the document is that of another game, or names a decision or a seat
        that the game does not have.
        """
        game = self.games[0]  # this kind of document has exactly one game
        seats, decisions = len(record.seats), len(record.decisions)
        is_same_game = game.game_id == record.game_id and game.commitment == record.commitment
        has_decisions = all(row.decision < decisions for row in game.decisions)
        has_luck_of_all_seats = all(len(row.luck) == seats for row in game.chances)
        # A reveal of values belongs to no seat.
        seats_of_rolls = [row.seat for row in game.chances if row.seat is not None]
        has_seats = all(seat < seats for seat in seats_of_rolls)
        if not (is_same_game and has_decisions and has_luck_of_all_seats and has_seats):
            raise DocumentError("this is the analysis of another game - at `$.games[0]`")
        return GameAnalysis(
            name=game.record,
            record=record,
            decisions=tuple(row.with_seat_of(record) for row in game.decisions),
            chances=tuple(row.event() for row in game.chances),
        )


def read_analysis(text: str) -> AnalysisDocument:
    """Read an analysis of one game.

    Raises DocumentError, with the path to what is wrong.
    """
    return read_json(AnalysisDocument, text)


# ----------------------------------------------------------------------------- the seat of a person

WORST = 2
"""Number of decisions that a person is shown."""
LUCK_ROLLOUTS = 40
"""Number of roll-outs for luck: few, since the person waits for the judgement."""


def judge_seat(
    record: GameRecord, seat: int, name: str, on_steps: Callable[[int], object]
) -> GameAnalysis:
    """Analyse the decisions of one seat of a game, and the luck in it.

    name      the name of the record, for messages
    on_steps  called with the number of further steps that were analysed; its exceptions end the
              analysis and reach the caller
    """
    analyses = Analysis([(name, record)], _person_settings(seat)).run(on_steps=on_steps)
    return analyses[0]


def _person_settings(seat: int) -> AnalysisSettings:
    """Return the settings for the decisions of a person's seat."""
    return AnalysisSettings(Effort.to(), luck=LUCK_ROLLOUTS, seat=seat)


def seat_document(analysis: GameAnalysis, seat: int) -> dict[str, Any]:
    """Return a seat's analysis as the document that `analyse --json` prints."""
    return document([analysis], _person_settings(seat))


def in_words(analysis: GameAnalysis, seat: int) -> str:
    """Return a sentence for the person in a seat: what decisions lost, the luck and the result."""
    sums = sums_by_seat(analysis)[seat]
    luck = f"; luck gave you {sums.luck.total.mean:+.2f}" if sums.luck else ""
    # An estimate of a loss may be below 0, which would make no sense to the person.
    loss = max(0.0, sums.loss_total.loss.mean)
    return (
        f"your {sums.loss_total.decisions} decisions lost {loss:.2f} of placement score in all"
        f"{luck}; your result is {sums.result:.2f} (1 wins, 0 is last)"
    )


def worst(analysis: GameAnalysis) -> list[AnalysedDecision]:
    """Return the decisions that certainly lost something, the worst first, and at most `WORST`.

    A decision is certain, and is ordered, by the lower end of the interval of its loss.
    """

    def least_loss(decision: AnalysedDecision) -> float:
        return decision.judged.regret.low

    certain = [decision for decision in analysis.decisions if least_loss(decision) > 0]
    return sorted(certain, key=least_loss, reverse=True)[:WORST]
