"""The scores of roll_outs.py, of many trials at once, where numpy is installed."""

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
"""Roll-outs in a batch: more take memory and are no faster."""


def scores(wanted: Sequence[Trials]) -> list[Scores]:
    """The scores of trials, all of one rule set and number of seats."""
    found: list[Scores] = []
    part: list[Trials] = []
    size = 0
    for trials in wanted:
        part.append(trials)
        size += len(trials.numbers) * len(trials.states)
        if size >= MOST:
            found += _part(part)
            part, size = [], 0
    return found + _part(part)


def _part(wanted: Sequence[Trials]) -> list[Scores]:
    """The scores of as many trials as go into one batch."""
    states: list[GameState] = []
    rows, deals, dives = [], [], []
    dice: list[bytes] = []
    for trials in wanted:
        digests = [trials.stream.digest(number) for number in trials.numbers]
        own = np.arange(len(dice), len(dice) + len(digests))
        deals.append(_deals(trials, digests))
        dice += [dice_of(digest[4 * DRAWS :]) for digest in digests]
        for state in trials.states:
            if _is_played(state, trials):
                states.append(state)
                rows.append(own)
                dives += [state.dive] * len(own)
    found: Iterator[Array] = iter(())
    if states:
        luck = given_luck(np.concatenate(deals).tolist(), dice)
        policy = SteadyPolicy(states[0].players)
        ends, starters = end_dives_many(states, luck, policy, rows)
        ends_of_states = np.cumsum([len(own) for own in rows[:-1]])
        found = iter(np.split(_scores(ends, starters, np.array(dives)), ends_of_states))
    return [
        [
            next(found).T.tolist()
            if _is_played(state, trials)
            else one_by_one(trials._replace(states=[state]))[0]
            for state in trials.states
        ]
        for trials in wanted
    ]


def _is_played(state: GameState, trials: Trials) -> bool:
    """Whether there is a dive to be played on, and no order to be chosen first."""
    return state.dive <= trials.dive and state.phase in ("declare", "roll", "search")


def _scores(ends: Results, starters: Array, dives: Array) -> Array:
    """The score of each seat at the end of a dive, [rows, seats]."""
    players = ends.points.shape[1]
    over = starters < 0
    scores: Array = ends.halves * (ONE // 2)
    turns = (np.arange(players) - starters[:, None]) % players
    for dive in range(1, DIVES):
        rows = np.flatnonzero((dives == dive) & ~over)
        shares = np.array(lead_shares(players, dive))
        points, turn = ends.points[rows], turns[rows]
        later = turn[:, :, None] - turn[:, None, :]
        leads = points[:, :, None] - points[:, None, :]
        scores[rows] = shares[later, leads].sum(axis=2) - ONE // 2
    return scores


def _deals(trials: Trials, digests: Sequence[bytes]) -> Array:
    """The values of all chips in each trial, [trials, 33], as `View.sample` deals them."""
    numbers = np.frombuffer(b"".join([digest[: 4 * DRAWS] for digest in digests]), "<u4")
    draws = iter(numbers.reshape(len(digests), DRAWS).T.astype(np.uint64))
    known, every = trials.view.known, np.arange(len(digests))
    values = np.zeros((len(digests), len(CHIPS) + 1), np.uint8)
    for level in LEVELS:
        dealt = np.tile(np.array(trials.view.unseen(level), np.uint8), (len(digests), 1))
        for last in range(dealt.shape[1] - 1, 0, -1):
            chosen = (next(draws) * np.uint64(last + 1) >> np.uint64(32)).astype(np.int64)
            kept = dealt[:, last].copy()
            dealt[:, last] = dealt[every, chosen]
            dealt[every, chosen] = kept
        values[:, [chip for chip in CHIPS if LEVEL_OF[chip] == level and chip not in known]] = dealt
    for chip, value in known.items():
        values[:, chip] = value
    return values
