"""Highlights of a recorded game: how each dive ended, and marks such as faults.

Invariant: all of it follows from positions as the viewer of the frames knows them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from deepsea_arena.frame_types import Dive, DiveSeat, FrameDecision, Mark, MarkKind
from deepsea_rules import narration
from deepsea_rules.events import CleanedUp, chip_text
from deepsea_rules.narration import NarratedPosition
from deepsea_rules.ruleset import ABOARD, HOME, SEAT_LETTERS
from deepsea_rules.state import GameState
from deepsea_rules.time_control import duration_text


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
