"""Frames: a recorded game as a viewer saw it, as JSON; docs/viewer.md describes each key.

Invariants: a record is verified and replayed once, whoever looks; a frame has only values that its
viewer knew at that moment; a seat learns neither the times nor the faults of others.

Frames with an analysis: values beside the decisions, marks, and luck as it went.

Invariants: frames without an analysis are left as they are; what is added is about the finished
game, and does not depend on the seat whose view is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Literal, NamedTuple, NotRequired, TypedDict

from deepsea_referee.workbench.replay import control_of
from deepsea_rules import narration
from deepsea_rules.actions import LEVELS, values_of_level
from deepsea_rules.events import CleanedUp, EndReason, TurnPlayed, chip_text
from deepsea_rules.game import Decision, Game, GameRecord, Question, verify
from deepsea_rules.narration import NarratedPosition
from deepsea_rules.position import position_text
from deepsea_rules.printable import one_line
from deepsea_rules.ruleset import ABOARD, FULL_AIR, HOME, SEAT_LETTERS
from deepsea_rules.state import GameState
from deepsea_rules.time_control import Bank, TimeControl, duration_text
from deepsea_rules.view import view_for
from deepsea_sdk.bot import Note
from deepsea_sdk.coach.roll_outs import COACH_VERSION

if TYPE_CHECKING:
    from deepsea_arena.analysis import AnalysedDecision, GameAnalysis, MarkedDive
    from deepsea_sdk.coach.decisions import Estimate


Viewer = int | Literal["watcher"] | None
"""A seat, a watcher with the knowledge that all seats share, or None for everything."""
MarkKind = Literal["back", "home", "drowned", "fault", "lead", "slowest", "judged"]
VERSION = 1
LONGEST_NAME = 80
LONGEST_TEXT = 400


class FrameSeat(TypedDict):
    name: str
    version: str
    """The beginning of the digest of the bot's files."""


class Frame(TypedDict):
    t: int
    """The number of turns that have been begun."""
    p: str
    """The position in notation, with the values that the viewer knows at this moment."""
    dice: list[int] | None
    say: list[str]
    """The last events, as the terminal says them; nothing while a turn goes on."""
    d: int
    """The number of decisions that have been made."""


class FrameOption(TypedDict):
    action: str
    score: list[float]
    """The placement score that it leads to, and its error of 95 %."""


class FrameJudgement(TypedDict):
    """The judgement of a decision by an analysis."""

    mark: str
    """"?!", "?", "??" or nothing."""
    best: str
    level: bool
    """Another option seems better, but that is not sure."""
    regret: list[float]
    """The distance of the action to the best one, and its error."""
    options: list[FrameOption]


class FrameDecision(TypedDict):
    seat: int
    kind: str
    action: str
    us: int | None
    """The time in microseconds; None is what the viewer does not learn."""
    fault: str | None
    at: int
    """The index of the frame that the bot saw when it was asked."""
    bank: NotRequired[int]
    """The rest of the bank of time after it, in microseconds."""
    asked: NotRequired[list[str]]
    """With a fault: the legal actions."""
    came: NotRequired[str]
    """With a fault: the bot's deed instead."""
    judged: NotRequired[FrameJudgement]
    """With an analysis."""
    note: NotRequired[str]
    """The bot's notes, for its author,"""
    numbers: NotRequired[dict[str, float]]
    """and the numbers in it, by name."""


class DiveSeat(TypedDict):
    seat: int
    home: int | None
    """1 for who came home first in the dive."""
    space: int | None
    """The last space of a diver that is not home; 0 is the submarine."""
    chips: list[str]
    """The chips that it brought home, or lost."""
    say: str


class Dive(TypedDict):
    dive: int
    at: int
    """The index of the frame in which it ended, before the clean-up."""
    reason: EndReason
    say: str
    seats: list[DiveSeat]


class Mark(TypedDict):
    at: int
    """The index of the frame in which it is seen."""
    kind: MarkKind
    seat: int
    say: str
    sign: NotRequired[str]
    """Of kind "judged": "?!", "?" or "??"."""


class FrameResult(TypedDict):
    scores: list[int]
    placements: list[int]
    forfeits: list[dict[str, object]]


class Frames(TypedDict):
    v: int
    id: str
    viewer: str
    """"all", "watcher" or a seat's letter."""
    rules: str
    clock: str
    budget: int | None
    bank: int | None
    """Budget and bank of the clock in microseconds."""
    air: int
    """The air of a full tank."""
    values: list[list[int]]
    """The values of the chips of each level."""
    seats: list[FrameSeat]
    frames: list[Frame]
    decisions: list[FrameDecision]
    dives: list[Dive]
    marks: list[Mark]
    result: FrameResult
    seed: str
    policy: NotRequired[str]
    """With an analysis: the policy of all seats in its roll-outs."""
    luck: NotRequired[list[list[float]]]
    """With an analysis: for each seat its luck so far, by frame, in placement score."""


class Asked(NamedTuple):
    """When a decision of the record was asked."""

    question: Question
    turn: int
    """The turn that it belongs to."""
    bank_us: int | None
    """The rest of the seat's bank after it; None without a clock."""

    @property
    def is_search(self) -> bool:
        return self.question.kind == "search"


@dataclass(frozen=True, slots=True)
class ReplayedGame:
    """A verified record with its finished game, from one replay for all viewers."""

    record: GameRecord
    game: Game
    asked: Sequence[Asked]
    control: TimeControl | None


def replayed(record: GameRecord) -> ReplayedGame:
    """Verify a record. Raises InvalidRecord if the re-run differs."""
    control = control_of(record)
    banks = control and [Bank(control.budget_us, control.bank_us) for _ in record.seats]
    asked: list[Asked] = []
    turns = seen = 0

    def note(game: Game, question: Question, decision: Decision) -> None:
        nonlocal turns, seen
        turns += sum(isinstance(item, TurnPlayed) for item in game.events[seen:])
        seen = len(game.events)
        if banks:
            banks[question.seat].spend(decision.us)
        # Orders come after their turn, all others are a part of it.
        turn = turns if question.kind == "order" else turns + 1
        asked.append(Asked(question, turn, banks[question.seat].left_us if banks else None))

    return ReplayedGame(record, verify(record, note), asked, control)


def frames(record: GameRecord, viewer: Viewer = None) -> Frames:
    """The frames of a game as a viewer knew it at each moment.

    Raises InvalidRecord if the re-run of the record differs.
    """
    return frames_of(replayed(record), viewer)


def frames_of(source: ReplayedGame, viewer: Viewer = None) -> Frames:
    """The same, of a record that was verified."""
    record, game, asked, control = source.record, source.game, source.asked, source.control
    names = [one_line(name, LONGEST_NAME) for name in narration.names(record)]
    course = list(narration.moments(game, _knowing(game, viewer)))
    shown = _frames(course, asked, viewer)
    shown[-1]["say"] += ["the game is over", *narration.tell_end(game.result(), names)]
    shown[-1]["say"] += _faults_in_words(game, viewer)
    decisions = _decisions(source, shown, viewer)
    dives = [
        _dive_end(index, moment, moment.ended)
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
            [*_course_marks(course), *_decision_marks(decisions)], key=lambda mark: mark["at"]
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


def _frames(
    course: Sequence[NarratedPosition], asked: Sequence[Asked], viewer: Viewer
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


def _decisions(source: ReplayedGame, shown: Sequence[Frame], viewer: Viewer) -> list[FrameDecision]:
    """The decisions; a seat learns neither the times nor the faults of others during a game."""
    found: list[FrameDecision] = []
    frame = 0
    pairs = zip(source.record.decisions, source.asked, strict=True)
    for index, (decision, one) in enumerate(pairs):
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
        if timed and one.bank_us is not None:
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


def _dive_end(index: int, moment: NarratedPosition, ended: CleanedUp) -> Dive:
    """The end of a dive, for the viewer of these positions and at this frame."""
    state = moment.state
    return {
        "dive": ended.dive,
        "at": index,
        "reason": ended.reason,
        "say": f"dive {ended.dive} ends: {narration.REASONS[ended.reason]}",
        "seats": [_dive_of(seat, state, ended, moment.known) for seat in range(state.players)],
    }


def _dive_of(seat: int, state: GameState, ended: CleanedUp, known: Mapping[int, int]) -> DiveSeat:
    place = state.place[seat]
    if place == HOME:
        brought = ended.banked[seat]
        home = state.home_order.index(seat) + 1
        chips = [chip_text(chip, known) for chip in brought]
        say = f"came home with {_count(len(chips))}" if chips else "came home with nothing"
        if chips and all(chip in known for chip in brought):
            say += f", {_count(sum(known[chip] for chip in brought), 'point')}"
        return {"seat": seat, "home": home, "space": None, "chips": chips, "say": say}
    units = state.cargo[seat]
    lost = sum(map(len, units))
    if place == ABOARD:
        say = "never left the submarine"
    elif lost:
        say = f"drowned at space {place}, {_count(lost)} lost"
    else:
        say = f"was still out at space {place}, with nothing to lose"
    names = [unit.name for unit in units]
    return {"seat": seat, "home": None, "space": place, "chips": names, "say": say}


def _count(number: int, noun: str = "chip") -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


# What to look at


def _course_marks(course: Sequence[NarratedPosition]) -> Iterator[Mark]:
    """Turns back, divers who come home or drown, changes of the lead."""
    leader: int | None = None
    for index, moment in enumerate(course):
        before = course[index - 1].state if index else moment.state
        state = moment.state
        for seat, letter in enumerate(SEAT_LETTERS[: state.players]):
            if state.homeward[seat] and not before.homeward[seat] and state.place[seat] != HOME:
                yield _mark(index, "back", seat, f"{letter} turned back")
            if state.place[seat] == HOME != before.place[seat]:
                yield _mark(index, "home", seat, f"{letter} came home")
            if moment.ended and state.cargo[seat]:
                yield _mark(index, "drowned", seat, f"{letter} drowned")
        points = [sum(moment.known.get(chip, 0) for chip in bank) for bank in state.bank]
        best = [seat for seat, score in enumerate(points) if score == max(points)]
        if len(best) == 1 and best[0] != leader:
            if leader is not None:
                yield _mark(index, "lead", best[0], f"{SEAT_LETTERS[best[0]]} takes the lead")
            leader = best[0]


def _decision_marks(decisions: Sequence[FrameDecision]) -> Iterator[Mark]:
    """Faults, and the slowest decision."""
    for row in decisions:
        if row["fault"] is not None:
            letter = SEAT_LETTERS[row["seat"]]
            yield _mark(row["at"], "fault", row["seat"], f"{letter} at fault: {row['fault']}")
    timed = [(row["us"], row) for row in decisions if row["us"]]
    if timed:
        us, slowest = max(timed, key=lambda entry: entry[0])
        say = f"slowest decision: {SEAT_LETTERS[slowest['seat']]}, {duration_text(us)}"
        yield _mark(slowest["at"], "slowest", slowest["seat"], say)


def _mark(at: int, kind: MarkKind, seat: int, say: str) -> Mark:
    return {"at": at, "kind": kind, "seat": seat, "say": say}


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
    from deepsea_arena.analysis_document import read_analysis

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
        _decision_mark(seen["decisions"][decision.number]["at"], decision)
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


def _decision_mark(at: int, decision: AnalysedDecision) -> Mark:
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
