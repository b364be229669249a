"""Each action tried for a round of turns, many times at once: needs numpy.

Invariants: all divers go on by the evaluation, and it values what they come to; hidden values are
dealt anew for each trial, and dice belong to a seat's turn, the same for every action.
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
"""After the last dive, as long as values are means."""


def look_ahead(view: View, trials: int, seed: int) -> dict[str, Array]:
    """The values for the seat to move when its next turn comes: [trials] for each legal action."""
    policy = sdk_policy(view.players)
    players, seat, rng = view.players, view.to_move, np.random.default_rng(seed)
    luck, position = draw_luck(view, rng, trials), view.sample(rng)
    trial = np.tile(np.arange(trials), len(view.legal))
    batch = Batch(view.rules, players, len(trial))
    spread = np.full(len(trial), (*policy.net.spreads, _LAST_SPREAD)[view.dive - 1])
    # As it is where an action ends the dive.
    found = standings_of(np.array([points_of_view(view)]), spread[:1])[0, seat].repeat(len(trial))
    playing = [np.zeros(0, np.int64)]
    for i, action in enumerate(view.legal):
        future = position.clone()
        future.apply(action)
        if future.dive == view.dive and future.phase in ("declare", "roll"):
            playing.append(np.arange(i * trials, (i + 1) * trials))
            put(batch, playing[-1], future)
    games = np.concatenate(playing)
    batch.values[:] = luck.values[trial]
    dice = GivenDice(luck, trial, players)
    has_declared = view.phase == "declare"
    while len(games):
        turn = batch.turn(games)
        if not has_declared:
            batch.declare(turn, policy)
        has_declared = False
        batch.move(turn, dice(batch, turn))
        ended = batch.search(turn, policy)
        points = points_at(batch, ended, ended[:, None] * players + np.arange(players), seat)
        found[ended] = standings_of(points, spread[ended])[:, seat]
        games = np.setdiff1d(games, ended)
        home = batch.place[games * players + seat] == HOME
        if home.any():
            first = np.full(home.sum(), (seat + 1) % players)
            waiting = facts_of(batch, games[home], first, players - 1)
            found[games[home]] = policy.net(columns(waiting))
            games = games[~home]
        own = batch.to_move[games] == seat
        if own.any():
            found[games[own]] = mover_values(policy.net, batch, games[own])
            games = games[~own]
    return dict(zip(view.legal, found.astype(F32).reshape(-1, trials), strict=True))
