"""Frames: a recorded game as a viewer saw it, as JSON; docs/viewer.md describes each key.

Start reading at `frames`. `with_analysis` adds values beside the decisions, marks, and luck as it
went; `with_notes` adds the notes of bots.

Invariants: a record is verified and replayed once, however many viewers it is shown to; a frame has
only values that its viewer knew at that moment; a seat learns neither the times nor the faults of
others; an analysis is about the finished game, and does not depend on the viewer; frames without an
analysis do not change when one is added to a copy of them.
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
"""A seat; "watcher", with the knowledge that all seats share; None, with all knowledge."""
MarkKind = Literal["back", "home", "drowned", "fault", "lead", "slowest", "judged"]
VERSION = 1
"""The version of the format."""
LONGEST_NAME = 80
"""Longest name of a game, a bot or its rules, in characters."""
LONGEST_TEXT = 400
"""Longest description of a fault, in characters."""


class FrameSeat(TypedDict):
    """A seat, with its bot."""

    name: str
    version: str
    """The beginning of the digest of the bot's files."""


class Frame(TypedDict):
    """A position of the game, with its events in words."""

    t: int
    """Number of turns that have begun."""
    p: str
    """The position in notation, with the values of chips that the viewer knows at this moment."""
    dice: list[int] | None
    """The roll that led to this position; None for other positions."""
    say: list[str]
    """The last events as the terminal tells them; empty while a turn goes on."""
    d: int
    """Number of decisions that were made."""


class FrameOption(TypedDict):
    """An option of a decision, with its score by an analysis."""

    action: str
    score: list[float]
    """The placement score that the action leads to, and its error of 95 %."""


class FrameJudgement(TypedDict):
    """The judgement of a decision by an analysis."""

    mark: str
    """"?!", "?", "??" or ""."""
    best: str
    """The best action."""
    level: bool
    """True if another option seems better, but that is not sure."""
    regret: list[float]
    """The score that the action loses against the best one, and its error."""
    options: list[FrameOption]


class FrameDecision(TypedDict):
    """A decision of the game."""

    seat: int
    kind: str
    action: str
    us: int | None
    """The time in microseconds; None if the viewer does not learn it."""
    fault: str | None
    """The fault; None if there was none, or the viewer does not learn it."""
    at: int
    """The index of the frame that the bot saw when it was asked."""
    bank: NotRequired[int]
    """The time that remains in the bank after the decision, in microseconds."""
    asked: NotRequired[list[str]]
    """The legal actions, if there was a fault."""
    came: NotRequired[str]
    """The bot's answer that was no legal action, or the end of its program, with a fault."""
    judged: NotRequired[FrameJudgement]
    """The judgement of the decision by the analysis, if there is one."""
    note: NotRequired[str]
    """The text that the bot noted, for its author alone."""
    numbers: NotRequired[dict[str, float]]
    """The numbers that the bot noted, by name, for its author alone."""


class DiveSeat(TypedDict):
    """The end of a dive for one seat."""

    seat: int
    home: int | None
    """The order in which it came home in the dive, from 1; None if it did not."""
    space: int | None
    """The last space of the diver, 0 on the submarine; None if it came home."""
    chips: list[str]
    """The chips that it brought home, or lost."""
    say: str
    """The end of the dive for the seat, in words."""


class Dive(TypedDict):
    """The end of a dive."""

    dive: int
    at: int
    """The index of the frame in which the dive ended, before the clean-up."""
    reason: EndReason
    say: str
    seats: list[DiveSeat]


class Mark(TypedDict):
    """A moment of the game that is worth a look."""

    at: int
    """The index of the frame that shows it."""
    kind: MarkKind
    seat: int
    say: str
    sign: NotRequired[str]
    """The mark of an analysis: "?!", "?" or "??". Only marks of the kind "judged" have it."""


class FrameResult(TypedDict):
    """The result of the game."""

    points: list[int]
    placements: list[int]
    forfeits: list[dict[str, object]]


class Frames(TypedDict):
    """A recorded game as a viewer saw it."""

    v: int
    id: str
    viewer: str
    """The viewer: "all", "watcher" or a seat's letter."""
    rules: str
    clock: str
    budget: int | None
    """The clock's budget in microseconds; None without a clock."""
    bank: int | None
    """The clock's bank in microseconds; None without a clock."""
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
    """The policy that plays all seats in the roll-outs of the analysis, if there is one."""
    luck: NotRequired[list[list[float]]]
    """The luck so far of each seat in each frame, in placement score, with an analysis."""


class AskedDecision(NamedTuple):
    """The question of a decision of the record, and when it was asked."""

    question: Question
    turn: int
    """The number of its turn, from 1."""
    bank_us: int | None
    """The time that remains in the seat's bank after the decision; None without a clock."""

    @property
    def is_search(self) -> bool:
        """True for the decision after the move."""
        return self.question.kind == "search"


@dataclass(frozen=True, slots=True)
class ReplayedGame:
    """A verified record with its finished game, from which the frames of any viewer follow."""

    record: GameRecord
    game: Game
    asked: Sequence[AskedDecision]
    """The questions, in the order of the record's decisions."""
    control: TimeControl | None
    """The clock; None without one."""


def replay(record: GameRecord) -> ReplayedGame:
    """Replay a recorded game, with the question, the turn and the bank of time of each decision.

    Raises InvalidRecord if the replay differs from the record.
    """
    clock = control_of(record)
    banks: list[Bank] = []  # of the seats; none without a clock
    if clock:
        banks = [Bank(clock.budget_us, clock.bank_us) for _ in record.seats]
    asked: list[AskedDecision] = []
    turns_played = 0
    event_count = 0  # the events before the last decision

    def on_decision(game: Game, question: Question, decision: Decision) -> None:
        """Add a decision to `asked`; `verify` calls this for each one before it is played."""
        nonlocal turns_played, event_count
        new_events = game.events[event_count:]
        event_count = len(game.events)
        turns_played += sum(isinstance(event, TurnPlayed) for event in new_events)
        bank_us = None
        if banks:
            banks[question.seat].spend(decision.us)
            bank_us = banks[question.seat].left_us
        # An order is asked for after its turn has been played, any other decision during its turn.
        turn = turns_played if question.kind == "order" else turns_played + 1
        asked.append(AskedDecision(question, turn, bank_us))

    return ReplayedGame(record, verify(record, on_decision), asked, clock)


def frames(record: GameRecord, viewer: Viewer = None) -> Frames:
    """Return the frames of a game, with what the viewer knew at each moment.

    Raises InvalidRecord if the replay of the record differs from it.
    """
    return frames_of(replay(record), viewer)


def frames_of(source: ReplayedGame, viewer: Viewer = None) -> Frames:
    """Return the frames of a verified game, with what the viewer knew at each moment."""
    record, game, asked, control = source.record, source.game, source.asked, source.control
    names = [one_line(name, LONGEST_NAME) for name in narration.names(record)]
    moments = list(narration.moments(game, _knowledge_of(game, viewer)))
    frame_list = _frames(moments, asked, viewer)
    frame_list[-1]["say"] += ["the game is over", *narration.tell_end(game.result(), names)]
    frame_list[-1]["say"] += _faults_in_words(game, viewer)
    decisions = _decisions(source, frame_list, viewer)
    dives = [
        _dive_end(index, moment, moment.ended)
        for index, moment in enumerate(moments)
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
        "frames": frame_list,
        "decisions": decisions,
        "dives": dives,
        "marks": sorted(
            [*_moment_marks(moments), *_decision_marks(decisions)], key=lambda mark: mark["at"]
        ),
        "result": {
            "points": list(record.points),
            "placements": list(record.placements),
            "forfeits": [forfeit._asdict() for forfeit in record.forfeits],
        },
        "seed": record.seed.hex(),
    }


def _name_of(viewer: Viewer) -> str:
    """Return the name of a viewer: "all", "watcher" or the seat's letter."""
    if viewer is None:
        return "all"
    return viewer if viewer == "watcher" else SEAT_LETTERS[viewer]


def _seat_of(viewer: int | Literal["watcher"]) -> int | None:
    """Return the seat of a viewer; None for a watcher, as `view_for` takes it."""
    return None if viewer == "watcher" else viewer


def _knowledge_of(game: Game, viewer: Viewer) -> narration.Knowing:
    """Return a function that says which values of chips the viewer knows in a state of the game.

    The function returns the values by chip. A viewer of None knows all.
    """
    if viewer is None:
        all_values = dict(enumerate(game.state.values))
        return lambda _: all_values
    seat = _seat_of(viewer)
    return lambda state: view_for(state, seat).known


def _frames(
    moments: Sequence[NarratedPosition], asked: Sequence[AskedDecision], viewer: Viewer
) -> list[Frame]:
    """Return a frame for each position of a game, as the viewer sees it.

    moments  the positions, with the words about them
    asked    all decisions of the game, in their order; a frame has the number of those before it
    """
    frame_list: list[Frame] = []
    decisions_made = 0
    for moment in moments:
        while decisions_made < len(asked) and _is_made_before(asked[decisions_made], moment):
            decisions_made += 1
        frame_list.append(
            {
                "t": moment.turn,
                "p": _position(moment.state, moment.known, viewer),
                "dice": list(moment.dice) if moment.dice else None,
                "say": list(moment.lines),
                "d": decisions_made,
            }
        )
    return frame_list


def _is_made_before(decision: AskedDecision, moment: NarratedPosition) -> bool:
    """Return True if a decision was made before a position of the game."""
    if decision.turn != moment.turn:
        return decision.turn < moment.turn
    # A turn with a search has two positions, and the search comes between them.
    is_position_before_search = moment.state.phase == "search"
    return not (decision.is_search and is_position_before_search)


def _position(state: GameState, known: Mapping[int, int], viewer: Viewer) -> str:
    """Return a position in notation, as the viewer sees it."""
    return position_text(state if viewer is None else view_for(state, _seat_of(viewer)), known)


def _decisions(
    source: ReplayedGame, frame_list: Sequence[Frame], viewer: Viewer
) -> list[FrameDecision]:
    """Return the decisions as the viewer sees them.

    A seat learns neither the times nor the faults of others, as during the game.
    """
    rows: list[FrameDecision] = []
    frame = 0  # the first frame after the decision
    pairs = zip(source.record.decisions, source.asked, strict=True)
    for index, (decision, asked) in enumerate(pairs):
        while frame_list[frame]["d"] <= index:
            frame += 1
        is_own = viewer is None or viewer == decision.seat
        shows_times = is_own or viewer == "watcher"
        row: FrameDecision = {
            "seat": decision.seat,
            "kind": asked.question.kind,
            "action": decision.action,
            "us": decision.us if shows_times else None,
            "fault": decision.fault if shows_times else None,
            # Orders are asked for in the frame that ends a dive, others in the one before.
            "at": frame if asked.question.kind == "order" else frame - 1,
        }
        if shows_times and asked.bank_us is not None:
            row["bank"] = asked.bank_us
        if decision.fault is not None and shows_times:
            row["asked"] = list(asked.question.legal)
            if is_own and decision.came:
                row["came"] = one_line(decision.came, LONGEST_TEXT)
        rows.append(row)
    return rows


def _faults_in_words(game: Game, viewer: Viewer) -> list[str]:
    """Return sentences about the faults that the viewer learns, and about all forfeits.

    A seat learns its own faults, a watcher none, and a viewer of None all.
    """
    if viewer is None:
        return [one_line(text, LONGEST_TEXT) for text in narration.tell_faults(game)]
    seat_faults = [
        one_line(narration.tell_fault(index, decision), LONGEST_TEXT)
        for index, decision in enumerate(game.decisions)
        if decision.fault is not None and decision.seat == viewer
    ]
    return seat_faults + narration.tell_forfeits(game)


def _dive_end(frame_index: int, moment: NarratedPosition, ended: CleanedUp) -> Dive:
    """Return the end of a dive for all seats.

    frame_index  the frame that shows it
    moment       the position of that frame, with the values that the viewer knows
    ended        the event that ended the dive
    """
    state = moment.state
    return {
        "dive": ended.dive,
        "at": frame_index,
        "reason": ended.reason,
        "say": f"dive {ended.dive} ends: {narration.REASONS[ended.reason]}",
        "seats": [
            _dive_end_of_seat(seat, state, ended, moment.known) for seat in range(state.players)
        ],
    }


def _dive_end_of_seat(
    seat: int, state: GameState, ended: CleanedUp, known: Mapping[int, int]
) -> DiveSeat:
    """Return the end of a dive for one seat; `known` has the values that the viewer knows, by chip.

    `state` is the state before the clean-up, `ended` the event that ended the dive.
    """
    space = state.place[seat]
    if space == HOME:
        home_rank = state.home_order.index(seat) + 1
        chips = ended.banked[seat]
        chip_texts = [chip_text(chip, known) for chip in chips]
        say = _homecoming_in_words(chips, known)
        return {"seat": seat, "home": home_rank, "space": None, "chips": chip_texts, "say": say}
    units = state.cargo[seat]
    lost_chips = sum(map(len, units))
    if space == ABOARD:
        say = "never left the submarine"
    elif lost_chips:
        say = f"drowned at space {space}, {_count(lost_chips)} lost"
    else:
        say = f"was still out at space {space}, with nothing to lose"
    unit_names = [unit.name for unit in units]
    return {"seat": seat, "home": None, "space": space, "chips": unit_names, "say": say}


def _homecoming_in_words(chips: Sequence[int], known: Mapping[int, int]) -> str:
    """Return a phrase for a diver who came home with these chips, with the points if all are known.

    `known` has the values that the viewer knows, by chip.
    """
    if not chips:
        return "came home with nothing"
    phrase = f"came home with {_count(len(chips))}"
    if not all(chip in known for chip in chips):
        return phrase
    points = sum(known[chip] for chip in chips)
    return f"{phrase}, {_count(points, 'point')}"


def _count(number: int, noun: str = "chip") -> str:
    """Return a number with its noun, such as "1 chip" or "3 chips"."""
    return f"{number} {noun}{'s' if number != 1 else ''}"


# ------------------------------------------------------------------------------------------- marks


def _moment_marks(moments: Sequence[NarratedPosition]) -> Iterator[Mark]:
    """Yield the marks of divers who turn back, come home or drown, and of changes of the lead.

    `moments` are the positions of the frames, in their order.
    """
    leader: int | None = None
    for index, moment in enumerate(moments):
        previous = moments[index - 1].state if index else moment.state
        for seat in range(moment.state.players):
            yield from _diver_marks(index, moment, previous, seat)
        sole_leader = _sole_leader(moment)
        if sole_leader is not None and sole_leader != leader:
            if leader is not None:  # the first lead of a game is no change
                say = f"{SEAT_LETTERS[sole_leader]} takes the lead"
                yield _mark(index, "lead", sole_leader, say)
            leader = sole_leader


def _diver_marks(
    frame_index: int, moment: NarratedPosition, previous: GameState, seat: int
) -> Iterator[Mark]:
    """Yield the marks of one diver in a frame, by comparison with the state of the frame before."""
    state, letter = moment.state, SEAT_LETTERS[seat]
    is_home, was_home = state.place[seat] == HOME, previous.place[seat] == HOME
    has_turned = state.homeward[seat] and not previous.homeward[seat]
    if has_turned and not is_home:
        yield _mark(frame_index, "back", seat, f"{letter} turned back")
    if is_home and not was_home:
        yield _mark(frame_index, "home", seat, f"{letter} came home")
    if moment.ended and state.cargo[seat]:
        yield _mark(frame_index, "drowned", seat, f"{letter} drowned")


def _sole_leader(moment: NarratedPosition) -> int | None:
    """Return the seat with the most points in its bank; None if several seats share the lead.

    Chips whose values the viewer does not know count nothing.
    """
    points = [sum(moment.known.get(chip, 0) for chip in bank) for bank in moment.state.bank]
    leaders = [seat for seat, score in enumerate(points) if score == max(points)]
    return leaders[0] if len(leaders) == 1 else None


def _decision_marks(decisions: Sequence[FrameDecision]) -> Iterator[Mark]:
    """Yield a mark for each fault that the viewer learns, and one for the slowest decision."""
    for decision in decisions:
        fault, seat = decision["fault"], decision["seat"]
        if fault is not None:
            yield _mark(decision["at"], "fault", seat, f"{SEAT_LETTERS[seat]} at fault: {fault}")
    # Only decisions whose time the viewer learns.
    timed_decisions = [(decision["us"], decision) for decision in decisions if decision["us"]]
    if timed_decisions:
        us, slowest = max(timed_decisions, key=lambda timed: timed[0])
        say = f"slowest decision: {SEAT_LETTERS[slowest['seat']]}, {duration_text(us)}"
        yield _mark(slowest["at"], "slowest", slowest["seat"], say)


def _mark(at: int, kind: MarkKind, seat: int, say: str) -> Mark:
    """Return a mark of the frame with the index `at`."""
    return {"at": at, "kind": kind, "seat": seat, "say": say}


# ------------------------------------------------------------------------------ analyses and notes

DIGITS = 3


def analysed_frames(record: GameRecord, viewer: Viewer, analysis_json: str) -> Frames:
    """Return the frames of a game as the viewer saw it, with the game's analysis.

    `analysis_json` is the analysis as a JSON document; "" if the game has none. Raises
    DocumentError if it is not an analysis of this game.
    """
    game_frames = frames(record, viewer)
    if not analysis_json:
        return game_frames
    # Imported only here, since it loads the coach.
    from deepsea_arena.analysis_document import read_analysis

    document = read_analysis(analysis_json)
    return with_analysis(game_frames, document.analysis(record), document.policy)


def with_analysis(
    game_frames: Frames, analysis: GameAnalysis, policy: str = COACH_VERSION
) -> Frames:
    """Return a copy of a game's frames with the judgements, marks and luck of its analysis.

    `policy` is the policy that played the roll-outs of the analysis, with its version.
    """
    decisions = list(game_frames["decisions"])
    marks = list(game_frames["marks"])
    for decision in analysis.decisions:
        row = decisions[decision.number]
        decisions[decision.number] = {**row, "judged": _judgement(decision)}
        if decision.judged.mark:
            marks.append(_mark_of_decision(row["at"], decision))
    for dive in analysis.marked_dives:
        last_decision = decisions[dive.last]
        marks.append(_mark_of_dive(last_decision["at"], dive))
    analysed: Frames = {
        **game_frames,
        "policy": policy,
        "decisions": decisions,
        "marks": sorted(marks, key=lambda mark: mark["at"]),
    }
    if analysis.chances:
        analysed["luck"] = _luck_by_frame(game_frames["frames"], analysis)
    return analysed


def with_notes(game_frames: Frames, notes: Mapping[int, Note]) -> Frames:
    """Return a copy of a game's frames with what bots noted beside their decisions.

    `notes` has the notes by the index of the decision in the game.
    """
    decisions = list(game_frames["decisions"])
    for number, note in notes.items():
        if number < len(decisions):
            row = decisions[number]
            decisions[number] = {**row, "note": note.text, "numbers": dict(note.numbers)}
    return {**game_frames, "decisions": decisions}


def _judgement(decision: AnalysedDecision) -> FrameJudgement:
    """Return the judgement of a decision as the JSON object of a viewer's frames."""
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


def _mark_of_decision(frame_index: int, decision: AnalysedDecision) -> Mark:
    """Return the mark of a decision that lost much, for the frame with this index."""
    judged = decision.judged
    letter = SEAT_LETTERS[decision.seat]
    say = (
        f"{letter} {judged.played} {judged.mark} loses {judged.regret.mean:.2f}, "
        f"{judged.best} was better"
    )
    return {
        "at": frame_index,
        "kind": "judged",
        "seat": decision.seat,
        "say": say,
        "sign": judged.mark,
    }


def _mark_of_dive(frame_index: int, dive: MarkedDive) -> Mark:
    """Return the mark of a dive whose decisions together lost much, for a frame by its index."""
    letter = SEAT_LETTERS[dive.seat]
    say = f"{letter} {dive.mark} dive {dive.dive} loses {dive.loss.mean:.2f} in all its decisions"
    return {
        "at": frame_index,
        "kind": "judged",
        "seat": dive.seat,
        "say": say,
        "sign": dive.mark,
    }


def _luck_by_frame(frames: list[Frame], analysis: GameAnalysis) -> list[list[float]]:
    """Return a list for each seat: its luck in the game up to each frame."""
    first_frame: dict[int, int] = {}  # indices of the first and the last frame of each turn
    last_frame: dict[int, int] = {}
    for index, frame in enumerate(frames):
        turn = frame["t"]
        first_frame.setdefault(turn, index)
        last_frame[turn] = index
    luck_changes = [[0.0] * len(frames) for _ in analysis.record.seats]  # (seats, frames)
    for event in analysis.chances:
        # The first frame of a turn shows its roll. Values are shown when the turn and its dive end.
        is_roll = event.dice is not None
        frame_index = first_frame[event.turn] if is_roll else last_frame[event.turn]
        for seat, luck in enumerate(event.luck):
            luck_changes[seat][frame_index] += luck.mean
    # Adding 0.0 turns -0.0 into 0.0.
    return [
        [round(total, DIGITS) + 0.0 for total in accumulate(changes_of_seat)]
        for changes_of_seat in luck_changes
    ]


def _rounded(interval: Estimate) -> list[float]:
    """Return the mean and the error of an estimate, rounded and without a negative zero."""
    return [round(interval.mean, DIGITS) + 0.0, round(interval.error, DIGITS) + 0.0]
