"""The luck of finished games: how far chance moved a lead, by an evaluation.

Invariants: a chance event is a roll, with its five sums, or the value of one chip, with the values
that no bot had seen. It counts as the evaluation after it, less the mean of the evaluations over
all possible outcomes; so its mean is 0, whatever the evaluation and the bots are. It is scaled by a
factor that is fixed before chance decides, so that the sum stays on its side of a bound and its
mean stays 0. There are two sums, one with a bound above and one with a bound below: a bet on a lead
needs only to know how large its luck may be, and a bet against it how small. One bound takes less
luck out of a sum than two.

Games of one seed have the same dice and values, and their luck nearly cancels where bots play
alike. So they are gone through together: a die, or a value, is one event of all games. Where games
differ in which seat rolls first, one of them needs a die earlier than another. Then a part of the
room below the bound is reserved for the later game, whose factor so depends on nothing that has
happened since.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TypeAlias

from deepsea_rules.actions import LEVEL_OF
from deepsea_rules.game import Game
from deepsea_rules.ruleset import HOME
from deepsea_rules.view import unseen_values

from .luck import Evaluation, Outlook, Step, game_steps, rolls

Luck: TypeAlias = tuple[float, float]
"""Two sums of how far chance moved a lead: the first is never above the bound, the second never
below minus the bound."""


def chance_sum(
    games: Sequence[tuple[Game, Sequence[float]]], bound: float, evaluate: Evaluation
) -> Luck:
    """Return by how much chance moved the sum of all seats' weighted scores, in all games.

    games  games of one seed, each with its weights by seat; such as 1 and -1 for a seat's lead over
           another one
    bound  the most that the first sum may be, and minus the least of the second one
    """
    walks = [_Walk(game, weights, evaluate) for game, weights in games]
    total = _BoundedSums(bound)
    rolled: set[_Die] = set()
    revealed: dict[int, int] = {}
    while unfinished := [walk for walk in walks if walk.step is not None]:
        next_walk = min(unfinished, key=lambda walk: walk.when)
        if next_walk.die is None:
            _reveal(next_walk, unfinished, revealed, total)
            next_walk.go_on()
        elif next_walk.die in rolled:
            total.add_late((next_walk, next_walk.die), next_walk.roll())
            next_walk.go_on()
        else:
            die = next_walk.die
            rolled.add(die)
            walks_at_die = [walk for walk in unfinished if walk.die == die]
            # Games that come to the same die later have to count it by what is known now.
            later_games = [
                (walk, die) for walk in unfinished if walk.die != die and walk.may_need(die)
            ]
            for walk, _ in later_games:
                walk.expect(die)
            total.add(_sum([walk.roll() for walk in walks_at_die]), later_games)
            for walk in walks_at_die:
                walk.go_on()
        total.release()
    return total.luck


def _reveal(
    first: _Walk, unfinished: Sequence[_Walk], revealed: dict[int, int], total: _BoundedSums
) -> None:
    """Count the values that the first game reveals next, as events of all games with these chips.

    Each chip is one event: its cases are the values of its level that no game has revealed yet.
    """
    assert first.step is not None
    values = first.step.after.known
    for chip in sorted(values.keys() - first.known.keys()):
        if chip not in revealed:
            unseen = unseen_values(LEVEL_OF[chip], revealed)
            cases = sorted(set(unseen))
            walks_with_chip = [walk for walk in unfinished if walk is first or walk.has(chip)]
            ways = [unseen.count(value) for value in cases]
            outcome = cases.index(values[chip])
            events = [(walk.leads_with(chip, cases), ways, outcome) for walk in walks_with_chip]
            total.add(_sum(events))
            revealed[chip] = values[chip]
            for walk in walks_with_chip:
                walk.known[chip] = values[chip]
        first.known[chip] = values[chip]


_Die: TypeAlias = tuple[int, int, int]
"""A roll, by dive, seat and the seat's turn in the dive."""
_Later: TypeAlias = tuple["_Walk", _Die]
"""A die that a game comes to later than another game."""
_Event: TypeAlias = tuple[Sequence[float], Sequence[int], int]
"""A chance event: the lead after each case, the number of ways of each case, and the index of the
case that came."""


def _sum(events: Sequence[_Event]) -> _Event:
    """Return one event whose leads are the sums over several games with the same cases."""
    _, ways, outcome = events[0]
    by_game = [leads for leads, _, _ in events]
    return [sum(leads) for leads in zip(*by_game, strict=True)], ways, outcome


class _BoundedSums:
    """A sum of luck that is never above a bound, and one that is never below minus the bound.

    Each event is scaled down if it could pass the bound.
    """

    def __init__(self, bound: float) -> None:
        self._bound = bound
        self._sums = [0.0, 0.0]
        """The upper sum, and the lower one with its sign changed."""
        self._reserved: tuple[dict[_Later, float], ...] = ({}, {})
        """For each sum, the room that is reserved for dice in games that come to them later."""

    @property
    def luck(self) -> Luck:
        """Both sums. Rounded sums could pass the bound by their last bits, so they are cut."""
        up, down = self._sums
        return min(self._bound, up), max(-self._bound, -down)

    def add(self, event: _Event, later_games: Sequence[_Later] = ()) -> None:
        """Add an event, and reserve as much room as it gets for each game that has it later."""
        for number, (move, largest) in enumerate(_moves(event)):
            reserved = self._reserved[number]
            # Shared equally between this event and its repetitions in later games.
            room = max(0.0, self._bound - self._sums[number] - sum(reserved.values()))
            room /= 1 + len(later_games)
            reserved |= dict.fromkeys(later_games, room)
            self._sums[number] += _scaled(move, largest, room)

    def add_late(self, key: _Later, event: _Event) -> None:
        """Add an event whose die another game rolled before, with the room reserved for it."""
        for number, (move, largest) in enumerate(_moves(event)):
            self._sums[number] += _scaled(move, largest, self._reserved[number].pop(key, 0.0))

    def release(self) -> None:
        """Release the room for dice that games no longer need."""
        for reserved in self._reserved:
            unneeded = [(walk, die) for walk, die in reserved if not walk.may_need(die)]
            for key in unneeded:
                del reserved[key]


def _moves(event: _Event) -> tuple[tuple[float, float], ...]:
    """Return the lead's move from its mean and the largest possible one, for each of the sums.

    For the second sum all signs are changed.
    """
    leads, ways, outcome = event
    mean = sum([way * lead for way, lead in zip(ways, leads, strict=True)]) / sum(ways)
    moves = [lead - mean for lead in leads]
    return (moves[outcome], max(moves)), (-moves[outcome], -min(moves))


def _scaled(move: float, largest: float, room: float) -> float:
    """Return the move, scaled down by the factor with which the largest one fits in the room."""
    return move if largest <= room else move * (room / largest)


class _Walk:
    """A game that is gone through from one chance event to the next."""

    def __init__(self, game: Game, weights: Sequence[float], evaluate: Evaluation) -> None:
        self._steps = game_steps(game)
        self._weights = weights
        self._evaluate = evaluate
        self._dive = self._starter = 0
        self._turns: list[int] = []
        """By seat, the number of its rolls in this dive."""
        self.known: dict[int, int] = {}
        """Values that the evaluation knows, also those of this game's chips that another game
        revealed."""
        self._expected: dict[_Die, dict[int, int]] = {}
        """For each roll that another game came to first, the values that were known then."""
        self.step: Step | None = None
        """The next roll or reveal; None at the end of the game."""
        self.die: _Die | None = None
        """The roll of this step; None if it is a reveal."""
        self.when: tuple[float, ...] = ()
        """Sort key of the step among the events of all games."""
        self.go_on()

    def go_on(self) -> None:
        """Go to the next chance event.

        Its sort key `when` has the dive, the turn, and the seat's place in the order of turns.
        """
        if self.die is not None:
            self._turns[self.die[1]] += 1
        self.die = None
        self.step = None
        for step in self._steps:
            if step.kind in ("roll", "reveal"):
                self.step = step
                break
        if self.step is None:
            return
        state, dive, seat = self.step.before.state, self.step.dive, self.step.seat
        if dive != self._dive:
            assert seat is not None
            self._dive, self._starter, self._turns = dive, seat, [0] * state.players
        if seat is not None:
            turn = self._turns[seat] + 1
            self.die = dive, seat, turn
            self.when = dive, turn, (seat - self._starter) % state.players
        # Values that an owner sees on its return are revealed right after its roll: `when` stays.
        elif state.dive > dive or state.phase in ("order", "over"):
            self.when = dive, inf

    def may_need(self, die: _Die) -> bool:
        """Return True if this roll may still come, as far as is known now."""
        dive, seat, turn = die
        if self.step is None or self._dive != dive or self.when[1] == inf:
            return False
        return self._turns[seat] < turn and self.step.before.state.place[seat] != HOME

    def expect(self, die: _Die) -> None:
        """Store the values known now for a roll that another game comes to first.

        Values that other games reveal after that roll depend on it, so this game must not use them
        for it.
        """
        self._expected[die] = self.known.copy()

    def has(self, chip: int) -> bool:
        """Return True if a seat has brought this chip home or carries it."""
        assert self.step is not None
        state = self.step.before.state
        return any(chip in bank for bank in state.bank) or any(
            chip in unit for cargo in state.cargo for unit in cargo
        )

    def roll(self) -> _Event:
        """Return the next step, which is a roll, as an event."""
        assert self.step is not None
        assert self.step.dice is not None
        totals, ways, outlooks = zip(*rolls(self.step.before), strict=True)
        outcome = totals.index(sum(self.step.dice))
        first_state, *other_states = [outlook.state for outlook in outlooks]
        if all(
            other.place == first_state.place and other.dive == first_state.dive
            for other in other_states
        ):
            # The diver carries so much that it stays where it is, or ends the dive anyway.
            return [0.0] * len(totals), ways, outcome
        known = self.known
        if self.die in self._expected:
            known = {**self._expected[self.die], **self.step.before.known}
        return self._leads([Outlook(outlook.state, known) for outlook in outlooks]), ways, outcome

    def leads_with(self, chip: int, values: Sequence[int]) -> list[float]:
        """Return the lead if the chip has each of these values."""
        assert self.step is not None
        state = self.step.before.state
        return self._leads([Outlook(state, {**self.known, chip: value}) for value in values])

    def _leads(self, outlooks: Sequence[Outlook]) -> list[float]:
        """Return the lead in each outlook: the sum of evaluations times the seats' weights."""
        return [
            float(
                sum([weight * score for weight, score in zip(self._weights, scores, strict=True)])
            )
            for scores in self._evaluate(outlooks)
        ]
