"""Scores of roll_outs.py for many trials at once; needs numpy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from deepsea_rules.actions import CHIPS, LEVEL_OF, LEVELS
from deepsea_rules.ruleset import DIVES
from deepsea_rules.state import GameState
from deepsea_sdk.batch import Results, SteadyPolicy, end_dives_many, given_luck
from deepsea_sdk.batch.units import Array
from deepsea_sdk.policies import dice_of

from .roll_outs import DRAWS, ONE, Scores, Trials, lead_shares, one_by_one

MOST = 20_000
"""Most roll-outs of a batch: larger batches take more memory and are no faster."""


def scores(requests: Sequence[Trials]) -> list[Scores]:
    """Return the scores of trials, all with the same rules and number of seats."""
    results: list[Scores] = []
    part: list[Trials] = []
    size = 0
    for trials in requests:
        part.append(trials)
        size += len(trials.numbers) * len(trials.states)
        if size >= MOST:
            results += _part(part)
            part, size = [], 0
    return results + _part(part)


def _part(requests: Sequence[Trials]) -> list[Scores]:
    """Return the scores of trials that go into one batch."""
    states: list[GameState] = []
    rows, deals, dives = [], [], []
    dice: list[bytes] = []
    for trials in requests:
        digests = [trials.stream.digest(number) for number in trials.numbers]
        trial_numbers = np.arange(len(dice), len(dice) + len(digests))
        deals.append(_deals(trials, digests))
        dice += [dice_of(digest[4 * DRAWS :]) for digest in digests]
        for state in trials.states:
            if _is_played(state, trials):
                states.append(state)
                rows.append(trial_numbers)
                dives += [state.dive] * len(trial_numbers)
    played: Iterator[Array] = iter(())
    if states:
        luck = given_luck(np.concatenate(deals).tolist(), dice)
        policy = SteadyPolicy(states[0].players)
        results, starters = end_dives_many(states, luck, policy, rows)
        ends_of_states = np.cumsum([len(trial_numbers) for trial_numbers in rows[:-1]])
        played = iter(np.split(_scores(results, starters, np.array(dives)), ends_of_states))
    return [
        [
            next(played).T.tolist()
            if _is_played(state, trials)
            else one_by_one(trials._replace(states=[state]))[0]
            for state in trials.states
        ]
        for trials in requests
    ]


def _is_played(state: GameState, trials: Trials) -> bool:
    """Return True if the state can go into a batch: in its dive, with no order to choose."""
    return state.dive <= trials.dive and state.phase in ("declare", "roll", "search")


def _scores(results: Results, starters: Array, dives: Array) -> Array:
    """Return the score of each seat at the end of a dive, [rows, seats].

    starters  [rows] the seat that begins the next dive, or -1 if the game is over
    dives     [rows] the dive that has ended
    """
    players = results.points.shape[1]
    is_over = starters < 0
    # Right for games that are over; the other rows are replaced below.
    scores: Array = results.halves * (ONE // 2)
    turns = (np.arange(players) - starters[:, None]) % players
    for dive in range(1, DIVES):
        rows = np.flatnonzero((dives == dive) & ~is_over)
        shares = np.array(lead_shares(players, dive))
        points, turn = results.points[rows], turns[rows]
        turns_later = turn[:, :, None] - turn[:, None, :]
        leads = points[:, :, None] - points[:, None, :]
        # The sum includes each seat against itself, which counts half a win.
        scores[rows] = shares[turns_later, leads].sum(axis=2) - ONE // 2
    return scores


def _deals(trials: Trials, digests: Sequence[bytes]) -> Array:
    """Return the values of all chips in each trial, [trials, 33], as `View.sample` deals them."""
    numbers = np.frombuffer(b"".join([digest[: 4 * DRAWS] for digest in digests]), "<u4")
    draws = iter(numbers.reshape(len(digests), DRAWS).T.astype(np.uint64))
    known, rows = trials.view.known, np.arange(len(digests))
    values = np.zeros((len(digests), len(CHIPS) + 1), np.uint8)
    for level in LEVELS:
        dealt = np.tile(np.array(trials.view.unseen(level), np.uint8), (len(digests), 1))
        # Shuffle with the same draws as `View.sample`; a draw / 2**32 is a number from 0 to 1.
        for last in range(dealt.shape[1] - 1, 0, -1):
            chosen = (next(draws) * np.uint64(last + 1) >> np.uint64(32)).astype(np.int64)
            swapped = dealt[:, last].copy()
            dealt[:, last] = dealt[rows, chosen]
            dealt[rows, chosen] = swapped
        values[:, [chip for chip in CHIPS if LEVEL_OF[chip] == level and chip not in known]] = dealt
    for chip, value in known.items():
        values[:, chip] = value
    return values
