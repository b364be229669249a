"""Narration of a game: its positions, and the events in words.

Invariants: positions come from the engine alone, moved by the recorded choices and dice. Words name
a value only where `known` has it. Nothing here is random or waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from deepsea_rules.actions import BACK, BLANK, DROP, LEAVE, TAKE, kind_of
from deepsea_rules.events import (
    CleanedUp,
    CleanupEvent,
    DiveBegan,
    EngineEvent,
    Event,
    TurnEvent,
    TurnPlayed,
    event_for,
)
from deepsea_rules.game import Decision, Game, GameRecord
from deepsea_rules.position import Position
from deepsea_rules.ruleset import ABOARD, HOME, SEAT_LETTERS, RuleSet
from deepsea_rules.scoring import Result
from deepsea_rules.state import NO_TREASURE_NO_TURN, GameState, why_outside

ARROWS = "▼▲"
"""Marks of a diver's direction: down and homeward."""
REASONS = {
    "home": "everybody is home",
    "air": "the air ran out",
    "stall": "nobody moves any more",
}
"""Texts of the reasons why a dive ends."""


class NarratedPosition(NamedTuple):
    """A position to be shown, with the events before it in words."""

    turn: int
    """Number of turns that have been begun in the game."""
    state: GameState
    """The position.

    At the end of a dive it is that before the clean-up, with phase "order" or else "over".
    """
    dice: tuple[int, int] | None
    """The dice of the turn that is being played or was just played."""
    lines: tuple[str, ...]
    """The latest events in words; empty while a turn is still going on."""
    known: Mapping[int, int]
    """The values that may be shown, by chip id."""
    ended: CleanedUp | None
    """The end of a dive, at the position in which it ended."""


Step = Callable[[GameState], object]
"""Function that makes one step in a state."""
Knowing = Callable[[GameState], Mapping[int, int]]
"""Function that returns the values that a viewer knows in a position, by chip id."""


def title(record: GameRecord) -> str:
    """Return the game's id and rules as a title."""
    return f"game {record.game_id}, {record.rules.name} rules"


def names(record: GameRecord) -> list[str]:
    """Return the bots' names, seat A first."""
    return [seat.name for seat in record.seats]


class StepResult(NamedTuple):
    """Result of a step: the events between two positions."""

    events: Sequence[EngineEvent]
    before: GameState
    after: GameState
    """The position after it, but before the clean-up of a dive that it ended."""


class _Log(list[EngineEvent]):
    """Log of a state's events, with the position after a turn and before a clean-up."""

    def __init__(self, state: GameState) -> None:
        super().__init__()
        self._state = state
        self.turn_end: GameState | None = None

    def append(self, item: EngineEvent) -> None:
        super().append(item)
        if isinstance(item, TurnPlayed):
            self.turn_end = self._state.clone()


def make_step(state: GameState, step: Step) -> StepResult:
    """Make a step in a state, and return its events and the positions before and after it.

    If the step ends a dive, the position after it is that before the clean-up.
    """
    before = state.clone()
    log = _Log(state)
    state.log = log
    step(state)
    state.log = None
    # A step that ends a dive but no turn is a choice of order: no diver has moved in it before the
    # clean-up.
    after = log.turn_end or before
    return StepResult(log, before, after)


def moments(
    game: Game, knowing: Knowing | None = None, seat: int | None = None
) -> Iterator[NarratedPosition]:
    """Yield every position of a game: at each dive's beginning, after each roll and turn.

    A turn that ends a dive has two positions: before the clean-up, and after it.

    knowing  function of the values that the viewer knows; by default it knows every value
    seat     the viewer's seat: the lines name the rules that stop its diver
    """
    all_values = dict(enumerate(game.state.values))
    known_in = knowing or (lambda _: all_values)
    opening, *later_events = game.events
    assert isinstance(opening, DiveBegan)
    state = GameState.opening(game.rules, game.state.values, game.players, opening.starter)
    orders = _Orders(game.decisions)
    story = Story(game.rules, state, seat)
    turn, known = 0, known_in(state)
    lines = story.add(event_for(opening, known))
    yield NarratedPosition(turn, state.clone(), None, tuple(lines), known, None)
    for turn_event in later_events:
        if not isinstance(turn_event, TurnPlayed):
            continue
        turn += 1
        lines = []
        dice = turn_event.dice
        # While orders are being chosen after the last turn, none of them is shown.
        is_choosing_orders = game.state.phase == "order" and turn_event is later_events[-1]
        for step in _steps(turn_event, state, orders, leave_out_orders=is_choosing_orders):
            result = make_step(state, step)
            known = known_in(state)
            for event in result.events:
                lines += story.add(event_for(event, known))
                if isinstance(event, CleanedUp):
                    ended = result.after
                    if ended.phase != "order":
                        ended.phase = "over"
                    yield NarratedPosition(turn, ended, dice, tuple(lines), known, event)
                    dice, lines = None, []
            if state.phase == "search":
                yield NarratedPosition(turn, state.clone(), dice, (), known, None)
        if is_choosing_orders:
            state = game.state
        yield NarratedPosition(turn, state.clone(), dice, tuple(lines), known_in(state), None)
    if game.state.phase == "search":
        state = game.state.clone()
        yield NarratedPosition(turn + 1, state, state.rolled, (), known_in(state), None)


def _steps(
    turn_event: TurnPlayed, state: GameState, orders: _Orders, *, leave_out_orders: bool
) -> Iterator[Step]:
    """Yield the steps that play a turn again: declaration, roll, search, and orders after a dive.

    The caller makes each step in `state` before it asks for the next one.

    leave_out_orders  True while the game is still asking for orders, which are not all known then
    """
    assert turn_event.dice is not None
    d1, d2 = turn_event.dice
    if turn_event.declare == BACK:
        yield lambda state: state.apply(BACK)
    yield lambda state: state.roll(d1, d2)
    if turn_event.search is not None:
        search = turn_event.search
        yield lambda state: state.apply(search)
    if leave_out_orders:
        return
    while state.phase == "order":
        yield orders.next_step(state)


class _Orders:
    """Orders in which stranded divers laid their items: as decided, or as picked up."""

    def __init__(self, decisions: Sequence[Decision]) -> None:
        self._remaining: dict[int, deque[str]] = {}
        for decision in decisions:
            if kind_of(decision.action) == "order":
                self._remaining.setdefault(decision.seat, deque()).append(decision.action)

    def next_step(self, state: GameState) -> Step:
        """Return a step that plays the next order which the seat to move has decided.

        The order is used up. A seat that has forfeited has decided none: it plays the default
        action, pick-up order.
        """
        decided_orders = self._remaining.get(state.to_move)
        action = decided_orders.popleft() if decided_orders else state.legal_actions()[0]
        return lambda state: state.apply(action)


# Words


class Story:
    """Narrator of a game by the events that one viewer gets, in order."""

    def __init__(
        self, rules: RuleSet, position: Position | None = None, seat: int | None = None
    ) -> None:
        """Begin at a position, or without one at the first event, the beginning of a dive.

        seat  the reader's own seat, for which the rules that stop its diver are named
        """
        self._rules = rules
        self._seat = seat
        self._trail: list[str] = []
        """The name of the unit on each space."""
        self._homeward: set[int] = set()
        self._places: dict[int, int] = {}
        """The space of each diver that has left the submarine."""
        self._cargo: dict[int, list[str]] = {}
        """The names of the units that a seat carries."""
        if position is not None:
            self._trail = [unit.name for unit in position.trail[1:]]
            self._homeward = {seat for seat in range(position.players) if position.homeward[seat]}
            self._places = dict(enumerate(position.place))
            for owner, units in enumerate(position.cargo):
                self._cargo[owner] = [unit.name for unit in units]

    def add(self, event: Event) -> list[str]:
        """Return the lines that tell the next event; none for the end of the game.

        Trail, places and cargo are brought up to date, since the lines of later events need them.
        """
        if event["event"] == "dive":
            self._trail = [_name_in_trail(text) for text in event["trail"].split(" ")]
            self._homeward, self._places, self._cargo = set(), {}, {}
            starter = SEAT_LETTERS[event["starter"]]
            return [f"dive {event['dive']}: {starter} begins, air {event['air']}"]
        if event["event"] == "turn":
            # The rules that stopped the diver are found before the turn is carried out.
            rule_lines = []
            if event["seat"] == self._seat:
                rule_lines = [f"  {rule}" for rule in self._blocking_rules(event)]
            return [self._tell_turn(event), *rule_lines]
        if event["event"] == "cleanup":
            first_line = f"dive {event['dive']} ends: {REASONS[event['reason']]}"
            return [first_line, *self._cargo_lines(event)]
        return []

    def _blocking_rules(self, event: TurnEvent) -> Iterator[str]:
        """Yield the rules that kept the diver from turning back or from boarding in its turn.

        They depend on the places and the cargo before the turn.
        """
        seat, origin, dice = event["seat"], event["from_space"], event["dice"]
        if origin is None or dice is None:
            return
        cargo = self._cargo.get(seat, [])
        goes_home = seat in self._homeward or event["declare"] == BACK
        if not goes_home:
            if origin > ABOARD and self._rules.turn_needs_treasure and not cargo:
                yield NO_TREASURE_NO_TURN
        elif not event["home"]:  # still on its way home, or kept outside the submarine
            others = {place for other, place in self._places.items() if other != seat}
            steps = sum(dice) - len(cargo)
            rule = why_outside(self._rules, origin, others, steps, has_treasure=bool(cargo))
            if rule:
                yield rule

    def _tell_turn(self, event: TurnEvent) -> str:
        """Return a turn in one line, and carry out its changes to places, trail and cargo.

        The line has the diver, the dice less its load, the spaces from and to, the air and the
        actions.
        """
        seat, origin = event["seat"], event["from_space"]
        load = len(self._cargo.get(seat, []))
        dice = "+".join(map(str, event["dice"] or ()))
        if load:
            dice += f"-{load}"
        origin_text = "?" if origin is None else str(origin or "sub")
        destination = "home" if event["home"] else str(event["to_space"] or "sub")
        actions = self._carry_out(event)
        diver_mark = f"{SEAT_LETTERS[seat]}{ARROWS[seat in self._homeward]}"
        movement = (
            f"{diver_mark} {dice:5}  {origin_text:>3} → {destination:<4}  air {event['air']:<3}"
        )
        return f"{movement} {', '.join(actions)}".rstrip()

    def _carry_out(self, event: TurnEvent) -> list[str]:
        """Change places, trail and cargo as in a turn, and return the diver's actions in words."""
        seat, search = event["seat"], event["search"]
        cargo = self._cargo.setdefault(seat, [])
        index = event["to_space"] - 1  # `_trail` begins with space 1
        self._places[seat] = HOME if event["home"] else event["to_space"]
        actions = []
        if event["declare"] == BACK:
            self._homeward.add(seat)
            actions.append("turns back")
        if event["home"] and cargo:
            actions.append(f"brings {' '.join(cargo)}")
            cargo.clear()
        elif search == TAKE:
            actions.append(f"takes {self._trail[index]}")
            cargo.append(self._trail[index])
            self._trail[index] = BLANK.name
        elif search == LEAVE and self._trail[index] != BLANK.name:
            actions.append(f"leaves {self._trail[index]}")
        elif search is not None and search.startswith(DROP):
            self._trail[index] = search.removeprefix(DROP)
            actions.append(f"drops {self._trail[index]}")
            cargo.remove(self._trail[index])
        return actions

    def _cargo_lines(self, event: CleanupEvent) -> Iterator[str]:
        """Yield a line for each seat that banked or lost cargo in the dive that has ended."""
        for seat, (letter, banked_chips) in enumerate(event["banked"].items()):
            lost_units = self._cargo.get(seat, [])
            if banked_chips:
                yield f"  {letter} banked {' '.join(banked_chips)}"
            elif lost_units:
                yield f"  {letter} lost {' '.join(lost_units)}"


def _name_in_trail(text: str) -> str:
    """Return the name of a unit in the text of a trail, where a pile has braces."""
    chips = text.strip("{}")
    return f"[{chips}]" if len(chips) > 1 and text.startswith("{") else chips


def is_turn(line: str) -> bool:
    """Return True if a line tells a turn: it begins with a diver's mark."""
    return line[1:2] in ARROWS


def tell_end(result: Result, names: Sequence[str]) -> list[str]:
    """Return the lines of a game's final table: placement, seat, name and points, best first."""
    best_first = sorted(range(len(names)), key=lambda seat: result.placements[seat])
    return [
        f"{result.placements[seat]}. {SEAT_LETTERS[seat]} {names[seat]}  {result.points[seat]}"
        for seat in best_first
    ]


def tell_faults(game: Game) -> list[str]:
    """Return a line for each fault, and for each seat that has forfeited."""
    lines = [
        tell_fault(index, decision)
        for index, decision in enumerate(game.decisions)
        if decision.fault is not None
    ]
    return lines + tell_forfeits(game)


def tell_forfeits(game: Game) -> list[str]:
    """Return a line for each seat that has forfeited."""
    return [f"{SEAT_LETTERS[forfeit.seat]} forfeited" for forfeit in game.forfeits]


def tell_fault(index: int, decision: Decision) -> str:
    """Return a line that tells a fault: whose, which, what the bot did, and what was played.

    index  the number of the decision in the game, from 0
    """
    # `came` says what the bot did instead of deciding; some records lack it.
    did = f" ({decision.came})" if decision.came else ""
    return (
        f"{SEAT_LETTERS[decision.seat]} {decision.fault} at decision {index}{did}: "
        f"{decision.action} was played"
    )
