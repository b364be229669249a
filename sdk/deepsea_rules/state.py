"""The position of a game and its moves: the engine.

Laws: it moves by explicit actions and explicit dice and draws no number itself; whatever it refuses
raises and changes nothing; trail, cargo and banks together are the same chips at all times.

A state is mutable, because roll-outs copy and play thousands of them; `clone` is the way to look
ahead. Everything but `values` is public knowledge, and `view.py` decides who may see a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from . import cleanup
from .actions import DOWN, DROP, LEAVE, ORDER, TAKE, TURN, drop, kind_of, order, split_order
from .constants import ABOARD, DIVES, FACES, FULL_AIR, HOME, SEAT_LETTERS
from .errors import IllegalAction
from .events import CleanedUp, DiveBegan, EndReason, Happening, TurnPlayed
from .ruleset import RuleSet
from .scoring import Result, final_result
from .units import BLANK, CHIPS, Unit

Phase = Literal["turn", "roll", "search", "order", "over"]

_NOTHING: Final[tuple[str, ...]] = ()
_DOWN: Final = (DOWN,)
_TURN: Final = (TURN,)
_DOWN_TURN: Final = (DOWN, TURN)
_LEAVE: Final = (LEAVE,)
_LEAVE_TAKE: Final = (LEAVE, TAKE)


class GameState:
    """One position. Seats count from 0; lists have one entry per seat.

    rules       the rule set
    players     the number of seats
    dive, air   1 to 3; the true air, which may fall below 0
    phase       "turn" before the declaration (this turn's air is not used yet), "roll" before the
                dice, "search" after the move, "order" while stranded divers order their items,
                "over" at the end
    to_move     the seat whose declaration, roll, search or order is next
    quiet       consecutive turns in which air, positions and cargo stayed as they were
    trail       `trail[n]` is the unit on space n, `BLANK` if there is none; index 0 stands for the
                submarine
    laid        the piles that stranded divers laid and nobody has carried since
    place       `ABOARD`, the number of a space, or `HOME`
    homeward    who has turned back
    barred      who was stopped outside the submarine and stays out for this dive
    cargo       units in pick-up order
    bank        chips brought home, in order of return
    hauled      how many chips of `bank` are from earlier dives
    home_order  seats that got home in this dive, first one first
    values      the secret value of each chip, indexed by chip id
    log         where finished turns and dives are noted, or None
    """

    __slots__ = (
        "_declared",
        "_dice",
        "_ending",
        "_legal",
        "_origin",
        "air",
        "bank",
        "barred",
        "cargo",
        "dive",
        "hauled",
        "home_order",
        "homeward",
        "laid",
        "log",
        "phase",
        "place",
        "players",
        "quiet",
        "rules",
        "to_move",
        "trail",
        "values",
    )

    phase: Phase
    log: list[Happening] | None
    place: list[int]
    homeward: list[bool]
    barred: list[bool]
    cargo: list[tuple[Unit, ...]]
    home_order: tuple[int, ...]
    hauled: tuple[int, ...]
    # How the turn in hand began, for the log, and why the dive in hand ended.
    _declared: str | None
    _dice: tuple[int, int] | None
    _origin: int | None
    _ending: EndReason
    # What `legal_actions` found for this position, until it changes.
    _legal: tuple[str, ...] | None

    def __init__(self, rules: RuleSet, values: tuple[int, ...], players: int) -> None:
        """An empty sea, everybody aboard; `opening` gives the start of a game."""
        self.rules = rules
        self.values = values
        self.players = players
        self.dive = 1
        self.air = FULL_AIR
        self.phase = "turn"
        self.to_move = 0
        self.quiet = 0
        self.trail: list[Unit] = [BLANK]
        self.laid: frozenset[Unit] = frozenset()
        self.bank: list[tuple[int, ...]] = [()] * players
        self.log = None
        self._ending = "home"
        self._legal = None
        self._everybody_boards()
        self._forget_turn()

    @classmethod
    def opening(
        cls,
        rules: RuleSet,
        values: tuple[int, ...],
        players: int,
        starter: int,
        log: list[Happening] | None = None,
    ) -> GameState:
        """The start of a game: 32 single chips, `values` indexed by chip id (33 long)."""
        state = cls(rules, values, players)
        state.trail += [Unit((chip,)) for chip in CHIPS]
        state.log = log
        state._begin_dive(starter)
        return state

    def clone(self) -> GameState:
        """An independent copy without a log."""
        new = GameState.__new__(GameState)
        new.rules = self.rules
        new.values = self.values
        new.players = self.players
        new.dive = self.dive
        new.air = self.air
        new.phase = self.phase
        new.to_move = self.to_move
        new.quiet = self.quiet
        new.trail = self.trail.copy()
        new.laid = self.laid
        new.place = self.place.copy()
        new.homeward = self.homeward.copy()
        new.barred = self.barred.copy()
        new.cargo = self.cargo.copy()
        new.bank = self.bank.copy()
        new.hauled = self.hauled
        new.home_order = self.home_order
        new.log = None
        new._ending = self._ending
        new._legal = self._legal
        new._declared = self._declared
        new._dice = self._dice
        new._origin = self._origin
        return new

    # What is legal

    def legal_actions(self) -> tuple[str, ...]:
        """What the seat to move may do, the default action first.

        Empty where it has nothing to decide: before the dice, when the game is over, and before
        the declaration of a diver that has turned back already. In phase "order" at most
        `cleanup.LISTED_ORDERS` are listed, one for each way in which the piles can come out.
        """
        legal = self._legal
        if legal is None:
            phase = self.phase
            if phase == "search":
                legal = self._searches()
            elif phase == "turn":
                legal = self._declarations()
            elif phase == "order":
                orders = cleanup.listed_orders(self, self.to_move)
                legal = tuple(order(items) for items in orders)
            else:
                legal = _NOTHING
            self._legal = legal
        return legal

    def is_legal(self, action: str) -> bool:
        """Whether `apply` would take the action; an order may be legal without being listed."""
        if self.phase == "order":
            names = sorted(item.name for item in self._items())
            return action.startswith(ORDER) and sorted(split_order(action)) == names
        return action in self.legal_actions()

    def _declarations(self) -> tuple[str, ...]:
        seat = self.to_move
        if self.homeward[seat]:
            return _NOTHING
        if self.place[seat] == ABOARD:
            return _DOWN
        rules = self.rules
        if rules.forced_turn == "when_cannot_advance" and not self._free_space_deeper(seat):
            return _TURN
        if rules.turn_needs_treasure and not self.cargo[seat]:
            return _DOWN
        return _DOWN_TURN

    def _free_space_deeper(self, seat: int) -> bool:
        taken = self.place
        return any(space not in taken for space in range(taken[seat] + 1, len(self.trail)))

    def _searches(self) -> tuple[str, ...]:
        seat = self.to_move
        if self.trail[self.place[seat]]:
            return _LEAVE_TAKE
        cargo = self.cargo[seat]
        if not cargo:
            return _LEAVE
        if len(cargo) == 1 and self.homeward[seat] and not self.rules.drop_last_after_turn:
            return _LEAVE
        return (LEAVE, *dict.fromkeys(map(drop, cargo)))

    def _items(self) -> tuple[Unit, ...]:
        return cleanup.items_of(self.rules, self.cargo[self.to_move])

    # Moves

    def apply(self, action: str) -> None:
        """Play an action of the seat to move.

        Raises `InvalidAction` if the text is no action, `IllegalAction` if it is not legal here.
        """
        if self.phase == "order":
            self._apply_order(action)
            return
        if action not in self.legal_actions():
            kind_of(action)
            raise IllegalAction(self._why_not(action))
        if self.phase == "turn":
            self._declare(action)
        else:
            self._search(action)

    def roll(self, d1: int, d2: int) -> None:
        """Roll the dice for the seat to move and move its diver.

        A diver that rolls without a declaration keeps its way, as all rule texts have it, unless
        it has to turn back.
        """
        if self.phase not in ("turn", "roll"):
            raise IllegalAction(f"no roll is due: {self._whose_turn()}")
        if d1 not in FACES or d2 not in FACES:
            raise IllegalAction(f"a die shows 1, 2 or 3, not {d1} and {d2}")
        if self.phase == "turn":
            legal = self.legal_actions()
            self._declare(legal[0] if legal else None)
        seat = self.to_move
        self._legal = None
        self._dice = (d1, d2)
        origin = self._origin = self.place[seat]
        load = len(self.cargo[seat])
        steps = d1 + d2 - load
        if steps > 0:
            self.place[seat] = self._up(seat, steps) if self.homeward[seat] else self._down(steps)
        place = self.place[seat]
        self.quiet = self.quiet + 1 if place == origin and not load else 0
        if place > ABOARD:
            self.phase = "search"
        else:
            if place == HOME:
                self._bank_cargo(seat)
            self._end_turn(None)

    def _declare(self, action: str | None) -> None:
        seat = self.to_move
        self.air -= len(self.cargo[seat])
        if action == TURN:
            self.homeward[seat] = True
            self._declared = TURN
        elif action == DOWN and self.log is not None:
            # Only worth a note if there was a choice.
            self._declared = DOWN if len(self.legal_actions()) > 1 else None
        self.phase = "roll"
        self._legal = None

    def _down(self, steps: int) -> int:
        """Where `steps` free spaces deeper lead the diver to move; the deep end stops it."""
        taken = self.place
        place = space = taken[self.to_move]
        last = len(self.trail) - 1
        while steps and space < last:
            space += 1
            if space not in taken:
                place = space
                steps -= 1
        return place

    def _up(self, seat: int, steps: int) -> int:
        """Where `steps` free spaces homeward lead; the submarine stops a diver or keeps it out."""
        taken = self.place
        place = space = taken[seat]
        while steps:
            space -= 1
            if space == ABOARD:
                return place if self._kept_out(seat) else HOME
            if space not in taken:
                place = space
                steps -= 1
        return place

    def _kept_out(self, seat: int) -> bool:
        """Whether the submarine stays shut for a diver that reaches it now."""
        if self.rules.home_empty_handed == "allowed":
            return False
        if not self.cargo[seat]:
            self.barred[seat] = self.rules.barred_release == "never_this_dive"
            return True
        return self.barred[seat]

    def _bank_cargo(self, seat: int) -> None:
        self.bank[seat] += tuple(chip for unit in self.cargo[seat] for chip in unit)
        self.cargo[seat] = ()
        self.home_order += (seat,)

    def _search(self, action: str) -> None:
        seat = self.to_move
        self._legal = None
        space = self.place[seat]
        if action == TAKE:
            unit = self.trail[space]
            self.trail[space] = BLANK
            self.cargo[seat] += (unit,)
            if unit in self.laid:
                self.laid -= {unit}
            self.quiet = 0
        elif action != LEAVE:
            name = action.removeprefix(DROP)
            cargo = list(self.cargo[seat])
            unit = next(unit for unit in cargo if unit.name == name)
            cargo.remove(unit)
            self.trail[space] = unit
            self.cargo[seat] = tuple(cargo)
            self.quiet = 0
        self._end_turn(action)

    def _end_turn(self, search: str | None) -> None:
        if self.log is not None:
            seat = self.to_move
            place = self.place[seat]
            home = place == HOME
            self.log.append(
                TurnPlayed(
                    self.dive,
                    seat,
                    self._declared,
                    self._dice,
                    self._origin,
                    ABOARD if home else place,
                    home,
                    search,
                    self.air,
                )
            )
            self._forget_turn()
        out = self.players - len(self.home_order)
        if not out:
            self._end_dive("home")
        elif self.air <= 0:
            self._end_dive("air")
        elif self.quiet >= out:
            self._end_dive("stall")
        else:
            seat = self.to_move
            while True:
                seat = (seat + 1) % self.players
                if self.place[seat] != HOME:
                    break
            self.to_move = seat
            self.phase = "turn"

    # Between dives

    def _end_dive(self, reason: EndReason) -> None:
        self._ending = reason
        self._ask_orders(cleanup.laying_sequence(self))

    def _ask_orders(self, seats: Sequence[int]) -> None:
        """Ask the first of these stranded seats that has a choice, or go on to the next dive."""
        for seat in seats:
            if cleanup.has_choice(self, seat):
                self.to_move = seat
                self.phase = "order"
                return
        self._next_dive()

    def _apply_order(self, action: str) -> None:
        if not self.is_legal(action):
            kind_of(action)
            raise IllegalAction(self._why_not(action))
        seat = self.to_move
        # The chosen order becomes the cargo's order, so that a position says all there is to say.
        self.cargo[seat] = cleanup.in_order(self, seat, split_order(action))
        self._legal = None
        sequence = cleanup.laying_sequence(self)
        self._ask_orders(sequence[sequence.index(seat) + 1 :])

    def _next_dive(self) -> None:
        starter = cleanup.next_starter(self)
        cleanup.lay_and_close_gaps(self)
        last = self.dive == DIVES or len(self.trail) == 1
        if self.log is not None:
            self.log.append(
                CleanedUp(
                    self.dive,
                    self._ending,
                    tuple(self.trail),
                    self.laid,
                    tuple(self.bank[seat][self.hauled[seat] :] for seat in range(self.players)),
                    None if last else starter,
                )
            )
        self._everybody_boards()
        if last:
            self.phase = "over"
        else:
            self.dive += 1
            self._begin_dive(starter)

    def _begin_dive(self, starter: int) -> None:
        self.air = FULL_AIR
        self.phase = "turn"
        self.to_move = starter
        if self.log is not None:
            self.log.append(DiveBegan(self.dive, starter, self.air, tuple(self.trail), self.laid))

    def _everybody_boards(self) -> None:
        players = self.players
        self.place = [ABOARD] * players
        self.homeward = [False] * players
        self.barred = [False] * players
        self.cargo = [()] * players
        self.home_order = ()
        self.hauled = tuple(map(len, self.bank))
        self.quiet = 0

    def _forget_turn(self) -> None:
        self._declared = None
        self._dice = None
        self._origin = None

    # Results

    def result(self) -> Result:
        """Scores and placements of a finished game, nobody having forfeited."""
        if self.phase != "over":
            raise IllegalAction(f"the game is not over: {self._whose_turn()}")
        return final_result(self.rules.tiebreak, self.bank, self.values)

    # Words for errors

    def _whose_turn(self) -> str:
        if self.phase == "over":
            return "the game is over"
        return f"seat {SEAT_LETTERS[self.to_move]} is in phase {self.phase}"

    def _why_not(self, action: str) -> str:
        from .notation import format_position

        legal = ", ".join(self.legal_actions()) or "nothing"
        return (
            f"{action} is not legal: {self._whose_turn()} and may do {legal} "
            f"in {format_position(self)}"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GameState):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _COMPARED)

    __hash__ = None  # type: ignore[assignment]


_COMPARED = tuple(
    name for name in GameState.__slots__ if not name.startswith("_") and name != "log"
)
