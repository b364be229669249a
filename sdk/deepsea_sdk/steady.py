"""The steady policy: nine numbers for each number of seats, that decide for all in roll-outs.

Invariants: it reads what everybody knows, so it answers for a view as well; a seat that is not to
move never matters; other numbers are another version, because values by roll-outs depend on them.

They were found in games of the policy against itself. bench/tune_steady.py searches for such
numbers and shows what they are worth; docs/dev/field.md has the whole course.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Final, NamedTuple, TypeAlias

from deepsea_rules.actions import BACK, CHIPS, DOWN, LEAVE, LEVEL_OF, TAKE, Unit, drop
from deepsea_rules.ruleset import FULL_AIR
from deepsea_rules.state import GameState
from deepsea_rules.view import View

from .chances import MANY_TURNS, home_chance

VERSION: Final = "steady-2"
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


STEADY: Final[Mapping[int, Numbers]] = {
    2: Numbers((0.993, 1.0, 0.999), 7, (3.253, 6.811, 6.932), 0.632, 1.223),
    3: Numbers((1.0, 0.973, 0.962), 4, (2.27, 2.516, 2.883), 0.569, 1.627),
    4: Numbers((0.999, 0.912, 0.885), 4, (2.256, 2.595, 4.288), 0.591, 1.687),
    5: Numbers((0.997, 0.868, 0.799), 4, (2.272, 2.122, 3.922), 0.358, 1.628),
    6: Numbers((0.91, 0.957, 0.949), 4, (0.129, 1.777, 2.249), 0.301, 1.724),
}
"""By the number of seats."""

_FARTHEST: Final = 40
"""Farther than any trail, and one more move, reaches."""
_HEAVIEST: Final = 6
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


@lru_cache(maxsize=4096)
def _worth(unit: Unit) -> float:
    """The mean value of a unit's chips, as long as none has been seen."""
    return sum([4 * LEVEL_OF[chip] - 2.5 for chip in unit])


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
                good = chance * _worth(unit) >= first_unit[position.dive - 1]
                return TAKE if good else LEAVE
            points = sum(map(_worth, own))
            factor = next_unit * homes[load][-(-air // breath)][place]
            return TAKE if chance * (points + _worth(unit)) > factor * points else LEAVE
        poorest = min(own, key=_worth)
        points = sum(map(_worth, own))
        turns = -(-air // (breath - 1)) if breath > 1 else MANY_TURNS
        rest = homes[load - 1][turns][place] * (points - _worth(poorest))
        factor = drop_unit * homes[load][-(-air // breath)][place]
        return drop(poorest) if rest > factor * points else LEAVE

    return choose


def by_seats(table: Mapping[int, Numbers]) -> Callable[[View | GameState], str]:
    """A policy that goes by the numbers for as many seats as there are."""
    policies = {seats: policy(numbers) for seats, numbers in table.items()}

    def choose(position: View | GameState) -> str:
        """The action of the seat to move: one of `legal`, by what everybody knows."""
        return policies[position.players](position)

    return choose


steady: Final = by_seats(STEADY)
"""The policy of these numbers, for `roll_out`: the coach and `diver` play on with it."""
