"""Reads the JSON documents of analyses: what `analysis_document` writes.

Invariants: what makes no sense raises DocumentError, never anything else; texts that are read are
words of this program or actions, so that they can be printed; numbers have the document's digits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, Final, NoReturn, cast

from deepsea_arena.analysis import AnalysedDecision, AnalysisSettings, ChanceEvent, GameAnalysis
from deepsea_arena.analysis_document import FORMAT
from deepsea_arena.analysis_sums import KINDS
from deepsea_arena.wire.reading import DocumentError
from deepsea_rules.actions import Kind
from deepsea_rules.faults import Fault
from deepsea_rules.record import GameRecord
from deepsea_sdk.coach.decisions import Effort, Interval, Judgement, Option

MOST_STEPS: Final = 10_000
"""Decisions, or chance events, of a game."""
_ACTION: Final = re.compile(r"[a-z0-9:,\[\]{}]{1,200}")
_POLICY: Final = re.compile(r"[a-z0-9-]{1,40}")
_SENSELESS: Final = (AttributeError, KeyError, IndexError, TypeError, ValueError, OverflowError)


def parsed(text: str) -> dict[str, Any]:
    """A document. Raises DocumentError if it is none."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise DocumentError("this is no JSON") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise DocumentError(f"this is no analysis in the format {FORMAT}")
    return document


def settings_of(data: Mapping[str, Any]) -> AnalysisSettings:
    """The settings of a document."""
    try:
        precision, rollouts = data["precision"], _whole(data["rollouts"], 2, 1_000_000)
        if precision is None:
            effort = Effort.of(rollouts)
        else:
            effort = Effort.to(_number(precision))
            if not (0.001 <= effort.precision <= 1 and effort.most == rollouts):
                _refuse("the precision and the roll-outs")
        return AnalysisSettings(
            effort=effort,
            luck=_whole(data["luck_rollouts"], 0, 1_000_000),
            seat=None if data["seat"] is None else _whole(data["seat"], 0, 5),
            seed=_text(data["seed"], re.compile(r"[^\x00-\x1f]{0,200}")),
        )
    except _SENSELESS as error:
        raise _no_sense("settings", error) from None


def policy_of(document: Mapping[str, Any]) -> str:
    """The policy of a document, with its version."""
    try:
        return _text(document["policy"], _POLICY)
    except _SENSELESS as error:
        raise _no_sense("policy", error) from None


def analysis_of(document: Mapping[str, Any], record: GameRecord) -> GameAnalysis:
    """The analysis of the one game in a document."""
    try:
        (game,) = document["games"]
        if (game["game_id"], game["commitment"]) != (record.game_id, record.commitment):
            _refuse("the game")
        return GameAnalysis(
            name=str(game["record"]),
            record=record,
            decisions=tuple(_decision(row, record) for row in _rows(game["decisions"])),
            chances=tuple(_chance(row, len(record.seats)) for row in _rows(game["chances"])),
        )
    except _SENSELESS as error:
        raise _no_sense("game", error) from None


def _decision(row: Mapping[str, Any], record: GameRecord) -> AnalysedDecision:
    number = _whole(row["decision"], 0, len(record.decisions) - 1)
    decision = record.decisions[number]
    if row["kind"] not in KINDS:
        _refuse("a kind of decision")
    return AnalysedDecision(
        number=number,
        seat=decision.seat,
        turn=_whole(row["turn"], 1, MOST_STEPS),
        fault=None if row["fault"] is None else Fault(row["fault"]),
        judged=Judgement(
            kind=cast(Kind, row["kind"]),
            dive=_whole(row["dive"], 1, 3),
            played=_text(row["played"], _ACTION),
            best=_text(row["best"], _ACTION),
            options=tuple(map(_option, _rows(row["options"]))),
            regret=_interval(row["regret"]),
            loss=_interval(row["loss"]),
        ),
    )


def _option(row: Mapping[str, Any]) -> Option:
    action, rollouts = _text(row["action"], _ACTION), _whole(row["rollouts"], 0, 1_000_000)
    return Option(action, _interval(row), rollouts)


def _chance(row: Mapping[str, Any], seats: int) -> ChanceEvent:
    dice = row["dice"]
    luck = tuple(map(_interval, _rows(row["luck"])))
    if len(luck) != seats:
        _refuse("the luck of a roll")
    return ChanceEvent(
        turn=_whole(row["turn"], 0, MOST_STEPS),
        seat=None if row["seat"] is None else _whole(row["seat"], 0, seats - 1),
        dice=None if dice is None else (_whole(dice[0], 1, 3), _whole(dice[1], 1, 3)),
        luck=luck,
    )


def _rows(value: object) -> Sequence[Mapping[str, Any]]:
    if not isinstance(value, list) or len(value) > MOST_STEPS:
        _refuse("a list")
    return value


def _interval(row: Mapping[str, Any]) -> Interval:
    return Interval(_number(row["mean"]), _number(row["error"]))


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse("a number")
    number = float(value)
    if not isfinite(number) or abs(number) > 1000:
        _refuse("a number")
    return number


def _whole(value: object, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        _refuse("a whole number")
    return value


def _text(value: object, pattern: re.Pattern[str]) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        _refuse("a word")
    return value


def _refuse(what: str) -> NoReturn:
    raise ValueError(f"{what} makes no sense")


def _no_sense(what: str, error: Exception) -> DocumentError:
    words = str(error) if type(error) is ValueError else type(error).__name__
    return DocumentError(f"the {what} of an analysis cannot be read: {words}")
