"""Luck: how far dice and hidden values moved each seat's expected placement score, by roll-outs.

Invariants: the mean luck of a roll is 0 over its sums; values are revealed when any bot can see
them. The course of a finished game is every choice, every roll and every reveal of values, in
order: its positions come from the engine alone, moved by the recorded choices and dice, and where
one step ends, the next one begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Literal, NamedTuple, TypeAlias

from deepsea_rules.events import DiveBegan
from deepsea_rules.game import Game
from deepsea_rules.randomness import source
from deepsea_rules.ruleset import FACES
from deepsea_rules.state import GameState
from deepsea_rules.view import View, known_values, view_for

from .decisions import Estimate, interval, try_out
from .roll_outs import ONE, Stream, Trials

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
            state.unchecked_apply(action)
            step = Step("decision", dive, seat, here, Outlook(state, here.known), made, action)
            made += 1
        else:
            if state.legal:
                state.unchecked_apply(state.legal[0])
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

_NINE = 9


def luck_of_many(chances: Sequence[tuple[Step, Stream]], trials: int) -> list[list[Estimate]]:
    """The luck of rolls and reveals of one game for each seat: so many roll-outs of each sum."""
    weighted = [
        _apart(step) if step.kind == "roll" else [(-1, step.before), (1, step.after)]
        for step, _ in chances
    ]
    wanted = [
        Trials(outlook.view(), stream, range(trials), [outlook.state], step.dive)
        for (step, stream), outlooks in zip(chances, weighted, strict=True)
        for _, outlook in outlooks
    ]
    scores = iter(try_out(wanted))
    return [
        _luck(step, [(weight, next(scores)[0]) for weight, _ in outlooks])
        for (step, _), outlooks in zip(chances, weighted, strict=True)
    ]


def _luck(step: Step, scores: Sequence[tuple[int, Sequence[Sequence[int]]]]) -> list[Estimate]:
    """The luck of each seat, from the scores after what could have come, each with its weight."""
    players = step.after.state.players
    if not scores:
        return [Estimate(0.0, 0.0)] * players
    scale = (players - 1) * ONE * (_NINE if step.kind == "roll" else 1)
    found = []
    for seat in range(players):
        weighted = [[weight * score for score in by_seat[seat]] for weight, by_seat in scores]
        found.append(
            interval([sum(trial) for trial in zip(*weighted, strict=True)], scale, doubt=0)
        )
    return found


def _apart(step: Step) -> list[tuple[int, Outlook]]:
    """The different positions after a roll, none if all agree; each with its weight in ninths."""
    assert step.dice is not None
    rolled = sum(step.dice)
    found: list[tuple[int, Outlook]] = []
    for total, ways, after in rolls(step.before):
        weight = (_NINE if total == rolled else 0) - ways
        for index, (others, other) in enumerate(found):
            if other.state == after.state:
                found[index] = (others + weight, other)
                break
        else:
            found.append((weight, after))
    return found if len(found) > 1 else []
