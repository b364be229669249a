"""What frames consist of, as JSON; docs/viewer.md describes each key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, NotRequired, TypedDict

from deepsea_referee.workbench.replay import control_of
from deepsea_rules import narration
from deepsea_rules.actions import LEVELS, values_of_level
from deepsea_rules.events import CleanedUp, EndReason, TurnPlayed, chip_text
from deepsea_rules.game import Game, Question
from deepsea_rules.narration import NarratedPosition
from deepsea_rules.position import position_text
from deepsea_rules.printable import one_line
from deepsea_rules.record import GameRecord, verify
from deepsea_rules.ruleset import ABOARD, FULL_AIR, HOME, SEAT_LETTERS
from deepsea_rules.state import GameState
from deepsea_rules.time_control import duration_text
from deepsea_rules.view import view_for
from deepsea_sdk.refereed_game import RefereedGame

Viewer = int | Literal["watcher"] | None
"""Who looks: a seat, a watcher who knows what all know, or None, who knows everything."""
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
    """How many turns have been begun."""
    p: str
    """The position in notation, with the values that the viewer knows at this moment."""
    dice: list[int] | None
    say: list[str]
    """What just happened, as the terminal says it; nothing while a turn goes on."""
    d: int
    """How many decisions have been made."""


class FrameOption(TypedDict):
    action: str
    score: list[float]
    """The placement score that it leads to, and its error of 95 %."""


class FrameJudgement(TypedDict):
    """What an analysis says of a decision."""

    mark: str
    """"?!", "?", "??" or nothing."""
    best: str
    level: bool
    """Another option seems better, but that is not sure."""
    regret: list[float]
    """How far the action is behind the best one, and the error of that."""
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
    """What was left of the bank of time after it, in microseconds."""
    asked: NotRequired[list[str]]
    """With a fault: the legal actions."""
    came: NotRequired[str]
    """With a fault: what the bot did instead."""
    judged: NotRequired[FrameJudgement]
    """With an analysis."""


class DiveSeat(TypedDict):
    seat: int
    home: int | None
    """1 for who came home first in the dive."""
    space: int | None
    """Where a diver that is not home ended; 0 is the submarine."""
    chips: list[str]
    """What it brought home, or lost."""
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
    """What the tank holds."""
    values: list[list[int]]
    """What the chips of each level are worth."""
    seats: list[FrameSeat]
    frames: list[Frame]
    decisions: list[FrameDecision]
    dives: list[Dive]
    marks: list[Mark]
    result: FrameResult
    seed: str
    policy: NotRequired[str]
    """With an analysis: what all seats play by in its roll-outs."""
    luck: NotRequired[list[list[float]]]
    """With an analysis: for each seat its luck so far, by frame, in placement score."""


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


def dive_end(index: int, moment: NarratedPosition, ended: CleanedUp) -> Dive:
    """How a dive ended: for the viewer of these positions, and at this frame."""
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


def course_marks(course: Sequence[NarratedPosition]) -> Iterator[Mark]:
    """Who turned back, came home, drowned, and took the lead."""
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


def decision_marks(decisions: Sequence[FrameDecision]) -> Iterator[Mark]:
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
