"""The engine: the moves of a position, its legal actions, and the step to the next dive.

Invariants: it moves by explicit actions and explicit dice and draws no number itself; trail, cargo
and banks together always have the same chips. `GameState` refuses an illegal move, which then
changes nothing; `UncheckedMoves` is for a caller that knows that a move is legal, such as a
roll-out that has just chosen it.

A state is mutable, because roll-outs copy and play thousands of them; use `clone` to look ahead.
"""

from __future__ import annotations

from collections.abc import Sequence

from . import cleanup
from .actions import BACK, BLANK, CHIPS, DOWN, LEAVE, TAKE, Unit, drop, split_order
from .errors import IllegalAction
from .events import CleanedUp, DiveBegan, EndReason, EngineEvent, TurnPlayed, new_tuple
from .position import Position, position_text
from .reasons import why_illegal
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
        """How the diver may face; empty if it has turned back already."""
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
        deeper = len(self.trail) - 1 - place
        # No two divers share a space, so it is enough to count.
        return deeper >= self.players or deeper > sum([other > place for other in self.place])

    def unchecked_declare(self, action: str | None) -> None:
        """Use the turn's air, and turn back or keep facing. Phase "declare", every turn.

        action  one of `legal`, or None for a diver that has turned back and has none: without this
                call its turn would use no air
        """
        seat = self.to_move
        self.air -= len(self.cargo[seat])
        if action == BACK:
            self.homeward[seat] = True
        elif len(self.legal) < 2:
            # To go on is only worth a note if there was a choice.
            action = None
        self._declared = action
        self.phase = "roll"
        self.legal = _NOTHING

    # Phase "roll": roll and move

    def unchecked_move(self, d1: int, d2: int) -> None:
        """Move the diver by what the dice show. Phase "roll"."""
        seat = self.to_move
        place = self.place
        origin = space = place[seat]
        load = len(self.cargo[seat])
        steps = d1 + d2 - load
        if steps > 0:
            space = self._up(origin, steps) if self.homeward[seat] else self._down(origin, steps)
            place[seat] = space
        self.quiet = self.quiet + 1 if space == origin and not load else 0
        self._dice = (d1, d2)
        self._origin = origin
        if space > ABOARD:
            self.phase = "search"
            self.legal = _LEAVE_TAKE if self.trail[space] else self._searches(seat, space)
        else:
            if space == HOME:
                self._bank_cargo(seat)
            self._end_turn(None)

    def _down(self, start: int, steps: int) -> int:
        """Where `steps` free spaces deeper lead; the deep end stops a diver."""
        taken = self.place
        place = space = start
        last = len(self.trail) - 1
        while space < last:
            space += 1
            if space not in taken:
                if steps == 1:
                    return space
                steps -= 1
                place = space
        return place

    def _up(self, start: int, steps: int) -> int:
        """Where `steps` free spaces homeward lead; the submarine stops a diver or keeps it out."""
        taken = self.place
        place = space = start
        while space > 1:
            space -= 1
            if space not in taken:
                if steps == 1:
                    return space
                steps -= 1
                place = space
        return place if self._kept_out() else HOME

    def _kept_out(self) -> bool:
        """Whether the submarine stays shut for the diver that reaches it now."""
        if self.rules.home_empty_handed == "allowed":
            return False
        seat = self.to_move
        if not self.cargo[seat]:
            self.barred[seat] = self.rules.barred_release == "never_this_dive"
            return True
        return self.barred[seat]

    def _bank_cargo(self, seat: int) -> None:
        self.bank[seat] += tuple([chip for unit in self.cargo[seat] for chip in unit])
        self.cargo[seat] = ()
        self.home_order += (seat,)

    # Phase "search": leave, take or drop

    def _searches(self, seat: int, space: int) -> tuple[str, ...]:
        """What the diver may do on its space."""
        if self.trail[space]:
            return _LEAVE_TAKE
        cargo = self.cargo[seat]
        if not cargo:
            return _LEAVE
        if len(cargo) == 1 and self.homeward[seat] and not self.rules.drop_last_after_turn:
            return _LEAVE
        return (LEAVE, *dict.fromkeys(map(drop, cargo)))

    def unchecked_search(self, action: str) -> None:
        """Leave, take or drop; the turn ends. Phase "search", an action of `legal`."""
        if action == TAKE:
            seat = self.to_move
            space = self.place[seat]
            unit = self.trail[space]
            self.trail[space] = BLANK
            self.cargo[seat] += (unit,)
            if unit in self.laid:
                self.laid -= {unit}
            self.quiet = 0
        elif action != LEAVE:
            seat = self.to_move
            cargo = self.cargo[seat]
            index = [*map(drop, cargo)].index(action)
            self.trail[self.place[seat]] = cargo[index]
            self.cargo[seat] = cargo[:index] + cargo[index + 1 :]
            self.quiet = 0
        self._end_turn(action)

    def _end_turn(self, search: str | None) -> None:
        seat = self.to_move
        place = self.place
        if self.log is not None:
            space = place[seat]
            home = space == HOME
            note = (
                self.dive,
                seat,
                self._declared,
                self._dice,
                self._origin,
                ABOARD if home else space,
                home,
                search,
                self.air,
            )
            self.log.append(new_tuple(TurnPlayed, note))
        players = self.players
        out = players - len(self.home_order)
        if not out or self.air <= 0 or self.quiet >= out:
            self._revealed = None
            self._lay()
        else:
            while True:
                seat += 1
                if seat == players:
                    seat = 0
                if place[seat] != HOME:
                    break
            self.to_move = seat
            self.phase = "declare"
            # Asked here, too, because half of all turns are on the way home.
            self.legal = _NOTHING if self.homeward[seat] else self._declarations(seat)

    # Phase "order", and on to the next dive

    def unchecked_order(self, action: str) -> None:
        """Settle in which order the stranded diver lays its items. Phase "order"."""
        seat = self.to_move
        # The chosen order becomes the cargo's order, so that a position says all there is to say.
        self.cargo[seat] = cleanup.in_order(self, seat, split_order(action))
        self._lay(after=seat)

    def _end_reason(self) -> EndReason:
        """Why the dive is over, in any position between its last turn and the next dive."""
        if len(self.home_order) == self.players:
            return "home"
        return "air" if self.air <= 0 else "stall"

    def _lay(self, after: int | None = None) -> None:
        """Ask the next stranded seat for its order, or lay all cargo and go on to the next dive."""
        if after is None:  # an order may make chips of stacks, and units are counted
            self.drowned += (tuple(map(len, self.cargo)),)
        laid = cleanup.laying(self)
        part = cleanup.next_choice(self, laid, after)
        if part is None:
            self._next_dive(laid)
        else:
            self.to_move = part.seat
            self.phase = "order"
            self.legal = cleanup.listed_orders(part)

    def _next_dive(self, laid: list[cleanup.Laid]) -> None:
        starter = cleanup.next_starter(self)
        cleanup.lay_and_close_gaps(self, laid)
        last = self.dive == DIVES or len(self.trail) == 1
        if self.log is not None:
            banks = zip(self.bank, self.banked_earlier, strict=True)
            self.log.append(
                CleanedUp(
                    self.dive,
                    self._end_reason(),
                    tuple(self.trail),
                    self.laid,
                    tuple([bank[earlier:] for bank, earlier in banks]),
                    None if last else starter,
                )
            )
        self._everybody_boards()
        self._revealed = None
        if last:
            self.phase = "over"
            self.legal = _NOTHING
        else:
            self.dive += 1
            self._begin_dive(starter)

    def _begin_dive(self, starter: int) -> None:
        self.air = FULL_AIR
        self.phase = "declare"
        self.to_move = starter
        self.legal = _DOWN
        if self.log is not None:
            self.log.append(DiveBegan(self.dive, starter, self.air, tuple(self.trail), self.laid))

    # In no phase

    def refresh(self) -> None:
        """Find out anew what is legal, after fields were set by hand."""
        seat = self.to_move
        if self.phase == "declare":
            self.legal = self._declarations(seat)
        elif self.phase == "search":
            self.legal = self._searches(seat, self.place[seat])
        elif self.phase == "order":
            parts = cleanup.laying(self)
            self.legal = cleanup.listed_orders(next(part for part in parts if part.seat == seat))
        else:
            self.legal = _NOTHING


class GameState(UncheckedMoves):
    """A position that plays on: `apply` an action, `roll` the dice, `clone` to look ahead.

    `print(state)` shows it in notation. Its fields are explained at `Position`.
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
        """The start of a game: 32 single chips, `values` indexed by chip id (33 long)."""
        state = cls(rules, values, players)
        state.trail += _SINGLE_CHIPS
        state.log = log
        state._begin_dive(starter)
        return state

    def legal_actions(self) -> tuple[str, ...]:
        """What the seat to move may do, the default action first.

        Empty where it has nothing to decide: before the dice, when the game is over, and before
        the declaration of a diver that has turned back already. In phase "order" at most
        `cleanup.LISTED_ORDERS` are listed, one for each way in which the piles can come out.
        """
        return self.legal

    def is_legal(self, action: str) -> bool:
        """Whether `apply` would take the action; an order may be legal without being listed."""
        if self.phase == "order":
            return cleanup.is_order(action, cleanup.items_of(self.rules, self.cargo[self.to_move]))
        return action in self.legal

    def apply(self, action: str) -> None:
        """Play an action of the seat to move.

        Raises `InvalidAction` if the text is no action, `IllegalAction` if it is not legal here.
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
        """What the dice showed in the turn in hand, or in the last one before they are rolled."""
        return self._dice

    def roll(self, d1: int, d2: int) -> None:
        """Roll the dice for the seat to move and move its diver.

        A diver that rolls without a declaration keeps its way, as all rule texts have it, unless
        it has to turn back.
        """
        phase = self.phase
        if phase not in ("declare", "roll"):
            raise IllegalAction(f"no roll is due: {self._whose_turn()}")
        if d1 not in FACES or d2 not in FACES:
            raise IllegalAction(f"a die shows 1, 2 or 3, not {d1} and {d2}")
        if phase == "declare":
            self.unchecked_declare(self.legal[0] if self.legal else None)
        self.unchecked_move(d1, d2)

    def points(self) -> tuple[int, ...]:
        """What the chips that each seat has brought home so far are worth together."""
        return points(self.bank, self.values)

    def result(self, forfeits: Sequence[int] = ()) -> Result:
        """Scores and placements of a finished game; see `scoring.final_result`."""
        if self.phase != "over":
            raise IllegalAction(f"the game is not over: {self._whose_turn()}")
        return final_result(self.rules.tiebreak, self.bank, self.values, forfeits)

    def __str__(self) -> str:
        """The position in notation, without secret values."""
        return position_text(self, self.revealed())

    def __repr__(self) -> str:
        return f"<GameState: {self}>"

    def _whose_turn(self) -> str:
        if self.phase == "over":
            return "the game is over"
        return f"seat {SEAT_LETTERS[self.to_move]} is in phase {self.phase}"

    def _why_not(self, action: str) -> str:
        legal = ", ".join(self.legal) or "nothing"
        why = why_illegal(self, action)
        return f"{action} is not legal: {why}; {self._whose_turn()} and may do {legal} in {self}"
