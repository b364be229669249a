"""The engine: a position of a game, and its moves with checks.

Invariants: it moves by explicit actions and explicit dice and draws no number itself; a refused
move raises and changes nothing.

A state is mutable, because roll-outs copy and play thousands of them; use `clone` to look ahead.
What a position has is in `position.py`, its moves without checks are in `moves.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .actions import kind_of
from .cleanup import is_order, items_of
from .constants import FACES, SEAT_LETTERS
from .errors import IllegalAction
from .events import Happening
from .moves import UncheckedMoves
from .position import Phase as Phase
from .position_text import position_text
from .ruleset import RuleSet
from .scoring import Result, final_result, points
from .units import CHIPS, Unit

_SINGLE_CHIPS: Final = tuple([Unit((chip,)) for chip in CHIPS])


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
        log: list[Happening] | None = None,
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
            return is_order(action, items_of(self.rules, self.cargo[self.to_move]))
        return action in self.legal

    def apply(self, action: str) -> None:
        """Play an action of the seat to move.

        Raises `InvalidAction` if the text is no action, `IllegalAction` if it is not legal here.
        """
        if action not in self.legal and not self.is_legal(action):
            kind_of(action)
            raise IllegalAction(self._why_not(action))
        phase = self.phase
        if phase == "search":
            self.unchecked_search(action)
        elif phase == "declare":
            self.unchecked_declare(action)
        else:
            self.unchecked_order(action)

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
        return f"{action} is not legal: {self._whose_turn()} and may do {legal} in {self}"
