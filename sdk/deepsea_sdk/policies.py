"""Playing positions on: the chance to get home, roll-outs, and a policy that decides in them.

Invariants: a policy reads what everybody knows, so it answers for a view as well; a seat that is
not to move never matters; other numbers of `steady` are another version, because values by
roll-outs depend on them.

The numbers of `steady`, nine for each number of seats, were found in games of the policy against
itself; docs/dev/field.md has the whole course.
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
"""The probability of each sum of the two dice."""
MANY_TURNS = 20
"""The largest result of `turns_left`: no way home takes longer."""


@cache
def home_chance(distance: int, load: int, turns: int) -> float:
    """The probability to swim `distance` spaces with `load` units in at most `turns` turns.

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
    """The number of rolls that the seat to move still gets if it carries `load` units from now on.

    Assumes that the others keep their cargo. The current roll counts if it is still to be made, and
    so does the turn that uses the last air. At most `MANY_TURNS`.
    """
    others = sum(map(len, position.cargo)) - len(position.cargo[position.to_move])
    breath = others + load
    if not breath:
        return MANY_TURNS
    # Before its declaration the air is all for the seat; later the others breathe before it does.
    air = position.air if position.phase == "declare" else position.air - others
    later = max(0, -(-air // breath)) + (position.phase == "roll")
    return min(later, MANY_TURNS)


# Roll-outs, the smallest building block of search

Policy: TypeAlias = Callable[[GameState], str]
"""Chooses one of `state.legal` for the seat to move."""

TURNS = 32
"""More turns than a seat has in a dive; those of a longer one repeat others' dice."""
_ROLL_OF_BYTE = bytes([byte % len(_DICE) for byte in range(256)])
_TOO_LARGE = bytes(range(256 - 256 % len(_DICE), 256))
"""Bytes that would favour some rolls."""


class TurnDice:
    """Dice that belong to a seat's turn in a dive, for `roll_out`.

    Positions that are played on with the same ones differ in what is done, and not in who rolls
    what: comparing actions takes fewer trials than with one stream of dice for all.
    """

    __slots__ = ("rolls",)

    def __init__(self, rng: NumberSource, players: int) -> None:
        """Draw the dice for a number of players; takes one number from `rng`."""
        label = b"%d" % int(rng.random() * 2**53)
        self.rolls = dice_of(shake_256(label).digest(dice_length(players)))


def dice_length(players: int) -> int:
    """The number of random bytes that `dice_of` needs for a game."""
    return DIVES * players * TURNS


def dice_of(random_bytes: bytes) -> bytes:
    """Dice for `play_on`: a byte from 0 to 8 for each turn, one of the nine rolls."""
    return random_bytes.translate(_ROLL_OF_BYTE, _TOO_LARGE)


def roll_out(
    state: GameState,
    rng: NumberSource | TurnDice,
    policy: Policy | None = None,
    *,
    to_end_of: Literal["game", "dive"] = "game",
) -> tuple[int, ...]:
    """Play `state` to the end of the game, or of the dive; the points of each seat then.

    rng     gives the dice: a `random.Random`, whatever has its `random()`, or `TurnDice`, which
            need a policy
    policy  chooses for all seats wherever there is more than one action, such as `steady`; without
            one all choose at random

    The state is used up: pass a `clone()` of what is still needed, as a rule of `view.sample(rng)`.
    Raises `IllegalAction` if the policy returns what is not legal.
    """
    if isinstance(rng, TurnDice):
        if policy is None:
            raise TypeError("with TurnDice a policy chooses, such as `steady`")
        play_on(state, rng.rolls, policy, state.dive if to_end_of == "dive" else DIVES)
        return state.points()
    random = rng.random
    last = state.dive if to_end_of == "dive" else DIVES
    while (phase := state.phase) != "over" and state.dive <= last:
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
            (state.unchecked_search if phase == "search" else state.unchecked_order)(action)
            continue
        d1, d2 = _DICE[int(random() * 9)]
        state.unchecked_move(d1, d2)
    return state.points()


def play_on(state: GameState, dice: bytes, policy: Policy, last: int = DIVES) -> None:
    """Play a state to the end of the game, or of the dive `last`; all seats decide by the policy.

    dice  of a trial's luck; turns count from the position on
    """
    # Written out, because an analysis spends nearly all its time here.
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
"""The name and version of the policy, for results that depend on it."""


class Numbers(NamedTuple):
    """What the policy goes by; those of three are by dive."""

    turn_back: tuple[float, float, float]
    """Turn back when after one more move down the chance to get home would be below this."""
    next_move: int
    """The spaces of that move, less one for each unit that is carried; at least one."""
    first_unit: tuple[float, float, float]
    """Take a first unit that is worth this many points, times its chance to get home."""
    next_unit: float
    """Take another one if that multiplies the points expected at home by more than this."""
    drop_unit: float
    """Drop the poorest one if that multiplies the points expected at home by more than this."""


STEADY: Mapping[int, Numbers] = {
    2: Numbers((0.993, 1.0, 0.999), 7, (3.253, 6.811, 6.932), 0.632, 1.223),
    3: Numbers((1.0, 0.973, 0.962), 4, (2.27, 2.516, 2.883), 0.569, 1.627),
    4: Numbers((0.999, 0.912, 0.885), 4, (2.256, 2.595, 4.288), 0.591, 1.687),
    5: Numbers((0.997, 0.868, 0.799), 4, (2.272, 2.122, 3.922), 0.358, 1.628),
    6: Numbers((0.91, 0.957, 0.949), 4, (0.129, 1.777, 2.249), 0.301, 1.724),
}
"""By the number of seats."""

_FARTHEST = 40
"""Farther than any trail, and one more move, reaches."""
_HEAVIEST = 6
"""With so many units no roll moves a diver."""


HomeChances: TypeAlias = tuple[tuple[tuple[float, ...], ...], ...]
"""Chances to get home, by load, turns and distance."""


@cache
def home_chances() -> HomeChances:
    """`home_chance` by load, turns and distance, for as many of each as there can be."""
    table = []
    for load in range(_HEAVIEST + 1):
        # Rounded, because the last bits of a sum depend on the version of Python.
        rows = [
            tuple([round(home_chance(distance, load, turns), 9) for distance in range(_FARTHEST)])
            for turns in range(MANY_TURNS + 1)
        ]
        table.append((*rows, *[rows[-1]] * (FULL_AIR - MANY_TURNS)))
    return (*table, *[table[-1]] * len(CHIPS))


MEAN_VALUES = tuple([4 * level - 2.5 if level else 0.0 for level in LEVEL_OF])
"""By chip id, the mean of the values that it may have, as long as none has been seen."""


@lru_cache(maxsize=4096)
def mean_worth(unit: Sequence[int]) -> float:
    """The mean worth of a unit's chips."""
    return sum([MEAN_VALUES[chip] for chip in unit])


def policy(numbers: Numbers) -> Callable[[View | GameState], str]:
    """A policy for `roll_out` that goes by these numbers."""
    turn_back, next_move, first_unit, next_unit, drop_unit = numbers
    homes: HomeChances = ()

    def choose(position: View | GameState) -> str:
        """The action of the seat to move: one of `legal`, by what everybody knows."""
        # Written out, because roll-outs spend much of their time here.
        nonlocal homes
        legal = position.legal
        if len(legal) < 2:
            return legal[0]
        if not homes:  # only now: every bot imports this, and few of them ask
            homes = home_chances()
        phase = position.phase
        seat = position.to_move
        own = position.cargo[seat]
        load = len(own)
        if phase == "declare":
            if not load:
                return DOWN
            turns = -(-position.air // sum(map(len, position.cargo))) - 1
            deeper = position.place[seat] + (next_move - load if load < next_move else 1)
            return BACK if homes[load][turns][deeper] < turn_back[position.dive - 1] else DOWN
        if phase != "search":
            return legal[0]
        breath = sum(map(len, position.cargo))
        # The others breathe before this seat does again.
        air = position.air - breath + load
        if air < 0:
            air = 0
        place = position.place[seat]
        if TAKE in legal:
            unit = position.trail[place]
            chance = homes[load + 1][-(-air // (breath + 1))][place]
            if not load:
                good = chance * mean_worth(unit) >= first_unit[position.dive - 1]
                return TAKE if good else LEAVE
            points = sum(map(mean_worth, own))
            factor = next_unit * homes[load][-(-air // breath)][place]
            return TAKE if chance * (points + mean_worth(unit)) > factor * points else LEAVE
        poorest = min(own, key=mean_worth)
        points = sum(map(mean_worth, own))
        turns = -(-air // (breath - 1)) if breath > 1 else MANY_TURNS
        rest = homes[load - 1][turns][place] * (points - mean_worth(poorest))
        factor = drop_unit * homes[load][-(-air // breath)][place]
        return drop(poorest) if rest > factor * points else LEAVE

    return choose


_POLICIES = {seats: policy(numbers) for seats, numbers in STEADY.items()}


def steady(position: View | GameState) -> str:
    """The action of the seat to move, by what everybody knows; the coach plays on with it."""
    return _POLICIES[position.players](position)
