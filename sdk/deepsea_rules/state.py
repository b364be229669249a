"""The engine: moves, legal actions, the step to the next dive; and reasons for refusals in words.

Invariants: it moves by explicit actions and explicit dice and draws no number itself. Trail, cargo
and banks together always have the same chips. `GameState` refuses an illegal move, which then
changes nothing; `UncheckedMoves` is for a caller that knows that a move is legal, such as a
roll-out that has just chosen it.

A state is mutable, because roll-outs copy and play thousands of them; use `clone` to look ahead.

The engine decides what is legal. `why_illegal` and `why_outside` only explain it in words, and no
decision depends on them. A reason that follows from an option of the rules names the option, so
that it can be looked up in docs/rules.md.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from . import cleanup
from .actions import BACK, BLANK, CHIPS, DOWN, LEAVE, TAKE, Unit, drop, kind_of, split_order
from .cleanup import items_of
from .errors import IllegalAction
from .events import CleanedUp, DiveBegan, EndReason, EngineEvent, TurnPlayed, new_tuple
from .position import Position, position_text
from .ruleset import ABOARD, DIVES, FACES, FULL_AIR, HOME, SEAT_LETTERS, RuleSet
from .scoring import Result, final_result, points

_NOTHING: tuple[str, ...] = ()
_DOWN = (DOWN,)
_BACK = (BACK,)
_DOWN_BACK = (DOWN, BACK)
_LEAVE = (LEAVE,)
_LEAVE_TAKE = (LEAVE, TAKE)
_SINGLE_CHIPS = tuple([Unit((chip,)) for chip in CHIPS])


class UncheckedMoves(Position):
    """A position and its moves without checks; `GameState` has the checked ones.

    Each move belongs to one phase, see `Position.phase`. In another phase, or with an illegal
    action, it raises nothing and leaves a position that no game can have. `GameState.roll` makes
    two of them, `unchecked_declare` and `unchecked_move`.
    """

    __slots__ = ()

    # Phase "declare": breathe and declare

    def _declarations(self, seat: int) -> tuple[str, ...]:
        """Return the legal declarations of a seat's diver at the start of its turn.

        It may go down or turn back, unless the rules allow only one of the two. A diver that has
        turned back already has nothing to declare: there are none.
        """
        if self.homeward[seat]:
            return _NOTHING
        place = self.place[seat]
        if place == ABOARD:
            return _DOWN
        rules = self.rules
        if rules.forced_turn == "when_cannot_advance" and not self._free_space_below(place):
            return _BACK
        if rules.turn_needs_treasure and not self.cargo[seat]:
            return _DOWN
        return _DOWN_BACK

    def _free_space_below(self, place: int) -> bool:
        """Return True if some space deeper than `place` has no diver on it."""
        spaces_below = len(self.trail) - 1 - place
        # No two divers share a space, so it is enough to count both.
        if spaces_below >= self.players:  # nearly always, so checked first
            return True
        divers_below = sum([other > place for other in self.place])
        return spaces_below > divers_below

    def unchecked_declare(self, action: str | None) -> None:
        """Begin a turn: use its air, and turn the diver back if it declares that. Phase "declare".

        Every turn begins with it, even if the diver has turned back already and has nothing to
        declare.

        action  one of `legal`; None if there is none
        """
        seat = self.to_move
        self.air -= len(self.cargo[seat])
        if action == BACK:
            self.homeward[seat] = True
        elif len(self.legal) < 2:
            # In the log, a diver that had no choice but to go down has declared nothing.
            action = None
        self._declared = action
        self.phase = "roll"
        self.legal = _NOTHING

    # Phase "roll": roll and move

    def unchecked_move(self, d1: int, d2: int) -> None:
        """Move the diver by the faces of the two dice, less its load. Phase "roll".

        On a space, the next phase is "search". In the submarine and at home there is nothing to
        search, so the turn ends at once.
        """
        seat = self.to_move
        place = self.place
        origin = space = place[seat]
        load = len(self.cargo[seat])
        steps = d1 + d2 - load
        if steps > 0:
            space = self._up(origin, steps) if self.homeward[seat] else self._down(origin, steps)
            place[seat] = space
        # Turns in a row in which nothing changed: no move, and without cargo no air used.
        self.quiet_turns = self.quiet_turns + 1 if space == origin and not load else 0
        self._dice = (d1, d2)
        self._origin = origin
        if space > ABOARD:
            self.phase = "search"
            self.legal = _LEAVE_TAKE if self.trail[space] else self._search_actions(seat, space)
        else:
            if space == HOME:
                self._bank_cargo(seat)
            self._end_turn(None)

    def _down(self, start: int, steps: int) -> int:
        """Return the place of a diver after `steps` down from `start`; other divers are skipped.

        A diver stops on the last free space if the trail ends before.
        """
        occupied = self.place
        last_free = space = start
        last_space = len(self.trail) - 1
        while space < last_space:
            space += 1
            if space not in occupied:
                if steps == 1:
                    return space
                steps -= 1
                last_free = space
        return last_free

    def _up(self, start: int, steps: int) -> int:
        """Return the place of a diver after `steps` up from `start`; other divers are skipped.

        It is HOME if the diver enters the submarine. A diver that may not enter stops on the last
        free space before it.
        """
        occupied = self.place
        last_free = space = start
        while space > 1:
            space -= 1
            if space not in occupied:
                if steps == 1:
                    return space
                steps -= 1
                last_free = space
        return last_free if self._refuse_entry() else HOME

    def _refuse_entry(self) -> bool:
        """Return True if the diver to move, which has reached the submarine, may not enter.

        Without cargo it may not, unless the rules allow it. Some rules also bar such a diver for
        the rest of the dive, even if it has cargo later: this is stored here.
        """
        if self.rules.home_empty_handed == "allowed":
            return False
        seat = self.to_move
        if not self.cargo[seat]:
            self.barred[seat] = self.rules.barred_release == "never_this_dive"
            return True
        return self.barred[seat]

    def _bank_cargo(self, seat: int) -> None:
        """Bank the cargo of a seat that has come home."""
        self.bank[seat] += tuple([chip for unit in self.cargo[seat] for chip in unit])
        self.cargo[seat] = ()
        self.home_order += (seat,)

    # Phase "search": leave, take or drop

    def _search_actions(self, seat: int, space: int) -> tuple[str, ...]:
        """Return the legal actions of a diver on a space: leave, and take or drop.

        On a unit it may take that; on a blank it may drop one of its units.
        """
        if self.trail[space]:
            return _LEAVE_TAKE
        cargo = self.cargo[seat]
        if not cargo:
            return _LEAVE
        # Some rules do not let a diver on its way home drop its last unit.
        if len(cargo) == 1 and self.homeward[seat] and not self.rules.drop_last_after_turn:
            return _LEAVE
        # Units with one name are one action, so each is listed once.
        return (LEAVE, *dict.fromkeys(map(drop, cargo)))

    def unchecked_search(self, action: str) -> None:
        """Leave, take a unit or drop one, and end the turn. Phase "search".

        action  one of `legal`
        """
        if action == TAKE:
            seat = self.to_move
            space = self.place[seat]
            unit = self.trail[space]
            self.trail[space] = BLANK
            self.cargo[seat] += (unit,)
            if unit in self.laid:  # once carried, it is no pile of stranded cargo any more
                self.laid -= {unit}
            self.quiet_turns = 0  # something has changed in this turn
        elif action != LEAVE:
            seat = self.to_move
            cargo = self.cargo[seat]
            # The drop action names a unit: of several with that name the first is dropped.
            drop_actions = [*map(drop, cargo)]
            index = drop_actions.index(action)
            self.trail[self.place[seat]] = cargo[index]
            self.cargo[seat] = cargo[:index] + cargo[index + 1 :]
            self.quiet_turns = 0
        self._end_turn(action)

    def _end_turn(self, search: str | None) -> None:
        """End the turn: log it, and go on to the next seat, or to the end of the dive.

        search  the action of the search, None if the diver is in the submarine
        """
        seat = self.to_move
        place = self.place
        if self.log is not None:
            space = place[seat]
            is_home = space == HOME
            fields = (
                self.dive,
                seat,
                self._declared,
                self._dice,
                self._origin,
                ABOARD if is_home else space,
                is_home,
                search,
                self.air,
            )
            self.log.append(new_tuple(TurnPlayed, fields))
        players = self.players
        # A dive ends without divers, without air, or after a round in which nothing changed.
        out = players - len(self.home_order)
        if not out or self.air <= 0 or self.quiet_turns >= out:
            self._revealed = None
            self._ask_orders_or_lay()
        else:
            while True:
                seat += 1
                if seat == players:
                    seat = 0
                if place[seat] != HOME:
                    break
            self.to_move = seat
            self.phase = "declare"
            # `_declarations` would return the same; half of all turns are on the way home.
            self.legal = _NOTHING if self.homeward[seat] else self._declarations(seat)

    # Phase "order", and on to the next dive

    def unchecked_order(self, action: str) -> None:
        """Choose the order in which the stranded diver to move lays its items. Phase "order"."""
        seat = self.to_move
        # The cargo gets the chosen order, so that the position holds the choice.
        self.cargo[seat] = cleanup.in_order(self, seat, split_order(action))
        self._ask_orders_or_lay(after=seat)

    def _end_reason(self) -> EndReason:
        """Return why the dive is over, in any position between its last turn and the next dive."""
        if len(self.home_order) == self.players:
            return "home"
        return "air" if self.air <= 0 else "stall"

    def _ask_orders_or_lay(self, after: int | None = None) -> None:
        """Ask the next stranded seat for its order, or lay all cargo and go on to the next dive.

        after  the seat that has just chosen its order; None right after the last turn of the dive
        """
        if after is None:
            # Count the lost units of each seat before orders take stacks apart into chips.
            self.drowned += (tuple(map(len, self.cargo)),)
        stranded = cleanup.stranded_items(self)
        items_to_order = cleanup.next_choice(self, stranded, after)
        if items_to_order is None:
            self._next_dive(stranded)
        else:
            self.to_move = items_to_order.seat
            self.phase = "order"
            self.legal = cleanup.listed_orders(items_to_order)

    def _next_dive(self, stranded: list[cleanup.LaidItems]) -> None:
        """Lay the stranded cargo, and begin the next dive or end the game.

        The game ends after dive 3, or if all chips have been brought home.
        """
        starter = cleanup.next_starter(self)  # by the places before all divers board
        cleanup.lay_and_close_gaps(self, stranded)
        is_over = self.dive == DIVES or len(self.trail) == 1  # 1: only the submarine is left
        if self.log is not None:
            banks = zip(self.bank, self.banked_earlier, strict=True)
            chips_of_this_dive = tuple([bank[earlier:] for bank, earlier in banks])
            self.log.append(
                CleanedUp(
                    self.dive,
                    self._end_reason(),
                    tuple(self.trail),
                    self.laid,
                    chips_of_this_dive,
                    None if is_over else starter,
                )
            )
        self._everybody_boards()
        self._revealed = None
        if is_over:
            self.phase = "over"
            self.legal = _NOTHING
        else:
            self.dive += 1
            self._begin_dive(starter)

    def _begin_dive(self, starter: int) -> None:
        """Begin a dive with the turn of the seat `starter`; all divers are in the submarine."""
        self.air = FULL_AIR
        self.phase = "declare"
        self.to_move = starter
        self.legal = _DOWN
        if self.log is not None:
            self.log.append(DiveBegan(self.dive, starter, self.air, tuple(self.trail), self.laid))

    # In no phase

    def refresh(self) -> None:
        """Set `legal` for the seat to move, after other fields were changed from outside."""
        seat = self.to_move
        if self.phase == "declare":
            self.legal = self._declarations(seat)
        elif self.phase == "search":
            self.legal = self._search_actions(seat, self.place[seat])
        elif self.phase == "order":
            items_of_seat = {laid.seat: laid for laid in cleanup.stranded_items(self)}
            self.legal = cleanup.listed_orders(items_of_seat[seat])
        else:
            self.legal = _NOTHING


class GameState(UncheckedMoves):
    """A position that plays on: `apply` an action, `roll` the dice, `clone` to look ahead.

    `print(state)` shows it in notation. `Position` documents its fields.
    """

    __slots__ = ()

    @classmethod
    def opening(
        cls,
        rules: RuleSet,
        values: tuple[int, ...],
        players: int,
        starter: int,
        log: list[EngineEvent] | None = None,
    ) -> GameState:
        """Return the start of a game: all divers in the submarine, and a trail of 32 single chips.

        values  of the chips, indexed by chip id; index 0 is unused
        log     list to which events are appended; None for no log
        """
        state = cls(rules, values, players)
        state.trail += _SINGLE_CHIPS
        state.log = log
        state._begin_dive(starter)
        return state

    def legal_actions(self) -> tuple[str, ...]:
        """Return the legal actions of the seat to move, the default action first.

        There are none if it has nothing to decide: before the dice, when the game is over, and at
        the start of a turn of a diver that has turned back already. In phase "order" not all orders
        are listed, but one for each way in which the piles can come out, up to
        `cleanup.LISTED_ORDERS`; `is_legal` knows the others.
        """
        return self.legal

    def is_legal(self, action: str) -> bool:
        """Return True if `apply` accepts the action; an order may be legal without being listed."""
        if self.phase == "order":
            return cleanup.is_order(action, cleanup.items_of(self.rules, self.cargo[self.to_move]))
        return action in self.legal

    def apply(self, action: str) -> None:
        """Play an action of the seat to move.

        Raise `InvalidAction` if the text is no action, `IllegalAction` if it is not legal here.
        """
        if action not in self.legal and not self.is_legal(action):
            raise IllegalAction(self._why_not(action))
        self.unchecked_apply(action)

    def unchecked_apply(self, action: str) -> None:
        """Play an action that is known to be legal."""
        phase = self.phase
        if phase == "search":
            self.unchecked_search(action)
        elif phase == "declare":
            self.unchecked_declare(action)
        else:
            self.unchecked_order(action)

    @property
    def rolled(self) -> tuple[int, int] | None:
        """The two dice of this turn, or of the last turn before this one is rolled."""
        return self._dice

    def roll(self, d1: int, d2: int) -> None:
        """Move the diver of the seat to move by the faces of two dice.

        In phase "declare" the default is declared first: the diver keeps its direction, as in all
        rule texts, unless it has to turn back. Raise `IllegalAction` if no roll is due.
        """
        phase = self.phase
        if phase not in ("declare", "roll"):
            raise IllegalAction(f"no roll is due: {self._whose_turn()}")
        if d1 not in FACES or d2 not in FACES:
            raise IllegalAction(f"a die shows 1, 2 or 3, not {d1} and {d2}")
        if phase == "declare":
            default_action = self.legal[0] if self.legal else None
            self.unchecked_declare(default_action)
        self.unchecked_move(d1, d2)

    def points(self) -> tuple[int, ...]:
        """Return for each seat the points of the chips that it has brought home so far."""
        return points(self.bank, self.values)

    def result(self, forfeits: Sequence[int] = ()) -> Result:
        """Return points and placements of a finished game; see `scoring.final_result`."""
        if self.phase != "over":
            raise IllegalAction(f"the game is not over: {self._whose_turn()}")
        return final_result(self.rules.tiebreak, self.bank, self.values, forfeits)

    def __str__(self) -> str:
        """Return the position in notation, without secret values."""
        return position_text(self, self.revealed())

    def __repr__(self) -> str:
        return f"<GameState: {self}>"

    def _whose_turn(self) -> str:
        """Return a clause that says who is to move in which phase."""
        if self.phase == "over":
            return "the game is over"
        return f"seat {SEAT_LETTERS[self.to_move]} is in phase {self.phase}"

    def _why_not(self, action: str) -> str:
        """Return the message for an action that is not legal."""
        legal = ", ".join(self.legal) or "nothing"
        reason = why_illegal(self, action)
        return f"{action} is not legal: {reason}; {self._whose_turn()} and may do {legal} in {self}"


NO_TREASURE_NO_TURN = "only a diver with treasure may turn back (turn_needs_treasure)"
NO_TREASURE_NO_ENTRY = "a diver without treasure may not board (home_empty_handed)"
OUT_FOR_THIS_DIVE = "a diver that was turned away stays out for this dive (barred_release)"


def why_illegal(position: Position, action: str) -> str:
    """Return the reason, in words, why an action is not legal for the seat to move.

    Call it only for an action that is not. Raise `InvalidAction` for a text that is no action.
    """
    kind, phase = kind_of(action), position.phase
    if phase == "over":
        return "the game is over"
    if phase == "roll" or (phase == "declare" and not position.legal):
        return "the dice are next"
    if kind != phase:
        return {
            "declare": "the diver declares before it rolls",
            "search": "a space is searched after the move",
            "order": "cargo is ordered when the dive has ended",
        }[kind]
    if phase == "declare":
        return _why_not_declare(position, action)
    if phase == "search":
        return _why_not_search(position, action)
    items = items_of(position.rules, position.cargo[position.to_move])
    return f"an order names each item once: {','.join(item.name for item in items)}"


def why_outside(
    rules: RuleSet, origin: int, others: Container[int], steps: int, *, has_treasure: bool
) -> str | None:
    """Return the rule that kept a homeward diver outside the submarine, in words.

    None if no rule did: the diver was too far away.

    origin        its place before the move
    others        the places of the other divers
    steps         the sum of its dice, less its load
    has_treasure  True if it carries a unit
    """
    if rules.home_empty_handed != "barred":
        return None  # these rules let every diver enter
    # Spaces of other divers are skipped. One step more than the free spaces leads into the
    # submarine.
    free_spaces = sum(space not in others for space in range(1, origin))
    if steps <= free_spaces:
        return None
    # A diver with treasure is only kept outside if it came without any before, in this dive.
    return OUT_FOR_THIS_DIVE if has_treasure else NO_TREASURE_NO_ENTRY


def _why_not_declare(position: Position, action: str) -> str:
    """Return the reason, in words, why the diver to move may not declare this."""
    if action == DOWN:
        return "a diver with no free space deeper has to turn back (forced_turn)"
    if position.place[position.to_move] == ABOARD:
        return "a diver in the submarine goes down first"
    return NO_TREASURE_NO_TURN


def _why_not_search(position: Position, action: str) -> str:
    """Return the reason, in words, why the diver to move may not take or drop this."""
    seat = position.to_move
    cargo = position.cargo[seat]
    if action == TAKE:
        return "nothing lies on a blank"
    if position.trail[position.place[seat]]:
        return "a unit is dropped on a blank only, and here lies one"
    if action not in map(drop, cargo):
        return f"the diver carries {' '.join(unit.name for unit in cargo) or 'nothing'}"
    return "having turned back, a diver keeps its last unit (drop_last_after_turn)"
