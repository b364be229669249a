"""Describes a game: its positions, and the events in words.

Invariants: positions come from the engine alone, moved by the recorded choices and dice; words
name a value only where `known` has it; nothing here is random or waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from deepsea_rules.actions import BACK, DROP, LEAVE, TAKE, kind_of
from deepsea_rules.constants import FULL_AIR, SEAT_LETTERS
from deepsea_rules.events import (
    CleanedUp,
    DiveBegan,
    Happening,
    TurnPlayed,
    chip_text,
)
from deepsea_rules.game import Decision, Game
from deepsea_rules.record import GameRecord
from deepsea_rules.scoring import Result
from deepsea_rules.state import GameState
from deepsea_rules.units import Unit

ARROWS = "▼▲"
"""Where a diver is heading: down or homeward."""
REASONS = {
    "home": "everybody is home",
    "air": "the air ran out",
    "stall": "nobody moves any more",
}


class NarratedPosition(NamedTuple):
    """A position to be shown."""

    turn: int
    """How many turns of the game have been begun."""
    state: GameState
    dice: tuple[int, int] | None
    """What was rolled in the turn that is being played or was just played."""
    lines: tuple[str, ...]
    """What just happened; nothing while a turn is still going on."""


Step = Callable[[GameState], object]


def title(record: GameRecord) -> str:
    """Which game it is."""
    return f"game {record.game_id}, {record.rules.name} rules"


def names(record: GameRecord) -> list[str]:
    """The bots' names, seat A first."""
    return [seat.name for seat in record.seats]


def take(
    state: GameState, step: Step, known: Mapping[int, int]
) -> tuple[list[Happening], list[str]]:
    """Make a step; returns what it brought to an end, and the same in words."""
    before = state.clone()
    news: list[Happening] = []
    state.log = news
    step(state)
    state.log = None
    return news, [line for item in news for line in _turn_lines(item, before, step, known)]


def moments(game: Game) -> Iterator[NarratedPosition]:
    """Every position of a finished game: as it begins, after each roll, and after each turn."""
    known = dict(enumerate(game.state.values))
    opening, *rest = game.events
    assert isinstance(opening, DiveBegan)
    state = GameState.opening(game.rules, game.state.values, game.players, opening.starter)
    orders = _Orders(game.decisions)
    turn = 0
    yield NarratedPosition(turn, state.clone(), None, (_dive(opening),))
    for item in rest:
        if not isinstance(item, TurnPlayed):
            continue
        turn += 1
        lines = []
        for step in _steps_of(item):
            lines += take(state, step, known)[1]
            if state.phase == "search":
                yield NarratedPosition(turn, state.clone(), item.dice, ())
        while state.phase == "order":
            lines += take(state, orders.next_step(state), known)[1]
        yield NarratedPosition(turn, state.clone(), item.dice, tuple(lines))


def _steps_of(item: TurnPlayed) -> Iterator[Step]:
    """The choices and the dice of a turn that was played."""
    assert item.dice is not None
    d1, d2 = item.dice
    if item.declare == BACK:
        yield lambda state: state.apply(BACK)
    yield lambda state: state.roll(d1, d2)
    if item.search is not None:
        search = item.search
        yield lambda state: state.apply(search)


class _Orders:
    """How stranded divers laid their items: as they decided, or as they picked them up."""

    def __init__(self, decisions: Sequence[Decision]) -> None:
        self._left: dict[int, deque[str]] = {}
        for decision in decisions:
            if kind_of(decision.action) == "order":
                self._left.setdefault(decision.seat, deque()).append(decision.action)

    def next_step(self, state: GameState) -> Step:
        # Seats in this phase have a choice: only one that has forfeited was not asked, and it
        # was not asked again.
        left = self._left.get(state.to_move)
        action = left.popleft() if left else state.legal_actions()[0]
        return lambda state: state.apply(action)


# Words


def _turn_lines(
    item: Happening, before: GameState, step: Step, known: Mapping[int, int]
) -> Iterator[str]:
    """What happened, line by line, when `step` was made in the position `before`."""
    match item:
        case DiveBegan():
            yield _dive(item)
        case TurnPlayed():
            yield _turn(item, before)
        case CleanedUp():
            yield f"dive {item.dive} ends: {REASONS[item.reason]}"
            carried = _carried_at_the_end(before, step)
            for seat, chips in enumerate(item.banked):
                if chips:
                    banked = " ".join(chip_text(chip, known) for chip in chips)
                    yield f"  {SEAT_LETTERS[seat]} banked {banked}"
                elif carried[seat]:
                    lost = " ".join(unit.name for unit in carried[seat])
                    yield f"  {SEAT_LETTERS[seat]} lost {lost}"


def _carried_at_the_end(before: GameState, step: Step) -> Sequence[Sequence[Unit]]:
    """Everybody's cargo after the step that ended a dive, before it was cleaned up."""
    if before.phase == "order":
        return before.cargo
    # The engine cleans up at once. With air to spare and somebody moving it does not.
    going_on = before.clone()
    going_on.air += FULL_AIR
    going_on.quiet = -going_on.players
    step(going_on)
    return going_on.cargo


def _dive(item: DiveBegan) -> str:
    return f"dive {item.dive}: {SEAT_LETTERS[item.starter]} begins, air {item.air}"


def _turn(item: TurnPlayed, before: GameState) -> str:
    """One turn in one line: who, dice less load, from and to, air, and what it did there."""
    seat = item.seat
    load = len(before.cargo[seat])
    homeward = before.homeward[seat] or item.declare == BACK
    dice = "+".join(map(str, item.dice or ())) + (f"-{load}" if load else "")
    origin = "?" if item.from_space is None else str(item.from_space or "sub")
    goal = "home" if item.home else str(item.to_space or "sub")
    arrow = ARROWS[homeward]
    deeds = ["turns back"] if item.declare == BACK else []
    cargo = " ".join(unit.name for unit in before.cargo[seat])
    here = before.trail[item.to_space]
    if item.home and cargo:
        deeds.append(f"brings {cargo}")
    elif item.search == TAKE:
        deeds.append(f"takes {here.name}")
    elif item.search == LEAVE and here:
        deeds.append(f"leaves {here.name}")
    elif item.search is not None and item.search.startswith(DROP):
        deeds.append(f"drops {item.search.removeprefix(DROP)}")
    line = f"{SEAT_LETTERS[seat]}{arrow} {dice:5}  {origin:>3} → {goal:<4}  air {item.air:<3}"
    return f"{line} {', '.join(deeds)}".rstrip()


def is_turn(line: str) -> bool:
    """Whether a line of words tells a turn: it begins with a diver's mark."""
    return line[1:2] in ARROWS


def tell_end(result: Result, names: Sequence[str]) -> list[str]:
    """The final table, best first."""
    seats = sorted(range(len(names)), key=lambda seat: result.placements[seat])
    return [
        f"{result.placements[seat]}. {SEAT_LETTERS[seat]} {names[seat]}  {result.points[seat]}"
        for seat in seats
    ]


def tell_faults(game: Game) -> list[str]:
    """What bots did wrong, one line each."""
    lines = []
    for index, decision in enumerate(game.decisions):
        if decision.fault is not None:
            came = f" ({decision.came})" if decision.came else ""
            lines.append(
                f"{SEAT_LETTERS[decision.seat]} {decision.fault} at decision {index}{came}: "
                f"{decision.action} was played"
            )
    lines += [f"{SEAT_LETTERS[forfeit.seat]} forfeited" for forfeit in game.forfeits]
    return lines
