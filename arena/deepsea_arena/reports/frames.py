"""Frames of a recorded game: everything that a viewer draws, so that it needs no rules.

Invariants: frames come from a verified record alone; for a seat or a watcher every position is
built by `view_for` at that moment, so that two games which differ only in what the viewer does not
know have equal frames until it learns of it; words are those of the terminal; untrusted texts are
printable and short. docs/viewer.md describes each key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from deepsea_arena.frame_marks import course_marks, decision_marks, dive_end
from deepsea_arena.frame_types import Frame, FrameDecision, Frames, Viewer
from deepsea_referee.workbench.replay import control_of
from deepsea_rules import narration
from deepsea_rules.actions import LEVELS, values_of_level
from deepsea_rules.events import TurnPlayed
from deepsea_rules.game import Game, Question
from deepsea_rules.narration import NarratedPosition
from deepsea_rules.position import position_text
from deepsea_rules.printable import one_line
from deepsea_rules.record import GameRecord, verify
from deepsea_rules.ruleset import FULL_AIR, SEAT_LETTERS
from deepsea_rules.state import GameState
from deepsea_rules.view import view_for
from deepsea_sdk.refereed_game import RefereedGame

VERSION: Final = 1
LONGEST_NAME: Final = 80
LONGEST_TEXT: Final = 400


def frames(record: GameRecord, viewer: Viewer = None) -> Frames:
    """The frames of a game as a viewer knew it at each moment.

    Raises InvalidRecord if the re-run of the record differs.
    """
    return frames_of(record, verify(record), viewer)


def frames_of(record: GameRecord, game: Game, viewer: Viewer = None) -> Frames:
    """The same, of the finished game that `verify` made of the record."""
    names = [one_line(name, LONGEST_NAME) for name in narration.names(record)]
    course = list(narration.moments(game, _knowing(game, viewer)))
    asked = _asked(record)
    control = control_of(record)
    shown = _frames(course, asked, viewer)
    shown[-1]["say"] += ["the game is over", *narration.tell_end(game.result(), names)]
    shown[-1]["say"] += _faults_in_words(game, viewer)
    decisions = _decisions(record, asked, shown, viewer)
    dives = [
        dive_end(index, moment, moment.ended)
        for index, moment in enumerate(course)
        if moment.ended is not None
    ]
    return {
        "v": VERSION,
        "id": one_line(record.game_id, LONGEST_NAME),
        "viewer": _name_of(viewer),
        "rules": one_line(record.rules.name, LONGEST_NAME),
        "clock": one_line(record.clock, LONGEST_NAME),
        "budget": control.budget_us if control else None,
        "bank": control.bank_us if control else None,
        "air": FULL_AIR,
        "values": [list(values_of_level(level)) for level in LEVELS],
        "seats": [
            {"name": name, "version": one_line(seat.digest, 12)}
            for name, seat in zip(names, record.seats, strict=True)
        ],
        "frames": shown,
        "decisions": decisions,
        "dives": dives,
        "marks": sorted(
            [*course_marks(course), *decision_marks(decisions)], key=lambda mark: mark["at"]
        ),
        "result": {
            "scores": list(record.points),
            "placements": list(record.placements),
            "forfeits": [forfeit._asdict() for forfeit in record.forfeits],
        },
        "seed": record.seed.hex(),
    }


def _name_of(viewer: Viewer) -> str:
    if viewer is None:
        return "all"
    return viewer if viewer == "watcher" else SEAT_LETTERS[viewer]


def _seat_of(viewer: int | Literal["watcher"]) -> int | None:
    return None if viewer == "watcher" else viewer


def _knowing(game: Game, viewer: Viewer) -> narration.Knowing:
    if viewer is None:
        every = dict(enumerate(game.state.values))
        return lambda _: every
    seat = _seat_of(viewer)
    return lambda state: view_for(state, seat).known


class _Asked(NamedTuple):
    """A decision of the record, and when it was asked."""

    question: Question
    turn: int
    """The turn that it belongs to."""
    bank_us: int
    """What was left of the seat's bank after it."""

    @property
    def is_search(self) -> bool:
        return self.question.kind == "search"


def _asked(record: GameRecord) -> list[_Asked]:
    game = Game(record.rules, len(record.seats), record.seed)
    refereed = RefereedGame(game, record.game_id, control_of(record))
    asked = []
    turns = seen = 0
    for decision in record.decisions:
        question = game.pending()
        assert question is not None  # the record was verified
        turns += sum(isinstance(item, TurnPlayed) for item in game.events[seen:])
        seen = len(game.events)
        refereed.repeat(decision)
        # Orders come after their turn, all others are a part of it.
        turn = turns if question.kind == "order" else turns + 1
        asked.append(_Asked(question, turn, refereed.time_left(question.seat).bank_us))
    return asked


def _frames(
    course: Sequence[NarratedPosition], asked: Sequence[_Asked], viewer: Viewer
) -> list[Frame]:
    shown: list[Frame] = []
    made = 0
    for moment in course:
        # A search follows the roll, and so the first of its turn's frames.
        rolled = moment.state.phase == "search"
        while made < len(asked) and (
            asked[made].turn < moment.turn
            or (asked[made].turn == moment.turn and not (rolled and asked[made].is_search))
        ):
            made += 1
        shown.append(
            {
                "t": moment.turn,
                "p": _position(moment.state, moment.known, viewer),
                "dice": list(moment.dice) if moment.dice else None,
                "say": list(moment.lines),
                "d": made,
            }
        )
    return shown


def _position(state: GameState, known: Mapping[int, int], viewer: Viewer) -> str:
    return position_text(state if viewer is None else view_for(state, _seat_of(viewer)), known)


def _decisions(
    record: GameRecord, asked: Sequence[_Asked], shown: Sequence[Frame], viewer: Viewer
) -> list[FrameDecision]:
    """The decisions; a seat learns neither the times nor the faults of others during a game."""
    found: list[FrameDecision] = []
    clock_runs = control_of(record) is not None
    frame = 0
    for index, (decision, one) in enumerate(zip(record.decisions, asked, strict=True)):
        while shown[frame]["d"] <= index:
            frame += 1
        own = viewer is None or viewer == decision.seat
        timed = own or viewer == "watcher"
        row: FrameDecision = {
            "seat": decision.seat,
            "kind": one.question.kind,
            "action": decision.action,
            "us": decision.us if timed else None,
            "fault": decision.fault if timed else None,
            # Orders are asked for in the frame that ends a dive, others in the one before.
            "at": frame if one.question.kind == "order" else frame - 1,
        }
        if timed and clock_runs:
            row["bank"] = one.bank_us
        if decision.fault is not None and timed:
            row["asked"] = list(one.question.legal)
            if own and decision.came:
                row["came"] = one_line(decision.came, LONGEST_TEXT)
        found.append(row)
    return found


def _faults_in_words(game: Game, viewer: Viewer) -> list[str]:
    if viewer is None:
        return [one_line(text, LONGEST_TEXT) for text in narration.tell_faults(game)]
    own = [
        one_line(narration.tell_fault(index, decision), LONGEST_TEXT)
        for index, decision in enumerate(game.decisions)
        if decision.fault is not None and decision.seat == viewer
    ]
    return own + narration.tell_forfeits(game)
