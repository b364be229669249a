"""What a lead at the end of a dive is worth: python bench/leads.py.

Games go by `steady`, in the first dive or two with some actions at random. For each number of seats
and dive it prints the two numbers that fit best who is ahead in the end: those of
`deepsea_sdk.coach.roll_outs.LEADS`. Needs numpy.
"""

from __future__ import annotations

import argparse

import numpy as np

from deepsea_rules.ruleset import PRESETS
from deepsea_sdk.batch import (
    Batch,
    Policy,
    RandomDice,
    RandomPolicy,
    SteadyPolicy,
    Turn,
    open_random,
)
from deepsea_sdk.batch.units import Array

AT_ONCE = 4096


class Mixed(Policy):
    """Decides at random with a chance that each game has, until a dive."""

    def __init__(self, players: int, until: int, rng: np.random.Generator) -> None:
        self._steady, self._random = SteadyPolicy(players), RandomPolicy(rng)
        self._until, self._rng = until, rng
        self.chance = rng.choice([0, 0.05, 0.15, 0.4], AT_ONCE)

    def _mix(self, batch: Batch, turn: Turn, steady: Array, other: Array) -> Array:
        chance = turn.of(self.chance) * (turn.of(batch.dive) < self._until)
        return np.where(self._rng.random(len(steady)) < chance, other, steady)

    def declare(self, batch: Batch, turn: Turn) -> Array:
        """Who turns back."""
        steady, other = self._steady.declare(batch, turn), self._random.declare(batch, turn)
        return self._mix(batch, turn, steady, other)

    def take(self, batch: Batch, turn: Turn, units: Array) -> Array:
        """Who takes."""
        other = self._random.take(batch, turn, units)
        return self._mix(batch, turn, self._steady.take(batch, turn, units), other)

    def drop(self, batch: Batch, turn: Turn) -> Array:
        """What each drops."""
        other = self._random.drop(batch, turn)
        return self._mix(batch, turn, self._steady.drop(batch, turn), other)


def leads(rules: str, players: int, dive: int, count: int) -> tuple[Array, Array]:
    """Leads in points and in turns after a dive, [pairs, 2], and 1, 0.5 or 0 for who was ahead."""
    rng = np.random.default_rng(dive * 10 + players)
    batch = Batch(PRESETS[rules], players, AT_ONCE)
    open_random(batch, np.arange(AT_ONCE), rng)
    policy, dice = Mixed(players, dive + 1, rng), RandomDice(rng)
    points = np.zeros((AT_ONCE, players))
    turns = np.zeros((AT_ONCE, players))
    one, other = np.triu_indices(players, 1)
    found: list[Array] = []
    won: list[Array] = []
    while sum(map(len, won)) < count:
        before = batch.dive.copy()
        over = batch.play_turn(policy, dice)
        ended = np.flatnonzero((before == dive) & (batch.dive == dive + 1))
        points[ended] = batch.results(ended).points
        turns[ended] = (np.arange(players) - batch.to_move[ended, None]) % players
        if len(over):
            halves = batch.results(over).halves
            won.append((np.sign(halves[:, one] - halves[:, other]).reshape(-1) + 1) / 2)
            gaps = [
                (has[over][:, one] - has[over][:, other]).reshape(-1) for has in (points, turns)
            ]
            found.append(np.stack(gaps, axis=1))
            open_random(batch, over, rng)
    return np.concatenate(found), np.concatenate(won)


def fitted(gaps: Array, won: Array) -> tuple[float, float]:
    """The spread, and the points that a turn is worth: logistic regression."""
    weights = np.zeros(2)
    for _ in range(8):
        chance = 1 / (1 + np.exp(-gaps @ weights))
        slope = (gaps * (chance * (1 - chance))[:, None]).T @ gaps
        weights += np.linalg.solve(slope, gaps.T @ (won - chance))
    return 1 / weights[0], -weights[1] / weights[0]


def main() -> None:
    """Print the numbers by seats, dive and rules."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=60_000)
    parser.add_argument("--rules", nargs="*", default=("manual", "publisher", "reference"))
    parser.add_argument("--seats", type=int, action="append")
    given = parser.parse_args()
    for players in given.seats or range(2, 7):
        for dive in (1, 2):
            for rules in given.rules:
                spread, turn = fitted(*leads(rules, players, dive, given.pairs))
                print(
                    f"{players} seats, dive {dive}, {rules}: {spread:.1f}, {turn:.1f}", flush=True
                )


if __name__ == "__main__":
    main()
