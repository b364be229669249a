"""Roll-outs of thousands of games at once, with their deals and dice, of one position or of many.

Invariants: with given luck, a trial ends as `deepsea_sdk.policies.play_on` ends it with the same
policy. Given rolls belong to a seat's turn in a dive, as they do there. Games that are over are
removed as soon as they are a quarter of the batch. Values are arrays [games, 32], chip 1 first.

`put` and `state_of` convert positions between the reference engine and a batch. A position that is
read back is the same one for every player; but chips of one level in a stack, and the chips of a
bank, come in order of their ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cache
from itertools import permutations
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from deepsea_rules.actions import CHIPS, LEVEL_OF, LEVELS, Unit, values_of_level
from deepsea_rules.ruleset import DIVES, FACES, HOME, SEAT_LETTERS
from deepsea_rules.state import GameState
from deepsea_rules.view import View
from deepsea_sdk.policies import TURNS, dice_length

from .engine import Batch, Policy, Results, Turn, is_idle, results_of, taken_bits
from .units import (
    CHIP_BITS,
    SLOTS,
    SUMMED,
    U64,
    WIDTH,
    Array,
    chip_bits,
    next_starters,
    pack,
    unpack,
    unpack_trail,
)

EndOf: TypeAlias = Literal["game", "dive"]
_LEAST_PLAYING = 0.75
"""Share of a batch that has to be playing; below it, the games that are over are removed."""


def roll_out_many(
    position: View | GameState,
    trials: int,
    policy: Policy,
    rng: np.random.Generator,
    *,
    to_end_of: EndOf = "game",
) -> Results:
    """Play a position `trials` times with random dice, and return the results [trials, seats].

    Hidden values of a view are dealt anew for each trial; those of a state stay as they are. Dice
    are drawn for each turn of a seat in a dive, whatever the other seats do.
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
    """Play each position to its end once for each of its trials, and return the results.

    The results have a row for each trial of the first state, then of the second, and so on. In a
    state of phase "order", seats that have not chosen an order yet lay their cargo in pick-up
    order.

    states  positions with the same rules and number of seats; their chip values are not used
    luck    deals and dice of all trials
    trials  for each state the numbers of its trials in `luck`; by default all of them
    """
    return _play_on(states, luck, policy, trials, to_end_of)[0]


def end_dives_many(
    states: Sequence[GameState], luck: Luck, policy: Policy, trials: Sequence[Array] | None = None
) -> tuple[Results, Array]:
    """Play positions to the end of their dives; return the results and who begins the next dives.

    The arguments and the results are those of `play_on_many`. The second array has for each row of
    the results the seat that begins the next dive, or -1 if the game is over.
    """
    return _play_on(states, luck, policy, trials, "dive")


def _play_on(
    states: Sequence[GameState],
    luck: Luck,
    policy: Policy,
    trials: Sequence[Array] | None,
    to_end_of: EndOf,
) -> tuple[Results, Array]:
    """Return the results and the next starters of positions, as `end_dives_many` does.

    Positions that have nothing to play on get their results at once; all others are played as one
    batch.
    """
    if not states:
        raise ValueError("there is no position to play on")
    if trials is None:
        trials = [np.arange(len(luck.values))] * len(states)
    if len(trials) != len(states):
        raise ValueError(f"trials of {len(trials)} positions for {len(states)} positions")
    trial = np.concatenate(trials).astype(np.int64)
    wrong_trials = trial[(trial < 0) | (trial >= len(luck.values))]
    if len(wrong_trials):
        raise ValueError(
            f"trial {wrong_trials[0]} is none of the {len(luck.values)} that have luck"
        )
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
        state = _after_orders(given_state)
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


def _after_orders(state: GameState) -> GameState:
    """Return the state after its phase "order", if it is in that: all lay in pick-up order."""
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
        self.result_row = np.concatenate([rows for _, _, rows in playing])
        """[games] the row of each game in the arrays of results, or -1 if the game has ended.

        A game that has ended stays in the batch, and plays on unnoticed, until it is removed.
        """
        counts = [len(rows) for _, _, rows in playing]
        self.last_dive = np.repeat([last_dive for _, last_dive, _ in playing], counts)
        self.phase = np.repeat([state.phase for state, _, _ in playing], counts)
        self.playing_count = len(self.result_row)
        self.batch = Batch(state.rules, state.players, self.playing_count)
        self.dice = GivenDice(luck, trial[self.result_row], state.players)
        begin = 0
        for (state, _, _), count in zip(playing, counts, strict=True):
            put(self.batch, np.arange(begin, begin + count), state)
            begin += count
        self.batch.values[:] = luck.values[trial[self.result_row]]

    def play(self, policy: Policy) -> None:
        """Play all games to the end of their last dive."""
        self._finish_turns(policy)
        while self.playing_count:
            # Games that have ended play on unnoticed, which takes time if they are many.
            if self.playing_count < _LEAST_PLAYING * self.batch.games:
                self._remove_ended_games()
            batch = self.batch
            turn = batch.turn()
            batch.declare(turn, policy)
            batch.move(turn, self.dice(batch, turn))
            self._end_dives(batch.search(turn, policy), policy)

    def _finish_turns(self, policy: Policy) -> None:
        """Finish the turn that each position is in, from the phase that it is in."""
        batch = self.batch
        ended_dives = []

        declaring = batch.turn(np.flatnonzero(self.phase == "declare"))
        batch.declare(declaring, policy)
        batch.move(declaring, self.dice(batch, declaring))
        ended_dives.append(batch.search(declaring, policy))

        rolling = batch.turn(np.flatnonzero(self.phase == "roll"))
        batch.move(rolling, self.dice(batch, rolling))
        ended_dives.append(batch.search(rolling, policy))

        searching = batch.turn(np.flatnonzero(self.phase == "search"))
        ended_dives.append(batch.search(searching, policy))

        self._end_dives(np.concatenate(ended_dives), policy)

    def _end_dives(self, games: Array, policy: Policy) -> None:
        """End the dives of these games: begin the next ones, or store the results.

        Games that have ended their last dive need no clean-up, because then only the banks count.
        """
        if not len(games):
            return
        batch = self.batch
        is_last = batch.dive[games] >= self.last_dive[games]
        batch.note_drowned(games[is_last])
        self._store_starters(games[is_last])
        # The clean-up returns the games that end early, because all chips have been brought home.
        ended_early = batch.clean_up(games[~is_last], policy)
        over = np.concatenate([games[is_last], ended_early])
        self._store_results(over)
        # Games that are over begin anew, and play on unnoticed: to remove them from the batch after
        # each dive would take more time.
        batch.open(over, values=0, starter=0)
        self.dice.begin_dive(batch, games)

    def _store_results(self, over: Array) -> None:
        """Store the results of the games that have just ended.

        `over` may also have games that had ended before, and have played on since: they are left
        out. Their row in the results is -1.
        """
        batch = self.batch
        just_ended = over[self.result_row[over] >= 0]
        rows = self.result_row[just_ended]
        self.banks[rows] = batch.by_seat(batch.bank)[just_ended]
        self.drowned[rows] = batch.drowned[just_ended]
        self.playing_count -= len(just_ended)
        self.result_row[just_ended] = -1

    def _store_starters(self, games: Array) -> None:
        """Store the seats that would begin the next dives of games that end with this dive.

        There is no next dive after the third one, nor if all chips have been brought home.
        """
        batch = self.batch
        rows = self.result_row[games]
        is_counted = rows >= 0  # the row is -1 for a game that had ended before
        all_banked = np.bitwise_or.reduce(batch.by_seat(batch.bank)[games], axis=1)
        has_next_dive = is_counted & (batch.dive[games] < DIVES) & (all_banked != CHIP_BITS)
        games = games[has_next_dive]
        place = batch.by_seat(batch.place)[games]
        home_rank = batch.by_seat(batch.home_rank)[games]
        self.starters[rows[has_next_dive]] = next_starters(batch.rules, place, home_rank)

    def _remove_ended_games(self) -> None:
        """Replace the batch by one without the games that have ended."""
        playing = np.flatnonzero(self.result_row >= 0)
        self.dice = self.dice.part(self.batch, playing)
        self.batch = self.batch.part(playing)
        self.result_row = self.result_row[playing]
        self.last_dive = self.last_dive[playing]


def put(batch: Batch, games: Array, state: GameState) -> None:
    """Make these games copies of a position in phase "declare", "roll" or "search".

    The phase names the stage to play next; the batch does not remember it. Raise ValueError for a
    position of other rules or seats, and for one that no game can reach: a diver with too many
    units, a stack of too many chips.
    """
    if state.rules != batch.rules or state.players != batch.players:
        raise ValueError(
            f"the batch plays {batch.rules.name} with {batch.players} seats, and the position "
            f"{state.rules.name} with {state.players}"
        )
    if state.phase in ("order", "over"):
        raise ValueError(f"a position in phase {state.phase} has no turn to play: {state}")
    trail, cargo = _packed_trail_and_cargo(batch, state)
    batch.idle -= int(is_idle(batch.dive[games]).sum())
    batch.drowned[games] = 0  # unknown for earlier dives
    batch.dive[games] = state.dive
    batch.air[games] = state.air
    batch.quiet_turns[games] = state.quiet_turns
    batch.to_move[games] = state.to_move
    batch.out[games] = state.players - len(state.home_order)
    batch.breath[games] = sum(map(len, state.cargo))
    batch.last[games] = len(state.trail) - 1
    # `homes` is 8 × the bits of the seats at home, as the index of `next_seats` needs it.
    home_bits = sum(1 << seat for seat in state.home_order)
    batch.homes[games] = 8 * home_bits
    batch.taken[games] = taken_bits(len(state.trail) - 1, state.place)
    batch.trail[games] = trail
    batch.values[games] = state.values[1:]
    banks = zip(state.bank, state.banked_earlier, strict=True)
    batch.banked_earlier[games] = sum(chip_bits(bank[:earlier]) for bank, earlier in banks)
    for seat in range(state.players):
        divers = games * state.players + seat
        batch.place[divers] = state.place[seat]
        batch.homeward[divers] = state.homeward[seat]
        batch.barred[divers] = state.barred[seat]
        batch.load[divers] = len(state.cargo[seat])
        is_home = seat in state.home_order
        batch.home_rank[divers] = state.home_order.index(seat) + 1 if is_home else 0
        batch.cargo[divers] = cargo[seat]
        batch.carried[divers] = (cargo[seat] & SUMMED).sum(dtype=U64)
        batch.bank[divers] = chip_bits(state.bank[seat])


def _packed_trail_and_cargo(batch: Batch, state: GameState) -> tuple[Array, Array]:
    """Return a position's trail [WIDTH] and cargo [seats, SLOTS] as packed units.

    Raise ValueError with the place of a unit that does not fit.
    """
    if len(state.trail) > WIDTH:
        raise ValueError(f"a trail of {len(state.trail) - 1} spaces; up to 32 are possible")
    trail = np.zeros(WIDTH, U64)
    for space, unit in enumerate(state.trail):
        trail[space] = _number(batch, unit, f"space {space}", unit in state.laid)
    cargo = np.zeros((state.players, SLOTS), U64)
    for seat, units in enumerate(state.cargo):
        owner = f"seat {SEAT_LETTERS[seat]}"
        if len(units) >= SLOTS:  # the last slot always stays free
            raise ValueError(f"{owner}: {len(units)} units; up to {SLOTS - 1} are possible")
        for slot, unit in enumerate(units):
            cargo[seat, slot] = _number(batch, unit, owner)
    return trail, cargo


def _number(batch: Batch, unit: Unit, owner: str, laid: bool = False) -> int:
    """Return the packed unit; `owner` begins the message of its ValueError."""
    try:
        return pack(unit, batch.by_chip, laid)
    except ValueError as error:
        raise ValueError(f"{owner}: {error}") from None


def state_of(
    batch: Batch, game: int, phase: Literal["declare", "roll", "search", "over"] = "declare"
) -> GameState:
    """Return the position of a game as one of the reference engine.

    phase  the stage that is to be played next, which the batch does not know
    """
    players = batch.players
    state = GameState(batch.rules, (0, *batch.values[game].tolist()), players)
    state.dive = min(int(batch.dive[game]), DIVES)
    state.air = int(batch.air[game])
    state.phase = phase
    state.to_move = int(batch.to_move[game])
    state.quiet_turns = int(batch.quiet_turns[game])
    numbers = batch.trail[game, : batch.last[game] + 1]
    state.trail, state.laid = unpack_trail(numbers, batch.by_chip)
    divers = range(game * players, (game + 1) * players)
    state.place = batch.place[divers].tolist()
    state.homeward = batch.homeward[divers].tolist()
    state.barred = batch.barred[divers].tolist()
    state.cargo = [
        tuple(unpack(n, batch.by_chip) for n in batch.cargo[diver, : batch.load[diver]].tolist())
        for diver in divers
    ]
    # In a bank of the engine, the chips of earlier dives come first.
    banked_earlier = set(_chips(int(batch.banked_earlier[game])))
    banks = [_chips(int(bank)) for bank in batch.bank[divers]]
    earlier_chips = [[chip for chip in bank if chip in banked_earlier] for bank in banks]
    state.bank = [
        (*earlier_of_seat, *(chip for chip in bank if chip not in earlier_of_seat))
        for earlier_of_seat, bank in zip(earlier_chips, banks, strict=True)
    ]
    state.banked_earlier = tuple(map(len, earlier_chips))
    ranks = batch.home_rank[divers].tolist()
    home = [seat for seat in range(players) if state.place[seat] == HOME]
    state.home_order = tuple(sorted(home, key=ranks.__getitem__))
    state.refresh()
    return state


def _chips(bits: int) -> tuple[int, ...]:
    """Return the ids of the chips whose bits are set; chip 1 is the lowest bit."""
    return tuple([chip for chip in CHIPS if (bits >> (chip - 1)) & 1])


_SUMS = np.array([d1 + d2 for d1 in FACES for d2 in FACES], np.int8)
"""The sums of two dice for the nine rolls."""
_DRAWN = 64
"""Turns of a batch for which dice are drawn at once."""


_LOWEST = np.array([[values_of_level(level)[0]] for level in LEVELS], np.uint8)
"""[levels, 1] the lowest value of each level."""


@cache
def _deals_of_level() -> Array:
    """Return the 2,520 different deals of the values of level 1 to its eight chips."""
    return np.array(sorted(set(permutations(values_of_level(1)))), np.uint8)


def deal_many(rng: np.random.Generator, games: int) -> Array:
    """Return the values of the chips of so many games, dealt at random: [games, 32]."""
    deals = _deals_of_level()
    dealt = deals.take(rng.integers(0, len(deals), (games, len(LEVELS))), axis=0)
    # The values of a level are those of level 1 plus a constant.
    return (dealt + _LOWEST).reshape(games, len(CHIPS))


def deal_unseen(view: View, rng: np.random.Generator, trials: int) -> Array:
    """Return the values of chips 1 to 32 for so many trials: [trials, 32].

    Values that the view knows are the same in all trials. The others are dealt at random within
    their level, as `view.sample` does for a single trial.
    """
    values = np.zeros((trials, len(CHIPS)), np.uint8)
    for level in LEVELS:
        # The columns of the level's chips with a hidden value; chip 1 has column 0.
        hidden = [chip - 1 for chip in CHIPS if LEVEL_OF[chip] == level and chip not in view.known]
        if hidden:
            unseen_values = np.array(view.unseen(level), np.uint8)
            # To sort random keys gives a random order of these values for each trial.
            order = rng.random((trials, len(hidden))).argsort(axis=1)
            values[:, hidden] = unseen_values[order]
    for chip, value in view.known.items():
        values[:, chip - 1] = value
    return values


def open_random(batch: Batch, games: Array, rng: np.random.Generator) -> None:
    """Begin games anew with random deals, and with random starters where the rules say so."""
    count = len(games)
    starters = rng.integers(0, batch.players, count)
    if batch.rules.first_player == "seat_a":
        starters[:] = 0
    batch.open(games, deal_many(rng, count), starters)


class RandomDice:
    """Dice that are drawn at random, for many turns at once."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._sums = np.zeros(0, np.int8)

    def __call__(self, batch: Batch, turn: Turn) -> Array:
        count = len(turn.diver)
        if len(self._sums) < count:
            self._sums = _SUMS.take(self._rng.integers(0, len(_SUMS), _DRAWN * count, np.uint8))
        sums, self._sums = self._sums[:count], self._sums[count:]
        return sums


class Luck(NamedTuple):
    """Deals and dice of some trials."""

    values: Array
    """[trials, 32] values of the chips."""
    rolls: Array
    """Numbers of rolls from 0 to 8, as `dice_of` makes them: [trials, most rolls].

    They are 0 beyond `length`.
    """
    length: Array
    """[trials] the number of rolls. Turns beyond them use them again from the first one."""


def draw_luck(position: View | GameState, rng: np.random.Generator, trials: int) -> Luck:
    """Return random deals and dice for so many trials of a position.

    Hidden values of a view are dealt anew for each trial; those of a state stay as they are.
    """
    length = dice_length(position.players)
    rolls = rng.integers(0, len(_SUMS), (trials, length), np.uint8)
    if isinstance(position, View):
        values = deal_unseen(position, rng, trials)
    else:
        values = np.tile(np.array(position.values[1:], np.uint8), (trials, 1))
    return Luck(values, rolls, np.full(trials, length))


def given_luck(deals: Sequence[Sequence[int]], dice: Sequence[bytes]) -> Luck:
    """Return the luck of trials whose deals and dice are given, as arrays.

    deals  for each trial the values of all chips, as `GameState.values`
    dice   for each trial its rolls, as from `dice_of`; trials may have different numbers of rolls
    """
    if len(deals) != len(dice):
        raise ValueError(f"{len(deals)} deals and dice for {len(dice)} trials")
    length = np.array([len(rolls) for rolls in dice])
    rolls = np.zeros((len(dice), length.max(initial=0)), np.uint8)
    for row, rolled in zip(rolls, dice, strict=True):
        row[: len(rolled)] = np.frombuffer(rolled, np.uint8)
    # `GameState.values` begins with a 0, so that chips count from 1.
    return Luck(np.array(deals, np.uint8)[:, 1:], rolls, length)


class GivenDice:
    """Dice of a batch whose games are trials with given luck.

    luck    luck of all trials
    trials  [games] the trial of each game of the batch
    """

    def __init__(self, luck: Luck, trials: Array, players: int) -> None:
        self._rolls = luck.rolls.reshape(-1)
        self.first = trials.astype(np.int64) * luck.rolls.shape[1]
        self.length = luck.length[trials]
        self.turns_made = np.zeros(len(trials) * players, np.int64)
        """Turns of each diver in its game's dive, from the position on."""

    def __call__(self, batch: Batch, turn: Turn) -> Array:
        """Return the sums of two dice for the divers to move, and count their turns."""
        turns_made = self.turns_made[turn.diver]
        self.turns_made[turn.diver] = turns_made + 1
        # A trial's rolls are numbered by dive, then seat, then the seat's turn in the dive.
        index = turn.of(batch.dive) - np.int64(1)
        index *= batch.players
        index += turn.of(batch.to_move)
        index *= TURNS
        index += turns_made
        index %= turn.of(self.length)
        index += turn.of(self.first)
        return _SUMS.take(self._rolls.take(index))

    def begin_dive(self, batch: Batch, games: Array) -> None:
        """Count the turns of these games anew."""
        batch.by_seat(self.turns_made)[games] = 0

    def part(self, batch: Batch, games: Array) -> GivenDice:
        """Return the dice for `batch.part(games)`."""
        other = copy(self)
        other.first, other.length = self.first[games], self.length[games]
        other.turns_made = batch.by_seat(self.turns_made)[games].reshape(-1)
        return other
