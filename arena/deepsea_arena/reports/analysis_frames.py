"""Frames with an analysis: values beside the decisions, marks, and luck as it went.

Invariants: frames without an analysis are left as they are; what is added is about the finished
game, and does not depend on the seat whose view is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import TYPE_CHECKING

from deepsea_arena.reports.frames import (
    Frame,
    FrameDecision,
    FrameJudgement,
    Frames,
    Mark,
    Viewer,
    frames,
)
from deepsea_rules.record import GameRecord
from deepsea_rules.ruleset import SEAT_LETTERS
from deepsea_sdk.coach.roll_outs import COACH_VERSION
from deepsea_sdk.notes import Note

if TYPE_CHECKING:
    from deepsea_arena.coach.analysis import AnalysedDecision, GameAnalysis, MarkedDive
    from deepsea_sdk.coach.decisions import Estimate

DIGITS = 3


def analysed_frames(record: GameRecord, viewer: Viewer, text: str) -> Frames:
    """The frames of a game, with what was found of it.

    text  the analysis as a document; "" is none
    Raises DocumentError for what is no document of this game.
    """
    seen = frames(record, viewer)
    if not text:
        return seen
    # Only a game that was analysed needs the coach.
    from deepsea_arena.coach.document import read_analysis

    found = read_analysis(text)
    return with_analysis(seen, found.analysis(record), found.policy)


def with_analysis(seen: Frames, analysis: GameAnalysis, policy: str = COACH_VERSION) -> Frames:
    """The frames of a game with what was found of it, in roll-outs of a policy."""
    judged = {decision.number: decision for decision in analysis.decisions}
    decisions: list[FrameDecision] = [
        {**row, "judged": _judgement(judged[number])} if number in judged else row
        for number, row in enumerate(seen["decisions"])
    ]
    marks = [
        _mark(seen["decisions"][decision.number]["at"], decision)
        for decision in analysis.decisions
        if decision.judged.mark
    ]
    marks += [
        _dive_mark(seen["decisions"][dive.last]["at"], dive) for dive in analysis.marked_dives
    ]
    found: Frames = {
        **seen,
        "policy": policy,
        "decisions": decisions,
        "marks": sorted([*seen["marks"], *marks], key=lambda mark: mark["at"]),
    }
    if analysis.chances:
        found["luck"] = _luck(seen["frames"], analysis)
    return found


def with_notes(seen: Frames, notes: Mapping[int, Note]) -> Frames:
    """The frames of a game with what bots noted, by the number of the decision."""
    decisions: list[FrameDecision] = [
        {**row, "note": notes[number].text, "numbers": dict(notes[number].numbers)}
        if number in notes
        else row
        for number, row in enumerate(seen["decisions"])
    ]
    return {**seen, "decisions": decisions}


def _judgement(decision: AnalysedDecision) -> FrameJudgement:
    judged = decision.judged
    return {
        "mark": judged.mark,
        "best": judged.best,
        "level": judged.is_level,
        "regret": _rounded(judged.regret),
        "options": [
            {"action": option.action, "score": _rounded(option.score)} for option in judged.options
        ],
    }


def _mark(at: int, decision: AnalysedDecision) -> Mark:
    judged = decision.judged
    letter = SEAT_LETTERS[decision.seat]
    say = (
        f"{letter} {judged.played} {judged.mark} loses {judged.regret.mean:.2f}, "
        f"{judged.best} was better"
    )
    return {"at": at, "kind": "judged", "seat": decision.seat, "say": say, "sign": judged.mark}


def _dive_mark(at: int, dive: MarkedDive) -> Mark:
    letter = SEAT_LETTERS[dive.seat]
    say = f"{letter} {dive.mark} dive {dive.dive} loses {dive.loss.mean:.2f} in all its decisions"
    return {"at": at, "kind": "judged", "seat": dive.seat, "say": say, "sign": dive.mark}


def _luck(frames: list[Frame], analysis: GameAnalysis) -> list[list[float]]:
    """For each seat the luck so far, by frame."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for index, frame in enumerate(frames):
        first.setdefault(frame["t"], index)
        last[frame["t"]] = index
    seats = len(analysis.record.seats)
    jumps = [[0.0] * len(frames) for _ in range(seats)]
    for event in analysis.chances:
        # A roll is seen in the first frame of its turn, values when the turn and its dive are over.
        at = (last if event.dice is None else first)[event.turn]
        for seat, luck in enumerate(event.luck):
            jumps[seat][at] += luck.mean
    return [[round(sofar, DIGITS) + 0.0 for sofar in accumulate(seat)] for seat in jumps]


def _rounded(interval: Estimate) -> list[float]:
    return [round(interval.mean, DIGITS) + 0.0, round(interval.error, DIGITS) + 0.0]
