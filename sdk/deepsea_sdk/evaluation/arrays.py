"""Evaluation of many positions at once, a policy by it, and a look-ahead; needs numpy.

Invariants: for the same position in a batch and in a view, the values are those of `plain` up to
the accuracy of floats. `values` of a batch count only for chips that the viewer may know.

`look_ahead` tries each action of a view in many trials, for one round of turns. After the action
all divers play by the evaluation, which also values the position that they reach. Hidden values are
dealt anew for each trial; dice belong to a seat's turn, and are the same for every action.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from deepsea_rules.actions import LEVELS
from deepsea_rules.ruleset import HOME
from deepsea_rules.view import View
from deepsea_sdk.batch import Batch, GivenDice, Policy, Turn, draw_luck, put
from deepsea_sdk.batch.engine import points_of
from deepsea_sdk.batch.policies import PER_BREATH, TURNS_LEFT
from deepsea_sdk.batch.units import BELOW, EMPTY_SLOT_WORTH, U64, WORTH_AT, Array, levels
from deepsea_sdk.policies import home_chances

from .plain import (
    INPUTS,
    REACH,
    STEEPNESS,
    Arithmetic,
    DiverFacts,
    Facts,
    Weights,
    inputs,
    points_of_view,
    sdk_weights,
)

F32 = np.float32
_CHANCES = np.array(home_chances(), F32)
_TURNS, _DISTANCES = _CHANCES.shape[1:]
_HOME_CHANCES = _CHANCES.ravel()
"""Chances to come home, flat, of [load, turns, distance]."""
_TURNS_LEFT = TURNS_LEFT.astype(F32)
_MEANS_OF_LEVELS = np.array([4 * level - 2.5 for level in LEVELS], F32)
"""Mean value of a chip of each level."""
_STEEPNESS = np.array([0, *STEEPNESS], F32)
_HALF = F32(0.5)


def _turns(air: Array, breath: Array) -> Array:
    """Return the turns that the air leaves if all divers breathe so much in a round."""
    index = breath * PER_BREATH + np.maximum(air, 0)
    turns: Array = _TURNS_LEFT.take(index.astype(np.int64))
    return turns


def _home_chance(load: Array, turns: Array, distance: Array) -> Array:
    """Return the chances to come home with this load, so many turns and this distance."""
    # The index of a flat table of [load, turns, distance]
    index = (load * _TURNS + turns) * _DISTANCES + distance
    chances: Array = _HOME_CHANCES.take(index.astype(np.int64))
    return chances


_ARITHMETIC = Arithmetic(np.maximum, np.tanh, _turns, _home_chance)


class Net:
    """The net on arrays; training changes its layers in place."""

    def __init__(self, layers: Sequence[tuple[Array, Array]], spreads: tuple[float, float]) -> None:
        """Make a net of layers, each a matrix [inputs, outputs] and a bias [outputs]."""
        self.layers, self.spreads = list(layers), spreads

    @classmethod
    def of(cls, weights: Weights) -> Net:
        """Return the net with these weights, whose rows are outputs."""
        layers = [
            (np.array(rows, F32).T.copy(), np.array(bias, F32)) for rows, bias in weights.layers
        ]
        return cls(layers, weights.spreads)

    def __call__(self, inputs: Array) -> Array:
        """Return the values of positions with these inputs, [positions, INPUTS]."""
        *hidden, (matrix, bias) = self.layers
        for hidden_matrix, hidden_bias in hidden:
            inputs = np.maximum(inputs @ hidden_matrix + hidden_bias, 0)
        result: Array = (inputs @ matrix + bias)[:, 0]
        return result


def columns(facts: Facts) -> Array:
    """Return the net's inputs for many positions: [positions, INPUTS].

    facts  of the positions; its numbers are arrays with an entry for each position
    """
    # Each input is an array with an entry for each position, or one number for all.
    input_columns = inputs(_ARITHMETIC, facts)
    array = np.empty((len(facts.air), INPUTS), F32)
    for number, column in enumerate(input_columns):
        array[:, number] = column
    return array


def facts_of(batch: Batch, games: Array, first: Array, own: int) -> Facts:
    """Return the positions of games, each from the side of one seat.

    That seat moves `own` turns after the seat `first` [games], which is the next to breathe. After
    a declaration the mover has breathed already: its load has to be added to `air`.
    """
    players = batch.players
    ring = (first[:, None] + np.arange(players)) % players
    diver = games[:, None] * players + ring
    place = batch.place.take(diver)
    points = points_at(batch, games, diver, own)
    # The highest bits of packed units are twice their worth, which is a whole number.
    worth = (batch.carried.take(diver) >> WORTH_AT).astype(F32) * _HALF
    load, homeward = batch.load.take(diver), batch.homeward.take(diver)
    # By column, the seats in the order of their turns; [games, seats]
    by_field = (np.maximum(place, 0), place >= 0, load, worth, homeward, points)
    divers = [*map(DiverFacts, *(array.T.astype(F32) for array in by_field))]
    dive = batch.dive[games]
    space = np.maximum(place[:, own], 0).astype(np.int64)
    # sums[:, n] is the worth of the spaces before n, so that the worth between two spaces is a
    # difference of two sums. Columns beyond the trail repeat the last sum.
    sums = np.zeros((len(games), batch.trail.shape[1] + 1 + max(REACH)), F32)
    worths = (batch.trail.take(games, axis=0) >> WORTH_AT).astype(F32) * _HALF
    width = worths.shape[1]
    np.cumsum(worths, axis=1, out=sums[:, 1 : width + 1])
    sums[:, width + 1 :] = sums[:, width : width + 1]
    row = np.arange(len(games)) * sums.shape[1]
    worth_upto = sums.ravel()
    # Up to the own space without it, and with it
    before, including = worth_upto.take(row + space), worth_upto.take(row + space + 1)
    return Facts(
        divers=divers,
        own=own,
        rolls=0.0,
        air=batch.air[games].astype(F32),
        first_dive=dive == 1,
        second_dive=dive == 2,
        steepness=_STEEPNESS.take(dive),
        free=not batch.rules.turn_needs_treasure,
        barred=batch.rules.home_empty_handed == "barred",
        below=batch.last[games] - divers[own].place,
        down=[worth_upto.take(row + space + 1 + reach) - including for reach in REACH],
        up=[before - worth_upto.take(row + np.maximum(space - reach, 0)) for reach in REACH[:2]],
    )


def points_at(batch: Batch, games: Array, diver: Array, own: int) -> Array:
    """Return the points of the banks as one diver of each game knows them: [games, seats].

    Chips of unknown value count as the mean of their level. One row is one game.

    diver  [games, seats] indices of the divers in the batch's arrays
    own    the column of `diver` with the diver by whose knowledge the banks are counted
    """
    banks = batch.bank.take(diver)  # [games, seats] chips as bits
    known = np.zeros(len(games), U64)  # [games] chips whose value the diver knows, as bits
    if batch.rules.reveal == "dive_end":
        known |= batch.banked_earlier[games]
    if batch.rules.owner_peek == "on_return":
        known |= banks[:, own]
    known_chips = banks & known[:, None]
    unknown_chips = banks ^ known_chips  # the other chips of the bank
    points = levels(unknown_chips) @ _MEANS_OF_LEVELS
    # Add the values of the known chips, only for the banks that have some.
    row, seat = known_chips.nonzero()
    if len(row):
        # As banks of games with a single seat: [banks, 1]
        some_banks = known_chips[row, seat][:, None]
        points[row, seat] += points_of(some_banks, batch.values[games[row]])[:, 0]
    return points


def mover_values(net: Net, batch: Batch, games: Array) -> Array:
    """Return the values of these games for the seat to move at the start of its turn: [games].

    Where it may go on or turn back, it chooses the declaration with the larger value.
    """
    facts = facts_of(batch, games, batch.to_move[games], own=0)
    facts.rolls = 1.0  # as if it had declared: it rolls next
    values = net(columns(facts))
    has_choice = batch.may_declare(batch.turn(games))
    if has_choice.any():
        facts_after_back = facts.with_own(homeward=np.ones(len(games), F32))
        values_after_back = net(columns(facts_after_back))
        values[has_choice] = np.maximum(values, values_after_back)[has_choice]
    return values


def standings_of(points: Array, spread: Array) -> Array:
    """Return the placement scores that seats may expect by their points after dive 1 or 2.

    The result is [games, seats], and the same as that of `plain.standings`.

    points  [games, seats]
    spread  [games] the points of a lead that keeps 73 of 100 rivals behind
    """
    leads = points[:, :, None] - points[:, None, :]  # [games, seats, other seats]
    # The chance to end ahead of a rival is the logistic function of lead / spread. That is
    # 0.5 + 0.5 * tanh(lead / (2 * spread)). A seat against itself adds tanh(0) = 0 to the sum.
    lead_sums = np.tanh(leads / (2 * spread)[:, None, None]).sum(axis=2)
    rivals = points.shape[1] - 1
    mean_chances: Array = 0.5 + 0.5 * lead_sums / rivals
    return mean_chances


class EvaluationPolicy(Policy):
    """Policy that chooses the option with the highest value of the net.

    Of the units that may be dropped, only the one with the least worth is considered.
    """

    def __init__(self, net: Net) -> None:
        self.net = net

    def choose(self, batch: Batch, turn: Turn, options: Sequence[Facts]) -> Array:
        """Return for each diver the index of the option that it chooses.

        options  for each option the positions to which it leads, of all divers
        """
        # The net values all options at once: the positions of the first option, then the others.
        inputs = np.concatenate([columns(facts) for facts in options])
        values = self.net(inputs).reshape(len(options), -1)
        return self.pick_options(batch, turn, values, inputs)

    def pick_options(self, batch: Batch, turn: Turn, values: Array, inputs: Array) -> Array:
        """Return the index of each diver's best option; a training overrides it to vary choices.

        values  [options, divers] the value of the position to which each option leads
        inputs  [options × divers, INPUTS] the net's inputs for these positions, option by option
        """
        best: Array = values.argmax(axis=0)
        return best

    def declare(self, batch: Batch, turn: Turn) -> Array:
        """Return which divers turn back: those with a higher value if they do."""
        games = turn.diver // batch.players
        facts = facts_of(batch, games, turn.of(batch.to_move), own=0)
        facts.rolls = 1.0  # after the declaration the diver rolls
        # Option 0 is to go on, option 1 to turn back.
        options = [
            facts.with_own(homeward=np.full(len(turn.diver), homeward, F32)) for homeward in (0, 1)
        ]
        turns_back: Array = self.choose(batch, turn, options) == 1
        return turns_back

    def take(self, batch: Batch, turn: Turn, units: Array) -> Array:
        """Return which divers take the unit on their space."""
        # The highest bits of a packed unit are twice its worth, which is a whole number.
        worth = (units >> WORTH_AT).astype(F32) * _HALF
        return self._prefer_change(batch, turn, load_change=1, worth_change=worth)

    def drop(self, batch: Batch, turn: Turn) -> Array:
        """Return for each diver the slot of the unit that it drops; -1 if it drops none.

        The choice is between the diver's poorest unit, which has the least worth, and none.
        """
        cargo = batch.cargo.take(turn.diver, axis=0)  # packed units, [divers, SLOTS]
        # The highest bits of a packed unit are twice its worth, which is a whole number.
        twice_worth = (cargo >> WORTH_AT).astype(np.int64)
        is_filled = BELOW[turn.load]  # [divers, SLOTS]: True for the first `load` slots
        twice_worth[~is_filled] = EMPTY_SLOT_WORTH  # so the poorest slot is never empty
        poorest_slot = twice_worth.argmin(axis=1)
        rows = np.arange(len(poorest_slot))
        lost_worth = twice_worth[rows, poorest_slot].astype(F32) * _HALF
        drops = self._prefer_change(batch, turn, load_change=-1, worth_change=-lost_worth)
        return np.where(drops, poorest_slot, -1)

    def _prefer_change(
        self, batch: Batch, turn: Turn, load_change: int, worth_change: Array
    ) -> Array:
        """Return which divers value the position higher after a change of their cargo.

        load_change   1 if they take a unit, -1 if they drop one
        worth_change  [divers] the worth that the cargo gains; negative if they drop a unit
        """
        # Seen from the next seat, the own diver is the last one to move.
        next_seat = (turn.of(batch.to_move) + 1) % batch.players
        games = turn.diver // batch.players
        unchanged = facts_of(batch, games, next_seat, own=batch.players - 1)
        own = unchanged.divers[-1]
        changed = unchanged.with_own(
            load=own.load + F32(load_change), worth=own.worth + worth_change
        )
        # The options are 0 for the cargo as it is, and 1 for the changed one.
        prefers_change: Array = self.choose(batch, turn, [unchanged, changed]) == 1
        return prefers_change


@cache
def sdk_policy(players: int) -> EvaluationPolicy:
    """Return the policy by the SDK's weights for a number of seats."""
    return EvaluationPolicy(Net.of(sdk_weights(players)))


# ----- Look-ahead

_LAST_SPREAD = 2.5
"""Spread of leads after the last dive, where values of chips are means.

Compare `Weights.spreads`.
"""


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
