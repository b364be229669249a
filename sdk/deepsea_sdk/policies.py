"""Playing positions on: the chance to get home, roll-outs, and a policy that decides in them.

Invariants: a policy reads what everybody knows, so it answers for a view as well. Seats that are
not to move never matter. Other constants of `steady` need another version, because values by
roll-outs depend on them.

The constants of `steady`, nine for each number of seats, were fitted in games of the policy against
itself; docs/dev/field.md tells how.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache, lru_cache
from hashlib import shake_256
from typing import Literal, NamedTuple, TypeAlias

from deepsea_rules.actions import BACK, CHIPS, DOWN, LEAVE, LEVEL_OF, TAKE, drop
from deepsea_rules.randomness import NumberSource
from deepsea_rules.ruleset import DIVES, FACES, FULL_AIR
from deepsea_rules.state import GameState
from deepsea_rules.view import View

# Exact probabilities: a roll of two dice moves a diver max(0, roll - load) spaces each turn

_DICE = tuple([(d1, d2) for d1 in FACES for d2 in FACES])
ROLLS = {roll: n / len(_DICE) for roll, n in sorted(Counter(map(sum, _DICE)).items())}
"""Probability of each sum of the two dice."""
MANY_TURNS = 20
"""Largest result of `turns_left`: no way home takes longer."""


@cache
def home_chance(distance: int, load: int, turns: int) -> float:
    """Return the probability to swim `distance` spaces with `load` units in `turns` turns.

    Spaces of other divers are skipped and not counted, so with divers on the way the true
    probability is higher.
    """
    if distance <= 0:
        return 1.0
    if turns <= 0:
        return 0.0
    return sum(
        chance * home_chance(distance - max(0, roll - load), load, turns - 1)
        for roll, chance in ROLLS.items()
    )


def turns_left(position: View | GameState, load: int) -> int:
    """Return how often the seat to move can still roll until the air is used up.

    It is assumed that this seat carries `load` units from now on and the others keep their cargo.
    The current roll counts if it is still to be made, and so does the turn that uses the last air.
    The result is `MANY_TURNS` at most.
    """
    others_load = sum(map(len, position.cargo)) - len(position.cargo[position.to_move])
    air_per_round = others_load + load  # each diver breathes one air for each unit that it carries
    if not air_per_round:
        return MANY_TURNS
    # Before its declaration the seat is the next to breathe; later all others breathe before it.
    air = position.air if position.phase == "declare" else position.air - others_load
    later_rolls = max(0, -(-air // air_per_round))  # air / air_per_round, rounded up
    current_roll = 1 if position.phase == "roll" else 0
    return min(later_rolls + current_roll, MANY_TURNS)


# Roll-outs, the smallest building block of search

Policy: TypeAlias = Callable[[GameState], str]
"""Function that chooses one of `state.legal` for the seat to move."""

TURNS = 32
"""Turns of a seat in a dive that have dice of their own: more than a dive has as a rule.

Later turns use the dice of others again.
"""
_ROLL_OF_BYTE = bytes([byte % len(_DICE) for byte in range(256)])
_TOO_LARGE = bytes(range(256 - 256 % len(_DICE), 256))
"""Bytes that are left out, because with them some rolls would be more likely than others."""


class TurnDice:
    """Dice that belong to a seat's turn in a dive, for `roll_out`.

    Positions that are played on with the same dice differ only in the actions, and not in who rolls
    what. So a comparison of actions takes fewer trials than with one stream of dice for all seats.
    """

    __slots__ = ("rolls",)

    def __init__(self, rng: NumberSource, players: int) -> None:
        """Draw the dice for a number of players, with one number from `rng`."""
        label = b"%d" % int(rng.random() * 2**53)
        self.rolls = dice_of(shake_256(label).digest(dice_length(players)))


def dice_length(players: int) -> int:
    """Return the number of random bytes that `dice_of` needs for a game."""
    return DIVES * players * TURNS


def dice_of(random_bytes: bytes) -> bytes:
    """Return dice for `play_on`: for each turn a byte from 0 to 8, one of the nine rolls.

    Random bytes that would make the rolls uneven are dropped.
    """
    return random_bytes.translate(_ROLL_OF_BYTE, _TOO_LARGE)


def roll_out(
    state: GameState,
    rng: NumberSource | TurnDice,
    policy: Policy | None = None,
    *,
    to_end_of: Literal["game", "dive"] = "game",
) -> tuple[int, ...]:
    """Play `state` to the end of the game or of the dive, and return the points of each seat.

    rng     source of the dice: a `random.Random`, any object with its `random()`, or `TurnDice`,
            which need a policy
    policy  chooses for all seats where there are several actions, such as `steady`; by default all
            choose at random

    The state is changed: pass a `clone()` if it is needed later, and as a rule one of
    `view.sample(rng)`. Raise `IllegalAction` if the policy returns an action that is not legal.
    """
    if isinstance(rng, TurnDice):
        if policy is None:
            raise TypeError("with TurnDice a policy chooses, such as `steady`")
        play_on(state, rng.rolls, policy, state.dive if to_end_of == "dive" else DIVES)
        return state.points()
    random = rng.random
    last_dive = state.dive if to_end_of == "dive" else DIVES
    while (phase := state.phase) != "over" and state.dive <= last_dive:
        legal = state.legal
        if policy is not None and len(legal) > 1:
            state.apply(policy(state))
            continue
        action = legal[0] if legal else None
        if policy is None and legal:
            action = legal[int(random() * len(legal))]
        if phase == "declare":
            state.unchecked_declare(action)
        elif phase != "roll":
            assert action is not None
            if phase == "search":
                state.unchecked_search(action)
            else:
                state.unchecked_order(action)
            continue
        d1, d2 = _DICE[int(random() * 9)]
        state.unchecked_move(d1, d2)
    return state.points()


def play_on(state: GameState, dice: bytes, policy: Policy, last: int = DIVES) -> None:
    """Play a state to the end of the game, or of the dive `last`, with one policy for all.

    dice  rolls as from `dice_of`; a seat's turns in a dive count from this position on
    """
    # No helper functions: an analysis spends nearly all its time here.
    players = state.players
    declare, move, search = state.unchecked_declare, state.unchecked_move, state.unchecked_search
    count = len(dice)
    dive = 0
    turns: list[int] = []
    while (phase := state.phase) != "over" and state.dive <= last:
        if phase == "declare" or phase == "roll":
            if phase == "declare":
                legal = state.legal
                declare(policy(state) if len(legal) > 1 else legal[0] if legal else None)
            if state.dive != dive:
                dive = state.dive
                # The index of each seat's next roll in this dive
                turns = [TURNS * (players * (dive - 1) + seat) for seat in range(players)]
            seat = state.to_move
            d1, d2 = _DICE[dice[turns[seat] % count]]
            turns[seat] += 1
            move(d1, d2)
            phase = state.phase
        if phase == "search":
            legal = state.legal
            search(policy(state) if len(legal) > 1 else legal[0])
        elif phase == "order":
            state.unchecked_order(policy(state))


# The steady policy

STEADY_VERSION = "steady-2"
"""Name and version of the policy, for results that depend on it."""


class Numbers(NamedTuple):
    """Constants of the policy; those of three values have one for each dive."""

    turn_back: tuple[float, float, float]
    """Turn back when after one more move down the chance to get home would be below this."""
    next_move: int
    """Spaces of that move, less one for each carried unit; the move has at least one."""
    first_unit: tuple[float, float, float]
    """Take a first unit if its worth in points, times its chance to get home, is at least this."""
    next_unit: float
    """Take another unit if that multiplies the points expected at home by more than this."""
    drop_unit: float
    """Drop the poorest unit if that multiplies the points expected at home by more than this."""


STEADY: Mapping[int, Numbers] = {
    2: Numbers((0.993, 1.0, 0.999), 7, (3.253, 6.811, 6.932), 0.632, 1.223),
    3: Numbers((1.0, 0.973, 0.962), 4, (2.27, 2.516, 2.883), 0.569, 1.627),
    4: Numbers((0.999, 0.912, 0.885), 4, (2.256, 2.595, 4.288), 0.591, 1.687),
    5: Numbers((0.997, 0.868, 0.799), 4, (2.272, 2.122, 3.922), 0.358, 1.628),
    6: Numbers((0.91, 0.957, 0.949), 4, (0.129, 1.777, 2.249), 0.301, 1.724),
}
"""Constants by the number of seats."""

_FARTHEST = 40
"""The number of distances of the table.

A diver at the end of the longest trail, after one more move, is nearer.
"""
_HEAVIEST = 6
"""Units with which no roll moves a diver."""


HomeChances: TypeAlias = tuple[tuple[tuple[float, ...], ...], ...]
"""Chances to get home, by load, turns and distance."""


@cache
def home_chances() -> HomeChances:
    """Return the chances that a diver comes home, as `table[load][turns][distance]`.

    It has an entry for each number of carried units, of turns that are left, and of spaces to the
    submarine that can occur in a game.
    """
    table = []
    for load in range(_HEAVIEST + 1):
        by_turns = []
        for turns in range(MANY_TURNS + 1):
            chances = [home_chance(distance, load, turns) for distance in range(_FARTHEST)]
            # Rounded, because the last bits of a sum depend on the version of Python.
            by_turns.append(tuple([round(chance, 9) for chance in chances]))
        # More than MANY_TURNS are as good as MANY_TURNS.
        by_turns += [by_turns[-1]] * (FULL_AIR - MANY_TURNS)
        table.append(tuple(by_turns))
    # A diver with more than _HEAVIEST units cannot swim, just as with _HEAVIEST.
    table += [table[-1]] * len(CHIPS)
    return tuple(table)


MEAN_VALUES = tuple([4 * level - 2.5 if level else 0.0 for level in LEVEL_OF])
"""The mean of the values that a chip may have while no value of its level is known, by chip id."""


@lru_cache(maxsize=4096)
def mean_worth(unit: Sequence[int]) -> float:
    """Return the mean worth of a unit in points: the sum of its chips' means."""
    return sum([MEAN_VALUES[chip] for chip in unit])


def policy(numbers: Numbers) -> Callable[[View | GameState], str]:
    """Return a policy for `roll_out` with these constants."""
    turn_back, next_move, first_unit, next_unit, drop_unit = numbers
    chances: HomeChances = ()

    def choose(position: View | GameState) -> str:
        """Return the action of the seat to move: one of `legal`, by what everybody knows."""
        # No helper functions: roll-outs spend much of their time here. -(-a // b) is a / b,
        # rounded up: the turns that the air leaves.
        nonlocal chances
        legal = position.legal
        if len(legal) < 2:
            return legal[0]
        if not chances:  # computed late: every bot imports this, and few use it
            chances = home_chances()
        phase = position.phase
        seat = position.to_move
        own = position.cargo[seat]
        load = len(own)
        if phase == "declare":
            if not load:
                return DOWN
            turns = -(-position.air // sum(map(len, position.cargo))) - 1
            deeper = position.place[seat] + (next_move - load if load < next_move else 1)
            return BACK if chances[load][turns][deeper] < turn_back[position.dive - 1] else DOWN
        if phase != "search":
            return legal[0]  # a stranded diver keeps the pick-up order
        breath = sum(map(len, position.cargo))
        # All others breathe before this seat's next turn.
        air = position.air - breath + load
        if air < 0:
            air = 0
        place = position.place[seat]
        if TAKE in legal:
            unit = position.trail[place]
            chance = chances[load + 1][-(-air // (breath + 1))][place]
            if not load:
                is_worth_it = chance * mean_worth(unit) >= first_unit[position.dive - 1]
                return TAKE if is_worth_it else LEAVE
            points = sum(map(mean_worth, own))
            # The points without the unit are chance times `points`, and count `next_unit` times.
            factor = next_unit * chances[load][-(-air // breath)][place]
            return TAKE if chance * (points + mean_worth(unit)) > factor * points else LEAVE
        poorest = min(own, key=mean_worth)
        points = sum(map(mean_worth, own))
        turns = -(-air // (breath - 1)) if breath > 1 else MANY_TURNS
        expected = chances[load - 1][turns][place] * (points - mean_worth(poorest))
        factor = drop_unit * chances[load][-(-air // breath)][place]
        return drop(poorest) if expected > factor * points else LEAVE

    return choose


_POLICIES = {seats: policy(numbers) for seats, numbers in STEADY.items()}


def steady(position: View | GameState) -> str:
    """Return the action of the seat to move by what everybody knows; also the coach's policy."""
    return _POLICIES[position.players](position)
