"""Bots of many strengths, made of the sample bots, for measurements of the ladder.

Invariants: a variant decides by its view and the game's commitment alone, so a game is its line-up
and its seed; the sample bot that searches is left out, since it thinks for as long as it is let.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deepsea_bots.cautious import Cautious
from deepsea_bots.greedy import Greedy
from deepsea_bots.heuristic import Heuristic
from deepsea_ladder.pairing import RandomStream
from deepsea_ladder.rating import GameOutcome
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.view import View
from deepsea_sdk.bot import Bot, GameInfo
from deepsea_sdk.table import play

SAMPLES: dict[str, Callable[[], Bot]] = {
    "heuristic": Heuristic,
    "cautious": Cautious,
    "greedy": Greedy,
}


@dataclass(frozen=True)
class Variant:
    """A way to play that is followed but for now and then."""

    style: str
    make: Callable[[], Bot]
    noise: float
    """How often it does anything at all instead."""

    @property
    def name(self) -> str:
        """What tables call it."""
        return f"{self.style} {self.noise:.0%}"

    def bot(self) -> Bot:
        """A player for one game."""
        return _Noisy(self.make(), self.noise)


class _Noisy(Bot):
    def __init__(self, inner: Bot, noise: float) -> None:
        self.inner = inner
        self.noise = noise

    def on_game_start(self, info: GameInfo) -> None:
        self.chance = RandomStream(info.commitment.encode(), f"variant {info.seat}")
        self.inner.on_game_start(info)

    def decide(self, view: View) -> str:
        if self.noise and self.chance.unit() < self.noise:
            return view.legal[self.chance.below(len(view.legal))]
        return self.inner.decide(view)


@dataclass(frozen=True)
class _Habit:
    """A simple way to play, as numbers."""

    load: int
    """How many units it carries at most."""
    level: int
    """On its way down it takes nothing below this level."""
    caution: float
    """It turns back when the air lasts for fewer than this many times the rounds home."""

    def __call__(self) -> Bot:
        return _Habitual(self)


class _Habitual(Bot):
    def __init__(self, habit: _Habit) -> None:
        self.habit = habit

    def turn_back(self, view: View) -> bool:
        load = view.me.load
        if load >= self.habit.load:
            return True
        rounds = view.distance_home / max(4 - load, 0.5)
        breath = sum(len(cargo) for cargo in view.cargo) or 1
        return view.air < self.habit.caution * rounds * breath

    def search(self, view: View) -> str:
        me = view.me
        if "take" not in view.legal or me.load >= self.habit.load:
            return "leave"
        if not me.homeward and view.unit_here.levels[0] < self.habit.level:
            return "leave"
        return "take"


def family(seed: str, size: int) -> list[Variant]:
    """Variants of many strengths, no two alike; a third of them play like a sample bot."""
    chance = RandomStream(seed.encode(), "family")
    found: dict[str, Variant] = {}
    while len(found) < size:
        style, make = list(SAMPLES.items())[chance.below(len(SAMPLES))]
        if chance.below(3):
            habit = _Habit(
                1 + chance.below(5), 1 + chance.below(3), round(0.4 + 1.6 * chance.unit(), 1)
            )
            style, make = f"{habit.load}-{habit.level}-{habit.caution}", habit
        noise = (0.0, 0.0, 0.05, 0.1, 0.3, 1.0)[chance.below(6)]
        variant = Variant(style, make, noise)
        found.setdefault(variant.name, variant)
    return list(found.values())


def game(sequence: int, bots: Sequence[Variant], players: Sequence[int], seed: str) -> GameOutcome:
    """Play `players`, indices into `bots`, in that order of seats."""
    table = play([bots[player].bot() for player in players], seed=seed_from_text(seed))
    return GameOutcome(sequence, tuple(players), table.result().placements)


TEN = [
    Variant("heuristic", Heuristic, 0.0),
    Variant("heuristic", Heuristic, 0.1),
    Variant("heuristic", Heuristic, 0.2),
    Variant("greedy", Greedy, 0.0),
    Variant("cautious", Cautious, 0.0),
    Variant("heuristic", Heuristic, 0.5),
    Variant("cautious", Cautious, 0.3),
    Variant("greedy", Greedy, 0.5),
    Variant("cautious", Cautious, 0.5),
    Variant("random", Cautious, 1.0),
]
"""Ten bots of different strengths, the best first by the long round-robin of `ladder.py order`."""
