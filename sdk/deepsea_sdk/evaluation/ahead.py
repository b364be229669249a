"""Look-ahead of one round of turns for each action, in many trials at once; needs numpy.

Invariants: after the action all divers play by the evaluation, which also values the position that
they reach. Hidden values are dealt anew for each trial; dice belong to a seat's turn, and are the
same for every action.
"""

from __future__ import annotations

import numpy as np

from deepsea_rules.ruleset import HOME
from deepsea_rules.view import View
from deepsea_sdk.batch import Batch, GivenDice, draw_luck, put
from deepsea_sdk.batch.units import Array

from .arrays import (
    F32,
    columns,
    facts_of,
    mover_values,
    points_at,
    sdk_policy,
    standings_of,
)
from .plain import points_of_view

_LAST_SPREAD = 2.5
"""Spread of leads after the last dive, where values of chips are means; compare
`Weights.spreads`."""


def look_ahead(view: View, trials: int, seed: int) -> dict[str, Array]:
    """Return for each legal action the mover's values [trials] when its next turn comes.

    Trials that end earlier are valued there: by the points if the dive ends, and by the net once
    the seat is home.
    """
    policy = sdk_policy(view.players)
    players, seat, rng = view.players, view.to_move, np.random.default_rng(seed)
    luck, position = draw_luck(view, rng, trials), view.sample(rng)
    trial = np.tile(np.arange(trials), len(view.legal))
    batch = Batch(view.rules, players, len(trial))
    spread = np.full(len(trial), (*policy.net.spreads, _LAST_SPREAD)[view.dive - 1])
    # The value by the points so far, for actions that end the dive
    values = standings_of(np.array([points_of_view(view)]), spread[:1])[0, seat].repeat(len(trial))
    playing = [np.zeros(0, np.int64)]
    for number, action in enumerate(view.legal):
        future = position.clone()
        future.apply(action)
        if future.dive == view.dive and future.phase in ("declare", "roll"):
            playing.append(np.arange(number * trials, (number + 1) * trials))
            put(batch, playing[-1], future)  # the trials of an action are side by side
    games = np.concatenate(playing)
    batch.values[:] = luck.values[trial]
    dice = GivenDice(luck, trial, players)
    # After the action "declare" the first turn goes on with the roll.
    has_declared = view.phase == "declare"
    while len(games):
        turn = batch.turn(games)
        if not has_declared:
            batch.declare(turn, policy)
        has_declared = False
        batch.move(turn, dice(batch, turn))
        ended = batch.search(turn, policy)
        points = points_at(batch, ended, ended[:, None] * players + np.arange(players), seat)
        values[ended] = standings_of(points, spread[ended])[:, seat]
        games = np.setdiff1d(games, ended)
        home = batch.place[games * players + seat] == HOME
        if home.any():
            # Seen from the next seat, the seat itself is the last to move.
            first = np.full(home.sum(), (seat + 1) % players)
            waiting = facts_of(batch, games[home], first, players - 1)
            values[games[home]] = policy.net(columns(waiting))
            games = games[~home]
        is_own = batch.to_move[games] == seat
        if is_own.any():
            values[games[is_own]] = mover_values(policy.net, batch, games[is_own])
            games = games[~is_own]
    return dict(zip(view.legal, values.astype(F32).reshape(-1, trials), strict=True))
