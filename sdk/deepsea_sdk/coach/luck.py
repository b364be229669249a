"""Luck: how far dice and hidden values moved each seat's expected placement score, by roll-outs.

Invariants: the mean luck of a roll is 0 over its sums; values are revealed when any bot can see
them. The steps of a finished game are every choice, every roll and every reveal of values, in
order. Their positions come from the engine alone, moved by the recorded choices and dice, and each
step begins where the one before it ends.
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
"""For each sum of two dice, in how many of the nine rolls it comes."""


class Outlook(NamedTuple):
    """A position and the values that any seat knows, which is all that the bots know together."""

    state: GameState
    """The position; it is not changed."""
    known: Mapping[int, int]
    """Known values by chip id."""

    def view(self) -> View:
        """Return the position as a view that knows these values, to sample hidden ones from."""
        view = view_for(self.state, None)
        view.known = self.known
        return view


class Step(NamedTuple):
    """A step of the game.

    kind      "decision" of a seat that had a choice; "forced" if it had none: a single action, none
              to declare, or it had forfeited; "roll"; "reveal" of values
    dive      the dive in which it happened; a reveal at a dive's end belongs to that dive
    seat      the seat that chose or rolled; None for a reveal
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


def game_steps(game: Game) -> Iterator[Step]:
    """Yield the steps of a finished game: its decisions, forced actions, rolls and reveals."""
    opening = game.events[0]
    assert isinstance(opening, DiveBegan)
    state = GameState.opening(game.rules, game.state.values, game.players, opening.starter)
    forfeited = {forfeit.seat: forfeit.decision for forfeit in game.forfeits}
    dice = source(game.seed).dice
    turns: dict[tuple[int, int], int] = {}
    decision_count = 0
    now = Outlook(state, known_to_any(state))
    while state.phase != "over":
        state = state.clone()
        dive, seat = state.dive, state.to_move
        if state.phase == "roll":
            turn = turns[dive, seat] = turns.get((dive, seat), 0) + 1
            rolled = dice(dive, seat, turn)
            state.unchecked_move(*rolled)
            step = Step("roll", dive, seat, now, Outlook(state, now.known), dice=rolled)
        # The decision with which a seat forfeits is the last one that it was asked for.
        elif len(state.legal) > 1 and decision_count <= forfeited.get(seat, decision_count):
            action = game.decisions[decision_count].action
            state.unchecked_apply(action)
            step = Step(
                "decision", dive, seat, now, Outlook(state, now.known), decision_count, action
            )
            decision_count += 1
        else:
            if state.legal:
                state.unchecked_apply(state.legal[0])
            else:
                state.unchecked_declare(None)
            step = Step("forced", dive, seat, now, Outlook(state, now.known))
        yield step
        now = step.after
        known = known_to_any(state)
        if known != now.known:
            revealed = Outlook(state, known)
            yield Step("reveal", dive, None, now, revealed)
            now = revealed


def known_to_any(state: GameState) -> dict[int, int]:
    """Return the values that at least one seat knows, by chip id."""
    known: dict[int, int] = {}
    for seat in range(state.players):
        known |= known_values(state, seat)
    return known


def rolls(before: Outlook) -> Iterator[tuple[int, int, Outlook]]:
    """Yield each sum that may be rolled in phase "roll", its ways of nine, and what follows."""
    for total, ways in WAYS.items():
        state = before.state.clone()
        # Any two dice of this sum do: only the sum moves a diver.
        first = min(FACES[-1], total - FACES[0])
        state.unchecked_move(first, total - first)
        yield total, ways, Outlook(state, before.known)


# By roll-outs

Number: TypeAlias = float | Fraction
Evaluation: TypeAlias = Callable[[Sequence[Outlook]], Sequence[Sequence[Number]]]
"""Function that returns, for each of some outlooks, the expected score of each seat, on common
luck."""

_NINE = 9


def luck_of_many(chances: Sequence[tuple[Step, Stream]], trials: int) -> list[list[Estimate]]:
    """Return each seat's luck in rolls and reveals of a game, by roll-outs of each outcome.

    chances  the steps, each with the stream of its trials' luck
    """
    # The luck is a sum of scores with these weights: +1 for what came, less the mean of a roll.
    weighted = [
        _weighted_outcomes(step) if step.kind == "roll" else [(-1, step.before), (1, step.after)]
        for step, _ in chances
    ]
    requests = [
        Trials(outlook.view(), stream, range(trials), [outlook.state], step.dive)
        for (step, stream), outlooks in zip(chances, weighted, strict=True)
        for _, outlook in outlooks
    ]
    # In the order of the requests; each has a single state, whose scores are at index 0.
    scores = iter(try_out(requests))
    return [
        _luck(step, [(weight, next(scores)[0]) for weight, _ in outlooks])
        for (step, _), outlooks in zip(chances, weighted, strict=True)
    ]


def _luck(step: Step, scores: Sequence[tuple[int, Sequence[Sequence[int]]]]) -> list[Estimate]:
    """Return the luck of each seat in a step, from the weights and scores of its outcomes.

    Without outcomes, because all are the same, the luck is 0.
    """
    players = step.after.state.players
    if not scores:
        return [Estimate(0.0, 0.0)] * players
    # The weights of a roll are ninths.
    scale = (players - 1) * ONE * (_NINE if step.kind == "roll" else 1)
    luck = []
    for seat in range(players):
        weighted = [[weight * score for score in by_seat[seat]] for weight, by_seat in scores]
        by_trial = [sum(trial) for trial in zip(*weighted, strict=True)]
        luck.append(interval(by_trial, scale, doubt=0))
    return luck


def _weighted_outcomes(step: Step) -> list[tuple[int, Outlook]]:
    """Return the different positions after a roll with their weights in ninths; none if all agree.

    A weight is 9 for the sum that came, less the number of ways to roll the sum. Sums that lead to
    the same position are joined.
    """
    assert step.dice is not None
    rolled = sum(step.dice)
    outcomes: list[tuple[int, Outlook]] = []
    for total, ways, after in rolls(step.before):
        weight = (_NINE if total == rolled else 0) - ways
        for index, (other_weight, other) in enumerate(outcomes):
            if other.state == after.state:
                outcomes[index] = (other_weight + weight, other)
                break
        else:
            outcomes.append((weight, after))
    return outcomes if len(outcomes) > 1 else []
