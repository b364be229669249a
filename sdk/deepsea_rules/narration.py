"""Describes a game: its positions, and the events in words.

Invariants: positions come from the engine alone, moved by the recorded choices and dice; words
name a value only where `known` has it; nothing here is random or waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from deepsea_rules.actions import BACK, BLANK, DROP, LEAVE, TAKE, kind_of
from deepsea_rules.events import (
    CleanedUp,
    DiveBegan,
    Event,
    Happening,
    TurnEvent,
    TurnPlayed,
    chip_text,
)
from deepsea_rules.game import Decision, Game
from deepsea_rules.position import position_text
from deepsea_rules.record import GameRecord
from deepsea_rules.ruleset import SEAT_LETTERS
from deepsea_rules.scoring import Result
from deepsea_rules.state import GameState
from deepsea_rules.view import view_for

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
    """Where a dive ends: before the clean-up, with phase "order" or else "over"."""
    dice: tuple[int, int] | None
    """What was rolled in the turn that is being played or was just played."""
    lines: tuple[str, ...]
    """What just happened; nothing while a turn is still going on."""
    known: Mapping[int, int]
    """The values that may be shown, by chip id."""
    ended: CleanedUp | None
    """The end of a dive, at the position in which it ended."""


Step = Callable[[GameState], object]
Knowing = Callable[[GameState], Mapping[int, int]]
"""The values that a viewer knows in a position, by chip id."""


def title(record: GameRecord) -> str:
    """Which game it is."""
    return f"game {record.game_id}, {record.rules.name} rules"


def names(record: GameRecord) -> list[str]:
    """The bots' names, seat A first."""
    return [seat.name for seat in record.seats]


class Made(NamedTuple):
    """A step that was made."""

    news: Sequence[Happening]
    """What it brought to an end."""
    before: GameState
    after: GameState
    """The position after it, but before the clean-up of a dive that it ended."""

    def tell(self, item: Happening, known: Mapping[int, int]) -> list[str]:
        """Part of the news in words, line by line."""
        match item:
            case DiveBegan():
                return [_dive(item)]
            case TurnPlayed():
                return [_turn(item, self.before)]
            case CleanedUp():
                return list(_dive_end(item, self.after, known))


class _Log(list[Happening]):
    """Notes what happens, and the position after a turn: a dive is cleaned up only then."""

    def __init__(self, state: GameState) -> None:
        super().__init__()
        self._state = state
        self.turn_end: GameState | None = None

    def append(self, item: Happening) -> None:
        super().append(item)
        if isinstance(item, TurnPlayed):
            self.turn_end = self._state.clone()


def take(state: GameState, step: Step) -> Made:
    """Make a step and note what it brings to an end."""
    before = state.clone()
    state.log = log = _Log(state)
    step(state)
    state.log = None
    # Orders are chosen before anything moves.
    return Made(log, before, log.turn_end or before)


class SeenPosition(NamedTuple):
    """A position of a game under way, with what one seat may know of it."""

    turn: int
    """How many turns of the game have been begun."""
    text: str
    """In notation."""
    dice: tuple[int, int] | None
    lines: tuple[str, ...]
    """What just happened."""


def seen(game: Game, seat: int) -> list[SeenPosition]:
    """The game so far as a seat saw it, up to the position in which it stands."""
    course = moments(game, lambda state: view_for(state, seat).known)
    return [
        SeenPosition(
            moment.turn,
            position_text(view_for(moment.state, seat), moment.known),
            moment.dice,
            moment.lines,
        )
        for moment in course
    ]


def moments(game: Game, knowing: Knowing | None = None) -> Iterator[NarratedPosition]:
    """Every position of a game so far: as each dive begins, after each roll and each turn.

    A turn that ends a dive has two: before the clean-up, and after it.

    knowing  what the viewer knows; without it every value
    """
    every = dict(enumerate(game.state.values))
    knows = knowing or (lambda _: every)
    opening, *rest = game.events
    assert isinstance(opening, DiveBegan)
    state = GameState.opening(game.rules, game.state.values, game.players, opening.starter)
    orders = _Orders(game.decisions)
    turn = 0
    yield NarratedPosition(turn, state.clone(), None, (_dive(opening),), knows(state), None)
    for item in rest:
        if not isinstance(item, TurnPlayed):
            continue
        turn += 1
        lines: list[str] = []
        dice = item.dice
        # Of orders that are being asked for, nothing is shown before all have moved.
        ordering = game.state.phase == "order" and item is rest[-1]
        for step in _steps(item, state, orders, ordering=ordering):
            made = take(state, step)
            known = knows(state)
            for news in made.news:
                told = made.tell(news, known)
                if isinstance(news, CleanedUp):
                    ended = made.after
                    if ended.phase != "order":
                        ended.phase = "over"
                    yield NarratedPosition(turn, ended, dice, (*lines, *told), known, news)
                    dice, lines = None, []
                else:
                    lines += told
            if state.phase == "search":
                yield NarratedPosition(turn, state.clone(), dice, (), known, None)
        if ordering:
            state = game.state
        yield NarratedPosition(turn, state.clone(), dice, tuple(lines), knows(state), None)
    if game.state.phase == "search":
        state = game.state.clone()
        yield NarratedPosition(turn + 1, state, state.rolled, (), knows(state), None)


def _steps(
    item: TurnPlayed, state: GameState, orders: _Orders, *, ordering: bool
) -> Iterator[Step]:
    """The choices and the dice of a turn that was played, and the orders after it.

    state     where the steps are made, one before the next is asked for
    ordering  without the orders
    """
    assert item.dice is not None
    d1, d2 = item.dice
    if item.declare == BACK:
        yield lambda state: state.apply(BACK)
    yield lambda state: state.roll(d1, d2)
    if item.search is not None:
        search = item.search
        yield lambda state: state.apply(search)
    while state.phase == "order" and not ordering:
        yield orders.next_step(state)


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


def _dive_end(item: CleanedUp, last: GameState, known: Mapping[int, int]) -> Iterator[str]:
    """How a dive ended in the position `last`, and who brought home or lost what."""
    yield f"dive {item.dive} ends: {REASONS[item.reason]}"
    for seat, chips in enumerate(item.banked):
        if chips:
            banked = " ".join(chip_text(chip, known) for chip in chips)
            yield f"  {SEAT_LETTERS[seat]} banked {banked}"
        elif last.cargo[seat]:
            lost = " ".join(unit.name for unit in last.cargo[seat])
            yield f"  {SEAT_LETTERS[seat]} lost {lost}"


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
    return _turn_line(seat, homeward, f"{dice:5}", origin, goal, item.air, deeds)


def _turn_line(
    seat: int, homeward: bool, dice: str, origin: str, goal: str, air: int, deeds: Sequence[str]
) -> str:
    mark = f"{SEAT_LETTERS[seat]}{ARROWS[homeward]}"
    return f"{mark} {dice}  {origin:>3} → {goal:<4}  air {air:<3} {', '.join(deeds)}".rstrip()


class Story:
    """Tells a game by the events that one viewer gets, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._trail: list[str] = []
        """What lies on each space, as far as the events say."""
        self._homeward: set[int] = set()

    def add(self, event: Event) -> None:
        """Tell what happened."""
        if event["event"] == "dive":
            self._trail, self._homeward = event["trail"].split(" "), set()
            starter = SEAT_LETTERS[event["starter"]]
            self.lines.append(f"dive {event['dive']}: {starter} begins, air {event['air']}")
        elif event["event"] == "turn":
            self.lines.append(self._turn(event))
        elif event["event"] == "cleanup":
            self.lines.append(f"dive {event['dive']} ends: {REASONS[event['reason']]}")
            for letter, chips in event["banked"].items():
                if chips:
                    self.lines.append(f"  {letter} banked {' '.join(chips)}")

    def _turn(self, event: TurnEvent) -> str:
        seat, to_space, search = event["seat"], event["to_space"], event["search"]
        deeds = ["turns back"] if event["declare"] == BACK else []
        if event["declare"] == BACK:
            self._homeward.add(seat)
        if search == TAKE:
            deeds.append(f"takes {self._trail[to_space - 1]}")
            self._trail[to_space - 1] = BLANK.name
        elif search is not None and search.startswith(DROP):
            self._trail[to_space - 1] = search.removeprefix(DROP)
            deeds.append(f"drops {self._trail[to_space - 1]}")
        dice = "+".join(map(str, event["dice"] or ()))
        goal = "home" if event["home"] else str(to_space or "sub")
        origin = str(event["from_space"] or "sub")
        homeward = seat in self._homeward
        return _turn_line(seat, homeward, f"{dice:3}", origin, goal, event["air"], deeds)


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
    lines = [tell_fault(*item) for item in enumerate(game.decisions) if item[1].fault is not None]
    return lines + tell_forfeits(game)


def tell_forfeits(game: Game) -> list[str]:
    """Who lost the right to decide."""
    return [f"{SEAT_LETTERS[forfeit.seat]} forfeited" for forfeit in game.forfeits]


def tell_fault(index: int, decision: Decision) -> str:
    """A decision with a fault."""
    came = f" ({decision.came})" if decision.came else ""
    return (
        f"{SEAT_LETTERS[decision.seat]} {decision.fault} at decision {index}{came}: "
        f"{decision.action} was played"
    )
