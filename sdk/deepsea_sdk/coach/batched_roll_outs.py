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

ENOUGH_ROLL_OUTS = 20_000
"""Roll-outs from which on a batch is played: larger ones take more memory and are no faster."""


def scores(requests: Sequence[Trials]) -> list[Scores]:
    """Return the scores of each request's trials; all have the same rules and number of seats.

    Requests are collected until a batch is large enough to be played.
    """
    results: list[Scores] = []
    batch: list[Trials] = []
    roll_outs = 0
    for trials in requests:
        batch.append(trials)
        roll_outs += len(trials.numbers) * len(trials.states)
        if roll_outs >= ENOUGH_ROLL_OUTS:
            results += _scores_of_batch(batch)
            batch, roll_outs = [], 0
    return results + _scores_of_batch(batch)


def _scores_of_batch(requests: Sequence[Trials]) -> list[Scores]:
    """Return the scores of each request's trials, which are played as one batch.

    States that do not fit into a batch are played one by one.
    """
    scores_of_states = _play_batch(requests)
    results: list[Scores] = []
    for trials in requests:
        scores_by_state = []
        for state in trials.states:
            if _fits_batch(state, trials):
                by_trial_and_seat = next(scores_of_states)
                scores_by_state.append(by_trial_and_seat.T.tolist())
            else:
                scores_by_state.append(one_by_one(trials._replace(states=[state]))[0])
        results.append(scores_by_state)
    return results


def _play_batch(requests: Sequence[Trials]) -> Iterator[Array]:
    """Play all states that fit into a batch, and return the scores of each, [trials, seats].

    The states come in the order of the requests.
    """
    # With an entry for each state: its trials, as indices of `dice`
    states: list[GameState] = []
    trials_of_states: list[Array] = []
    # With an entry for each row of the results, which is one trial of one state
    dives: list[int] = []
    # Deals of each request, [trials, chips], and dice of each trial of all requests
    deals: list[Array] = []
    dice: list[bytes] = []
    for trials in requests:
        digests = [trials.stream.digest(number) for number in trials.numbers]
        first_trial = len(dice)
        deals.append(_deals(trials, digests))
        # The first bytes of a digest are for the deal: four for each draw of a value.
        dice += [dice_of(digest[4 * DRAWS :]) for digest in digests]
        # Trials are numbered through all requests; each has one deal and one list of dice.
        trial_numbers = np.arange(first_trial, len(dice))
        for state in trials.states:
            if _fits_batch(state, trials):
                states.append(state)
                trials_of_states.append(trial_numbers)
                dives += [state.dive] * len(trial_numbers)
    if not states:
        return iter(())
    luck = given_luck(np.concatenate(deals).tolist(), dice)
    policy = SteadyPolicy(states[0].players)
    results, starters = end_dives_many(states, luck, policy, trials_of_states)
    # The rows of the results are those of the first state, then those of the second, and so on.
    scores = _scores_at_dive_ends(results, starters, np.array(dives))
    ends_of_states = np.cumsum([len(trial_numbers) for trial_numbers in trials_of_states[:-1]])
    return iter(np.split(scores, ends_of_states))


def _fits_batch(state: GameState, trials: Trials) -> bool:
    """Return True for a state that a batch can play: in its dive, with no order to choose."""
    return state.dive <= trials.dive and state.phase in ("declare", "roll", "search")


def _scores_at_dive_ends(results: Results, starters: Array, dives: Array) -> Array:
    """Return the score of each seat at the end of a dive, [rows, seats].

    results   of the games as they are at the end of the dive; a row is a game
    starters  [rows] the seat that begins the next dive, or -1 if the game is over
    dives     [rows] the dive that has ended
    """
    players = results.points.shape[1]
    is_over = starters < 0
    # For games that are over, a half is half of `ONE`. All other rows are replaced below.
    scores: Array = results.halves * (ONE // 2)
    # [rows, seats]: the place of each seat in the order of turns of the next dive
    turns = (np.arange(players) - starters[:, None]) % players
    for dive in range(1, DIVES):
        rows = np.flatnonzero((dives == dive) & ~is_over)
        shares = np.array(lead_shares(players, dive))
        points, turn = results.points[rows], turns[rows]
        # [rows, seats, other seats]: how many turns later a seat moves, and its lead in points
        turns_later = turn[:, :, None] - turn[:, None, :]
        leads = points[:, :, None] - points[:, None, :]
        # The sum over the others includes each seat itself, which counts half a win.
        scores[rows] = shares[turns_later, leads].sum(axis=2) - ONE // 2
    return scores


def _deals(trials: Trials, digests: Sequence[bytes]) -> Array:
    """Return the values of all chips in each trial, by chip id: [trials, 33].

    They are those that `View.sample` deals with the same luck.

    digests  the random bytes of each trial; the first ones are for the deal
    """
    numbers = np.frombuffer(b"".join([digest[: 4 * DRAWS] for digest in digests]), "<u4")
    # Each draw is an array with a number from 0 to 2**32 - 1 for each trial.
    draws = iter(numbers.reshape(len(digests), DRAWS).T.astype(np.uint64))
    known, rows = trials.view.known, np.arange(len(digests))
    values = np.zeros((len(digests), len(CHIPS) + 1), np.uint8)
    for level in LEVELS:
        hidden = [chip for chip in CHIPS if LEVEL_OF[chip] == level and chip not in known]
        unseen_values = np.array(trials.view.unseen(level), np.uint8)
        dealt = np.tile(unseen_values, (len(digests), 1))  # [trials, hidden chips]
        # Shuffle each row as `View.sample` does: swap the last place with a random one up to it,
        # then the place before, and so on.
        for last in range(dealt.shape[1] - 1, 0, -1):
            # A draw / 2**32 is from 0 up to, but not including, 1. Times last + 1, rounded down, it
            # is a place from 0 to `last`; the shift by 32 bits divides by 2**32.
            draw = next(draws)
            chosen = ((draw * np.uint64(last + 1)) >> np.uint64(32)).astype(np.int64)
            last_values = dealt[:, last].copy()
            dealt[:, last] = dealt[rows, chosen]
            dealt[rows, chosen] = last_values
        values[:, hidden] = dealt
    for chip, value in known.items():
        values[:, chip] = value
    return values
