"""Thousands of roll-outs at once, of one position or of many.

Invariants: with given luck, a trial ends as `deepsea_sdk.policies.play_on` ends it with the same
policy. Games that are over are removed as soon as they are a quarter of the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from deepsea_rules.ruleset import DIVES
from deepsea_rules.state import GameState
from deepsea_rules.view import View

from .clean_up import next_starters
from .engine import Batch, Policy, Results, results_of
from .luck import GivenDice, Luck, draw_luck
from .positions import put
from .units import CHIP_BITS, U64, Array, chip_bits

EndOf: TypeAlias = Literal["game", "dive"]
_PLAYING = 0.75
"""Share of a batch that has to be playing; below it, the games that are over are removed."""


def roll_out_many(
    position: View | GameState,
    trials: int,
    policy: Policy,
    rng: np.random.Generator,
    *,
    to_end_of: EndOf = "game",
) -> Results:
    """Play a position so many times to the end of the game or of the dive: results [trials, seats].

    Of a view, the hidden values are dealt anew for each trial; those of a state stay as they are.
    Dice are drawn at random; they belong to a seat's turn in a dive.
    """
    state = position.sample(rng) if isinstance(position, View) else position
    return play_on_many([state], draw_luck(position, rng, trials), policy, to_end_of=to_end_of)


def play_on_many(
    states: Sequence[GameState],
    luck: Luck,
    policy: Policy,
    trials: Sequence[Array] | None = None,
    *,
    to_end_of: EndOf = "game",
) -> Results:
    """Play on positions with the same rules and number of seats, each in some trials.

    luck    deals and dice of all trials; the states' own values do not matter
    trials  for each state the numbers of its trials; by default all of them

    The results have a row for each trial of the first state, then of the second, and so on. In a
    state of phase "order", every seat that has not chosen an order yet lays its cargo in pick-up
    order.
    """
    return _play_on(states, luck, policy, trials, to_end_of)[0]


def end_dives_many(
    states: Sequence[GameState], luck: Luck, policy: Policy, trials: Sequence[Array] | None = None
) -> tuple[Results, Array]:
    """Play on positions to the end of their dives, as `play_on_many`, and find the next starters.

    The second value has for each row of the results the seat that begins the next dive, or -1 if
    the game is over.
    """
    return _play_on(states, luck, policy, trials, "dive")


def _play_on(
    states: Sequence[GameState],
    luck: Luck,
    policy: Policy,
    trials: Sequence[Array] | None,
    to_end_of: EndOf,
) -> tuple[Results, Array]:
    """Check the arguments, and return the results and the next starters as `end_dives_many` does.

    Positions that have nothing to play on get their results at once; the rest is played as one
    batch.
    """
    if not states:
        raise ValueError("there is no position to play on")
    if trials is None:
        trials = [np.arange(len(luck.values))] * len(states)
    if len(trials) != len(states):
        raise ValueError(f"trials of {len(trials)} positions for {len(states)} positions")
    trial = np.concatenate(trials).astype(np.int64)
    wrong = trial[(trial < 0) | (trial >= len(luck.values))]
    if len(wrong):
        raise ValueError(f"trial {wrong[0]} is none of the {len(luck.values)} that have luck")
    banks = np.zeros((len(trial), states[0].players), U64)
    drowned = np.zeros((len(trial), DIVES, states[0].players), np.int8)
    starters = np.full(len(trial), -1)
    playing: list[tuple[GameState, int, Array]] = []
    end = 0
    for given_state, own_trials in zip(states, trials, strict=True):
        rows = np.arange(end, end + len(own_trials))
        end += len(own_trials)
        last_dive = given_state.dive if to_end_of == "dive" else DIVES
        # Laying the cargo of phase "order" may end the game, or begin the next dive.
        state = _settled(given_state)
        if state.phase == "over" or state.dive > last_dive:
            banks[rows] = [chip_bits(bank) for bank in state.bank]
            if state.phase != "over":
                starters[rows] = state.to_move
        else:
            playing.append((state, last_dive, rows))
    if playing:
        _RollOuts(playing, luck, trial, banks, drowned, starters).play(policy)
    values = luck.values[trial]
    return results_of(banks, values, states[0].rules.tiebreak, drowned), starters


def _settled(state: GameState) -> GameState:
    """Return the state after its phase "order": all seats lay their cargo in pick-up order."""
    if state.phase == "order":
        state = state.clone()
        while state.phase == "order":
            state.unchecked_order(state.legal[0])  # the first legal order is the pick-up order
    return state


class _RollOuts:
    """Games that are played to the end of their last dive; they fill the arrays of results.

    playing  each state with the last dive to play, and its rows of these arrays
    """

    def __init__(
        self,
        playing: Sequence[tuple[GameState, int, Array]],
        luck: Luck,
        trial: Array,
        banks: Array,
        drowned: Array,
        starters: Array,
    ) -> None:
        state = playing[0][0]
        self.banks, self.drowned = banks, drowned
        self.starters = starters
        self.row = np.concatenate([rows for _, _, rows in playing])
        """[games] the row of `banks` of each game, or -1 if the game has ended."""
        counts = [len(rows) for _, _, rows in playing]
        self.last_dive = np.repeat([last_dive for _, last_dive, _ in playing], counts)
        self.phase = np.repeat([state.phase for state, _, _ in playing], counts)
        self.playing_count = len(self.row)
        self.batch = Batch(state.rules, state.players, self.playing_count)
        self.dice = GivenDice(luck, trial[self.row], state.players)
        begin = 0
        for (state, _, _), count in zip(playing, counts, strict=True):
            put(self.batch, np.arange(begin, begin + count), state)
            begin += count
        self.batch.values[:] = luck.values[trial[self.row]]

    def play(self, policy: Policy) -> None:
        """Finish the current turn of each game, which may be in any phase, and play to the end."""
        batch = self.batch
        ended_dives = []
        for phase in ("declare", "roll", "search"):
            # Play the stages that the turns of these games still have.
            turn = batch.turn(np.flatnonzero(self.phase == phase))
            if phase == "declare":
                batch.declare(turn, policy)
            if phase != "search":
                batch.move(turn, self.dice(batch, turn))
            ended_dives.append(batch.search(turn, policy))
        self._end_dives(np.concatenate(ended_dives), policy)
        while self.playing_count:
            if self.playing_count < _PLAYING * self.batch.games:
                self._remove_ended_games()
            batch = self.batch
            turn = batch.turn()
            batch.declare(turn, policy)
            batch.move(turn, self.dice(batch, turn))
            self._end_dives(batch.search(turn, policy), policy)

    def _end_dives(self, games: Array, policy: Policy) -> None:
        """Begin the next dives of these games, and store the results of those that are over.

        After its last dive only a game's banks count, so it needs no clean-up.
        """
        if not len(games):
            return
        batch = self.batch
        is_last = batch.dive[games] >= self.last_dive[games]
        batch.note_drowned(games[is_last])
        self._note_starters(games[is_last])
        over = batch.clean_up(games[~is_last], policy)
        over = np.concatenate([games[is_last], over])
        rows = self.row[over]  # -1 for games that play on for nothing
        is_counted = rows >= 0
        self.banks[rows[is_counted]] = batch.by_seat(batch.bank)[over[is_counted]]
        self.drowned[rows[is_counted]] = batch.drowned[over[is_counted]]
        self.playing_count -= int(is_counted.sum())
        # They are opened anew and play on for nothing: that takes less time than to remove them.
        self.row[over] = -1
        batch.open(over, 0, 0)
        self.dice.begin_dive(batch, games)

    def _note_starters(self, games: Array) -> None:
        """Store the seats that begin the next dives of games that have ended their last dive.

        There is no next dive after the third one, nor if all chips have been brought home.
        """
        rows, batch = self.row[games], self.batch
        # The row is -1 for a game that is over and plays on for nothing.
        all_banked = np.bitwise_or.reduce(batch.by_seat(batch.bank)[games], axis=1)
        has_next_dive = (rows >= 0) & (batch.dive[games] < DIVES) & (all_banked != CHIP_BITS)
        games = games[has_next_dive]
        place, home = batch.by_seat(batch.place)[games], batch.by_seat(batch.home_rank)[games]
        self.starters[rows[has_next_dive]] = next_starters(batch.rules, place, home)

    def _remove_ended_games(self) -> None:
        """Make the batch smaller by the games that have ended."""
        playing = np.flatnonzero(self.row >= 0)
        self.dice = self.dice.part(self.batch, playing)
        self.batch = self.batch.part(playing)
        self.row, self.last_dive = self.row[playing], self.last_dive[playing]
