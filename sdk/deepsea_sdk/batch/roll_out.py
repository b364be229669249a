"""Thousands of roll-outs at once, of one position or of many.

Invariants: with given luck a trial ends as `deepsea_sdk.policies.play_on` ends it by the same
policy; games that have ended are left out as soon as they are a quarter of the batch.
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
"""The share of a batch that has to be playing, else it is made smaller."""


def roll_out_many(
    position: View | GameState,
    trials: int,
    policy: Policy,
    rng: np.random.Generator,
    *,
    to_end_of: EndOf = "game",
) -> Results:
    """Play a position to the end of the game, or of the dive, so many times: [trials, seats].

    Of a view the hidden values are dealt anew for each trial; those of a state are as they are.
    Dice are drawn, and belong to a seat's turn in a dive.
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
    """Play positions of one rule set and number of seats on, each in some trials.

    luck    values and dice of all trials; the states' own values do not matter
    trials  for each state the numbers of its trials; all of them where none are given

    The results have a row for each trial of the first state, then of the second, and so on. In a
    state of phase "order" all that are still to choose an order keep that of their cargo.
    """
    return _play_on(states, luck, policy, trials, to_end_of)[0]


def end_dives_many(
    states: Sequence[GameState], luck: Luck, policy: Policy, trials: Sequence[Array] | None = None
) -> tuple[Results, Array]:
    """Play positions on to the end of their dives, as `play_on_many`; and who begins the next one.

    That is a seat for each row of the results, or -1 where the game is over.
    """
    return _play_on(states, luck, policy, trials, "dive")


def _play_on(
    states: Sequence[GameState],
    luck: Luck,
    policy: Policy,
    trials: Sequence[Array] | None,
    to_end_of: EndOf,
) -> tuple[Results, Array]:
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
    for given, own in zip(states, trials, strict=True):
        rows = np.arange(end, end := end + len(own))
        last = given.dive if to_end_of == "dive" else DIVES
        state = _settled(given)
        if state.phase == "over" or state.dive > last:
            banks[rows] = [chip_bits(bank) for bank in state.bank]
            if state.phase != "over":
                starters[rows] = state.to_move
        else:
            playing.append((state, last, rows))
    if playing:
        _RollOuts(playing, luck, trial, banks, drowned, starters).play(policy)
    values = luck.values[trial]
    return results_of(banks, values, states[0].rules.tiebreak, drowned), starters


def _settled(state: GameState) -> GameState:
    if state.phase == "order":
        state = state.clone()
        while state.phase == "order":
            state.unchecked_order(state.legal[0])
    return state


class _RollOuts:
    """Games that are played on until their last dive has ended, as `banks` and `drowned` say."""

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
        """The row of `banks` of each game; -1 if it has ended."""
        counts = [len(rows) for _, _, rows in playing]
        self.last = np.repeat([last for _, last, _ in playing], counts)
        self.phase = np.repeat([state.phase for state, _, _ in playing], counts)
        self.left = len(self.row)
        self.batch = Batch(state.rules, state.players, self.left)
        self.dice = GivenDice(luck, trial[self.row], state.players)
        begin = 0
        for (state, _, _), count in zip(playing, counts, strict=True):
            put(self.batch, np.arange(begin, begin := begin + count), state)
        self.batch.values[:] = luck.values[trial[self.row]]

    def play(self, policy: Policy) -> None:
        """Finish the turns in hand, and play on."""
        batch = self.batch
        ended = []
        for phase in ("declare", "roll", "search"):
            turn = batch.turn(np.flatnonzero(self.phase == phase))
            if phase == "declare":
                batch.declare(turn, policy)
            if phase != "search":
                batch.move(turn, self.dice(batch, turn))
            ended.append(batch.search(turn, policy))
        self._end_dives(np.concatenate(ended), policy)
        while self.left:
            if self.left < _PLAYING * self.batch.games:
                self._leave_out()
            batch = self.batch
            turn = batch.turn()
            batch.declare(turn, policy)
            batch.move(turn, self.dice(batch, turn))
            self._end_dives(batch.search(turn, policy), policy)

    def _end_dives(self, games: Array, policy: Policy) -> None:
        """Go on to the next dive; of games whose last one it was only the banks are wanted."""
        if not len(games):
            return
        batch = self.batch
        last = batch.dive[games] >= self.last[games]
        batch.note_drowned(games[last])
        self._note_starters(games[last])
        over = batch.clean_up(games[~last], policy)
        over = np.concatenate([games[last], over])
        rows = self.row[over]
        counted = rows >= 0
        self.banks[rows[counted]] = batch.by_seat(batch.bank)[over[counted]]
        self.drowned[rows[counted]] = batch.drowned[over[counted]]
        self.left -= int(counted.sum())
        # They play on, because that takes less time than to leave them out at once.
        self.row[over] = -1
        batch.open(over, 0, 0)
        self.dice.begin_dive(batch, games)

    def _note_starters(self, games: Array) -> None:
        """Note who begins the next dive after the one with which roll-outs of these games end."""
        rows, batch = self.row[games], self.batch
        banked = np.bitwise_or.reduce(batch.by_seat(batch.bank)[games], axis=1)
        counted = (rows >= 0) & (batch.dive[games] < DIVES) & (banked != CHIP_BITS)
        games = games[counted]
        place, home = batch.by_seat(batch.place)[games], batch.by_seat(batch.home_rank)[games]
        self.starters[rows[counted]] = next_starters(batch.rules, place, home)

    def _leave_out(self) -> None:
        kept = np.flatnonzero(self.row >= 0)
        self.dice = self.dice.part(self.batch, kept)
        self.batch = self.batch.part(kept)
        self.row, self.last = self.row[kept], self.last[kept]
