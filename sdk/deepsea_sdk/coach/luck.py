"""Luck: how far dice and hidden values moved each seat's expected placement score, by roll-outs.

Invariants: the mean luck of a roll is 0 over its sums; values are revealed when any bot can see
them. The course of a finished game is every choice, every roll and every reveal of values, in
order: its positions come from the engine alone, moved by the recorded choices and dice, and where
one step ends, the next one begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from math import exp
from typing import Literal, NamedTuple, TypeAlias

from deepsea_rules.actions import LEVELS, values_of_level
from deepsea_rules.events import DiveBegan
from deepsea_rules.game import Game
from deepsea_rules.randomness import source
from deepsea_rules.ruleset import DIVES, FACES
from deepsea_rules.state import GameState
from deepsea_rules.view import View, known_values, view_for
from deepsea_sdk.policies import Policy, play_on

from .decisions import Interval, Stream, apply, halves, interval

WAYS = {2: 1, 3: 2, 4: 3, 5: 2, 6: 1}
"""In how many of nine ways the dice show a sum."""


class Outlook(NamedTuple):
    """A position and the values that any seat knows: all that the bots know together."""

    state: GameState
    """Not to be changed."""
    known: Mapping[int, int]

    def view(self) -> View:
        """The position with these values, to sample from."""
        view = view_for(self.state, None)
        view.known = self.known
        return view


class Step(NamedTuple):
    """A step of the game.

    kind      "decision" of a seat that was asked; "forced", where it was not: it had one action, or
              none to declare, or it had forfeited; "roll"; "reveal" of values
    dive      the dive in which it happened; a reveal at a dive's end belongs to that dive
    seat      whose choice or roll it was; None for a reveal
    decision  the index of the decision among the game's
    """

    kind: Literal["decision", "forced", "roll", "reveal"]
    dive: int
    seat: int | None
    before: Outlook
    after: Outlook
    decision: int | None = None
    action: str | None = None
    dice: tuple[int, int] | None = None


def course(game: Game) -> Iterator[Step]:
    """The steps of a finished game."""
    opening = game.events[0]
    assert isinstance(opening, DiveBegan)
    state = GameState.opening(game.rules, game.state.values, game.players, opening.starter)
    forfeited = {forfeit.seat: forfeit.decision for forfeit in game.forfeits}
    dice = source(game.seed).dice
    turns: dict[tuple[int, int], int] = {}
    made = 0
    here = Outlook(state, known_to_any(state))
    while state.phase != "over":
        state = state.clone()
        dive, seat = state.dive, state.to_move
        if state.phase == "roll":
            turn = turns[dive, seat] = turns.get((dive, seat), 0) + 1
            rolled = dice(dive, seat, turn)
            state.unchecked_move(*rolled)
            step = Step("roll", dive, seat, here, Outlook(state, here.known), dice=rolled)
        elif len(state.legal) > 1 and made <= forfeited.get(seat, made):
            action = game.decisions[made].action
            apply(state, action)
            step = Step("decision", dive, seat, here, Outlook(state, here.known), made, action)
            made += 1
        else:
            if state.legal:
                apply(state, state.legal[0])
            else:
                state.unchecked_declare(None)
            step = Step("forced", dive, seat, here, Outlook(state, here.known))
        yield step
        here = step.after
        known = known_to_any(state)
        if known != here.known:
            shown = Outlook(state, known)
            yield Step("reveal", dive, None, here, shown)
            here = shown


def known_to_any(state: GameState) -> dict[int, int]:
    """The values that at least one seat knows, by chip id."""
    known: dict[int, int] = {}
    for seat in range(state.players):
        known |= known_values(state, seat)
    return known


def rolls(before: Outlook) -> Iterator[tuple[int, int, Outlook]]:
    """The sums that may be rolled in a position of phase "roll": ways of nine, and what follows."""
    for total, ways in WAYS.items():
        state = before.state.clone()
        first = min(FACES[-1], total - FACES[0])
        state.unchecked_move(first, total - first)
        yield total, ways, Outlook(state, before.known)


# By roll-outs

Number: TypeAlias = float | Fraction
Evaluation: TypeAlias = Callable[[Sequence[Outlook]], Sequence[Sequence[Number]]]
"""For each of some outlooks what each seat is expected to score, on common luck."""

SPREAD = {1: 7.0, 2: 5.0}
"""By dive, the points of a lead at its end that wins 73 of 100 games (bench/lead_spread.py)."""
_NINE = 9
_ONE = 1_000_000


def luck_of(step: Step, stream: Stream, policy: Policy, trials: int) -> list[Interval]:
    """The luck of a roll or of a reveal for each seat, by roll-outs: so many for each sum.

    They end with the dive. A lead at its end counts by how often such a lead wins, which says the
    same as playing on to the end of the game, with half the noise.
    """
    players = step.after.state.players
    if step.kind == "reveal":
        weights, outlooks, unit = [-1, 1], [step.before, step.after], 1
    else:
        weights, outlooks = _apart(step)
        unit = _NINE
    if len(outlooks) < 2:
        return [Interval(0.0, 0.0)] * players
    found: list[list[int]] = [[] for _ in range(players)]
    for number in range(trials):
        sums = [0] * players
        for weight, outlook in zip(weights, outlooks, strict=True):
            for seat, score in enumerate(_scores(outlook, stream, policy, number, step.dive)):
                sums[seat] += weight * score
        for seat, total in enumerate(sums):
            found[seat].append(total)
    scale = unit * (players - 1) * _ONE
    return [interval(numbers, scale, doubt=0) for numbers in found]


def _apart(step: Step) -> tuple[list[int], list[Outlook]]:
    """The different positions after a roll; weights in ninths, whose sum is 0."""
    assert step.dice is not None
    rolled = sum(step.dice)
    weights: list[int] = []
    outlooks: list[Outlook] = []
    for total, ways, after in rolls(step.before):
        weight = (_NINE if total == rolled else 0) - ways
        for index, other in enumerate(outlooks):
            if other.state == after.state:
                weights[index] += weight
                break
        else:
            weights.append(weight)
            outlooks.append(after)
    return weights, outlooks


def _scores(
    outlook: Outlook, stream: Stream, policy: Policy, number: int, dive: int
) -> Sequence[int]:
    """One trial of an outlook: for each seat the others that it is ahead of, in parts of `_ONE`."""
    luck = stream.luck(number)
    state = outlook.view().sample(luck)
    play_on(state, luck.dice, policy, dive)
    if dive == DIVES:
        return [half * (_ONE // 2) for half in halves(state)]
    points = state.points()
    share = _shares(dive)
    return [sum([share[own - other] for other in points]) - _ONE // 2 for own in points]


@cache
def _shares(dive: int) -> Mapping[int, int]:
    """How often a lead of so many points at the end of a dive wins, in parts of `_ONE`."""
    most = sum(map(sum, map(values_of_level, LEVELS)))
    return {lead: round(_ONE / (1 + exp(-lead / SPREAD[dive]))) for lead in range(-most, most + 1)}
