"""The luck of finished games: how far chance moved a lead, by an evaluation.

Invariants: a chance event is a roll, with its five sums, or the value of one chip, with the values
that no bot had seen; it counts as the evaluation after it less the mean of the evaluations over all
that could have come, so its mean is 0 whatever the evaluation and the bots are; it is scaled by a
factor that is fixed before chance decides, so that the sum stays on its side of a bound and its
mean stays 0. There are two sums, with a bound above and with one below, because who bets on a lead
need only know how large its luck may be, and who bets against it how small: one bound leaves more
luck in a sum than two.

Games of one seed have the same dice and values, and their luck nearly cancels where bots play
alike. So they are gone through together: a die, or a value, is one event of all games. Where games
differ in who rolls first, one of them needs a die earlier than another; then a part of the room is
kept for the later one, whose factor depends on nothing that has happened since.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TypeAlias

from deepsea_rules.actions import LEVEL_OF
from deepsea_rules.game import Game
from deepsea_rules.ruleset import HOME
from deepsea_rules.view import unseen_values

from .luck import Evaluation, Outlook, Step, course, rolls

Luck: TypeAlias = tuple[float, float]
"""How far chance moved a lead: never above the bound, and never below minus the bound."""


def chance_sum(
    games: Sequence[tuple[Game, Sequence[float]]], bound: float, evaluate: Evaluation
) -> Luck:
    """By how much chance moved the sum of all seats' scores times their weights, in all games.

    games  of one seed, each with its weights by seat; such as 1 and -1 for a seat's lead over
           another one
    bound  how large the first sum may be, and minus how small the second one
    """
    walks = [_Walk(game, weights, evaluate) for game, weights in games]
    total = _BoundedSums(bound)
    rolled: set[_Die] = set()
    shown: dict[int, int] = {}
    while going := [walk for walk in walks if walk.step is not None]:
        first = min(going, key=lambda walk: walk.when)
        if first.die is None:
            _reveal(first, going, shown, total)
            first.go_on()
        elif first.die in rolled:
            total.add_late((first, first.die), first.roll())
            first.go_on()
        else:
            die = first.die
            rolled.add(die)
            at_it = [walk for walk in going if walk.die == die]
            later = [(walk, die) for walk in going if walk.die != die and walk.may_need(die)]
            for walk, _ in later:
                walk.expect(die)
            total.add(_sum([walk.roll() for walk in at_it]), later)
            for walk in at_it:
                walk.go_on()
        total.release()
    return total.luck


def _reveal(
    first: _Walk, going: Sequence[_Walk], shown: dict[int, int], total: _BoundedSums
) -> None:
    """Show the values that one game is about to show, to all games that have these chips."""
    assert first.step is not None
    values = first.step.after.known
    for chip in sorted(values.keys() - first.known.keys()):
        if chip not in shown:
            unseen = unseen_values(LEVEL_OF[chip], shown)
            cases = sorted(set(unseen))
            concerned = [walk for walk in going if walk is first or walk.has(chip)]
            event = [unseen.count(value) for value in cases], cases.index(values[chip])
            moved = [(walk.leads_with(chip, cases), *event) for walk in concerned]
            total.add(_sum(moved))
            shown[chip] = values[chip]
            for walk in concerned:
                walk.known[chip] = values[chip]
        first.known[chip] = values[chip]


_Die: TypeAlias = tuple[int, int, int]
"""A roll by dive, seat and turn."""
_Later: TypeAlias = tuple["_Walk", _Die]
"""A die that a game comes to later than another one."""
_Event: TypeAlias = tuple[Sequence[float], Sequence[int], int]
"""What the lead may be, in how many ways, and which of these came."""


def _sum(events: Sequence[_Event]) -> _Event:
    """One event in several games."""
    _, ways, came = events[0]
    by_game = [leads for leads, _, _ in events]
    return [sum(leads) for leads in zip(*by_game, strict=True)], ways, came


class _BoundedSums:
    """A sum of luck that is never above its bound, and one that is never below minus the bound.

    Each event is scaled to the room that is left.
    """

    def __init__(self, bound: float) -> None:
        self._bound = bound
        self._sums = [0.0, 0.0]
        """The second one with all signs changed."""
        self._kept: tuple[dict[_Later, float], ...] = ({}, {})
        """The room that each keeps for a die in a game that comes to it later."""

    @property
    def luck(self) -> Luck:
        """Both sums; sums of rounded numbers may be beyond the bound by their last bits."""
        up, down = self._sums
        return min(self._bound, up), max(-self._bound, -down)

    def add(self, event: _Event, later: Sequence[_Later] = ()) -> None:
        """Add an event, and keep room for the games that have the same one later."""
        for i, (move, largest) in enumerate(_moves(event)):
            kept = self._kept[i]
            room = max(0.0, self._bound - self._sums[i] - sum(kept.values()))
            room /= 1 + len(later)
            kept |= dict.fromkeys(later, room)
            self._sums[i] += _scaled(move, largest, room)

    def add_late(self, which: _Later, event: _Event) -> None:
        """Add an event whose die has been rolled in another game: room was kept for it."""
        for i, (move, largest) in enumerate(_moves(event)):
            self._sums[i] += _scaled(move, largest, self._kept[i].pop(which, 0.0))

    def release(self) -> None:
        """Give up the room for dice that are not needed after all."""
        for kept in self._kept:
            for walk, die in [one for one in kept if not one[0].may_need(one[1])]:
                del kept[walk, die]


def _moves(event: _Event) -> tuple[tuple[float, float], ...]:
    """What came less the mean, and the most that could have come; and with all signs changed."""
    leads, ways, came = event
    mean = sum([way * lead for way, lead in zip(ways, leads, strict=True)]) / sum(ways)
    moves = [lead - mean for lead in leads]
    return (moves[came], max(moves)), (-moves[came], -min(moves))


def _scaled(move: float, largest: float, room: float) -> float:
    return move if largest <= room else move * (room / largest)


class _Walk:
    """A game that is gone through from one chance event to the next."""

    def __init__(self, game: Game, weights: Sequence[float], evaluate: Evaluation) -> None:
        self._steps = course(game)
        self._weights = weights
        self._evaluate = evaluate
        self._dive = self._starter = 0
        self._turns: list[int] = []
        """By seat, its rolls in this dive."""
        self.known: dict[int, int] = {}
        """The values that the evaluation knows: also those of its chips that another game shows."""
        self._expected: dict[_Die, dict[int, int]] = {}
        """By roll that another game came to first, what was known then."""
        self.step: Step | None = None
        """The next roll or reveal; None at the end of the game."""
        self.die: _Die | None = None
        """What is rolled in it."""
        self.when: tuple[float, ...] = ()
        """Its place in the order of the events of all games."""
        self.go_on()

    def go_on(self) -> None:
        """Go to the next chance event."""
        if self.die is not None:
            self._turns[self.die[1]] += 1
        self.step = next((step for step in self._steps if step.kind in ("roll", "reveal")), None)
        self.die = None
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
        elif state.dive > dive or state.phase in ("order", "over"):
            self.when = dive, inf
        # What an owner sees on its return comes right after its roll: `when` may stay.

    def may_need(self, die: _Die) -> bool:
        """Whether this roll is still to come, for all that is known now."""
        dive, seat, turn = die
        if self.step is None or self._dive != dive or self.when[1] == inf:
            return False
        return self._turns[seat] < turn and self.step.before.state.place[seat] != HOME

    def expect(self, die: _Die) -> None:
        """Note what is known now: what another game shows after this roll depends on it."""
        self._expected[die] = self.known.copy()

    def has(self, chip: int) -> bool:
        """Whether somebody has brought a chip home, or carries it."""
        assert self.step is not None
        state = self.step.before.state
        return any(chip in bank for bank in state.bank) or any(
            chip in unit for cargo in state.cargo for unit in cargo
        )

    def roll(self) -> _Event:
        """The roll that is next."""
        assert self.step is not None
        assert self.step.dice is not None
        totals, ways, outlooks = zip(*rolls(self.step.before), strict=True)
        came = totals.index(sum(self.step.dice))
        first, *others = [outlook.state for outlook in outlooks]
        if all(other.place == first.place and other.dive == first.dive for other in others):
            # The diver carries so much that it stays where it is, or ends the dive anyway.
            return [0.0] * len(totals), ways, came
        known = self.known
        if self.die in self._expected:
            known = {**self._expected[self.die], **self.step.before.known}
        return self._leads([Outlook(outlook.state, known) for outlook in outlooks]), ways, came

    def leads_with(self, chip: int, values: Sequence[int]) -> list[float]:
        """What the lead is if a chip has one of these values."""
        assert self.step is not None
        state = self.step.before.state
        return self._leads([Outlook(state, {**self.known, chip: value}) for value in values])

    def _leads(self, outlooks: Sequence[Outlook]) -> list[float]:
        return [
            float(sum([w * v for w, v in zip(self._weights, scores, strict=True)]))
            for scores in self._evaluate(outlooks)
        ]
