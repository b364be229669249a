"""A search for better numbers in a bot, by SPSA on the same luck, and the proof of what it found.

Invariants: a step plays two settings against each other in blocks, so that what differs is the
settings alone; all that it does follows from the seed, the ranges and what earlier steps gave and
took, so that a search goes on from its folder as if it had not been interrupted; whole numbers are
whole in every game; the comparison at the end has seeds that the search never saw.

The method is simultaneous perturbation stochastic approximation with gains as in J. C. Spall,
"Implementation of the simultaneous perturbation algorithm for stochastic optimization", IEEE
Transactions on Aerospace and Electronic Systems 34 (1998): all numbers are moved at once, each up
or down, and the lead of one of the two settings over the other tells where to go. The result is the
mean of the second half of the places, in which the noise of single steps cancels.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from operator import mul
from pathlib import Path
from typing import NamedTuple, TypeAlias

from deepsea_referee.bots.loading import load
from deepsea_referee.bots.resolve import BotSpec, resolve, with_parameters
from deepsea_referee.errors import UserError
from deepsea_referee.workbench.blocks import BlockSettings, CompareGames, PlayedBlock
from deepsea_referee.workbench.folder import kept_folder
from deepsea_rules.randomness import Stream, seed_from_text
from deepsea_sdk.coach.decisions import SURE
from deepsea_sdk.launch import Parameters, number_or_text, split_parameters

Values: TypeAlias = dict[str, float]
"""A number for each name; whole ones are integers."""
BLOCKS = 4
"""The blocks of a step."""
KIND = "tune"
"""The name of its file."""
_FIRST_MOVE = 0.4
"""How far the two settings of the first step are from the place, in parts of a range,"""
_LAST_MOVE = 0.08
"""and those of the last one; between, each step is nearer by the same factor."""
_GAIN = 0.7
"""How far a place goes for what a range is worth by the two settings, in parts of the range,"""
_GAINS_FALL = 0.602
"""how fast that falls,"""
_CALM = 20
"""as if there had been so many steps before."""
_GROUP = 8
"""Steps for which it is drawn together which way numbers move; enough for seven numbers."""
_DIGITS = 3
"""Digits of a result, in a range from 0 to 1."""
_MOST_BLOCKS = 10**6
"""Blocks of the comparison, which its budget ends before."""


class Range(NamedTuple):
    """A number of a bot, and between what it is searched for."""

    name: str
    low: float
    high: float
    start: float
    whole: bool

    def at(self, share: float) -> float:
        """The number so far along the way from `low` to `high`; not with more digits than count."""
        width = self.high - self.low
        exact = self.low + share * width
        if self.whole:
            return math.floor(exact + 0.5)
        return min(self.high, max(self.low, round(exact, _DIGITS - math.floor(math.log10(width)))))


class Tried(NamedTuple):
    """The part of a number's range that a search has tried, and how much the number matters."""

    name: str
    low: float
    high: float
    worth: float
    """By how much placement score its high end is better than its low one, by all steps."""
    error: float
    """That of 95 %."""


class Spsa:
    """The places of a search; a place is how far each number is on its way from low to high."""

    def __init__(self, ranges: Sequence[Range], seed: bytes) -> None:
        self.ranges = ranges
        self.places = [[(one.start - one.low) / (one.high - one.low) for one in ranges]]
        """The place before each step, and after the last one."""
        self._leads: list[tuple[Values, Values, float]] = []
        """The two settings of each step, and the lead of the first one."""
        self._seed = seed
        self._over = 0.0

    @property
    def steps(self) -> int:
        return len(self.places) - 1

    @property
    def values(self) -> Values:
        """What the search has found so far."""
        half = self.places[len(self.places) // 2 :]
        return self._values([sum(places) / len(half) for places in zip(*half, strict=True)])

    def pair(self) -> tuple[Values, Values]:
        """The two settings of the next step."""
        one, other = [], []
        for place, move in zip(self.places[-1], self._moves(), strict=True):
            # Not the place itself, if that is too near to an end for a setting on either side.
            middle = min(max(place, abs(move)), 1 - abs(move))
            one.append(middle + move)
            other.append(middle - move)
        return self._values(one), self._values(other)

    def add(self, lead: float, over: float) -> None:
        """Go on by the lead of the first setting; the part `over` of the search is over now."""
        self._leads.append((*self.pair(), lead))
        slope = _GAIN / (self.steps + 1 + _CALM) ** _GAINS_FALL * lead / 2
        moved = zip(self.places[-1], self._moves(), strict=True)
        self.places.append([min(1.0, max(0.0, place + slope / move)) for place, move in moved])
        self._over = over

    @property
    def tried(self) -> list[Tried]:
        """What was tried of each number: a line through the leads of all steps says its worth."""
        return [self._tried(one) for one in self.ranges]

    def _tried(self, one: Range) -> Tried:
        width = one.high - one.low
        numbers = [pair[one.name] for *both, _ in self._leads for pair in both]
        apart = [(a[one.name] - b[one.name]) / width for a, b, _ in self._leads]
        leads = [lead for *_, lead in self._leads]
        squares = sum(share * share for share in apart)
        worth = sum(map(mul, apart, leads)) / squares
        spread = sum((lead - worth * share) ** 2 for share, lead in zip(apart, leads, strict=True))
        error = SURE * math.sqrt(spread / squares / max(1, len(leads) - 1))
        return Tried(one.name, min(numbers), max(numbers), worth, error)

    def _values(self, place: Sequence[float]) -> Values:
        return {one.name: one.at(share) for one, share in zip(self.ranges, place, strict=True)}

    def _moves(self) -> list[float]:
        """How far the first setting is from the place."""
        group, step = divmod(self.steps, _GROUP)
        chance = Stream(self._seed, f"tune/{group}")
        usual = _FIRST_MOVE * (_LAST_MOVE / _FIRST_MOVE) ** min(1.0, self._over)
        moves = []
        for number, one in enumerate(self.ranges, 1):
            # In a group, two numbers move the same way as often as not: what one of them is worth
            # cancels for the other.
            sign = (2 * chance.uniform(2) - 1) * (-1) ** (number & step).bit_count()
            # Two whole numbers are at least one apart.
            least = 0.5001 / (one.high - one.low) if one.whole else 0.0
            moves.append(sign * min(0.5, max(usual, least)))
        return moves


# The numbers of a bot


class Subject(NamedTuple):
    """A bot, and the ranges of its numbers."""

    text: str
    """As it was named, without its parameters,"""
    given: Parameters
    """and these, ranges included."""
    bot: BotSpec
    """Without parameters."""
    class_name: str = ""
    """The class whose attributes they are."""
    ranges: tuple[Range, ...] = ()

    @property
    def start(self) -> Values:
        return {one.name: one.start for one in self.ranges}

    def parameters(self, values: Values) -> str:
        """The parameters with these numbers instead of the ranges."""
        return self.given._replace(values={**self.given.values, **values}).format()

    def with_values(self, values: Values) -> BotSpec:
        """The bot that plays with these numbers."""
        return with_parameters(self.bot, self.parameters(values))


def subject(text: str) -> Subject:
    """The bot that `mine,safe=0.5..1.5,depth=1..4` names; imports it, to see where it starts.

    Raises UserError for a parameter that it has not, and for a range that is empty or leaves its
    value out.
    """
    name, parameters = split_parameters(text)
    one = Subject(name, Parameters.parse(parameters), resolve(name))
    values = one.given.values
    ends = {key: _ends(key, str(value)) for key, value in values.items() if ".." in str(value)}
    if not ends:
        raise UserError(f"{text!r} has no range to search, such as {name},safe=0.5..1.5")
    load(one.with_values({key: low for key, (low, _) in ends.items()}))  # it has all of them
    fixed = one.given._replace(values={k: v for k, v in values.items() if k not in ends})
    player = load(with_parameters(one.bot, fixed.format()) if any(fixed) else one.bot)
    owner = getattr(player, "__name__", "")
    ranges = [_range(f"class {owner}", key, getattr(player, key), *ends[key]) for key in ends]
    return one._replace(class_name=owner, ranges=tuple(ranges))


def _ends(name: str, text: str) -> tuple[float, float]:
    low, high = map(number_or_text, text.split("..", 1))
    if isinstance(low, str) or isinstance(high, str):
        raise UserError(f"{name}={text}: a range is two numbers, such as 0.5..1.5")
    if low >= high:
        raise UserError(f"{name}={text} is an empty range: the lower number comes first")
    return low, high


def _range(owner: str, name: str, start: object, low: float, high: float) -> Range:
    if isinstance(start, bool) or not isinstance(start, int | float):
        raise UserError(f"{name} is {start!r} in {owner}, which is no number to search for")
    if not low <= start <= high:
        raise UserError(f"{name} is {start:g} in {owner}, outside of {low:g}..{high:g}")
    whole = isinstance(low, int) and isinstance(high, int)
    if whole and start != int(start):
        raise UserError(
            f"{name} is {start:g} in {owner}, and {low}..{high} are whole numbers: "
            f"write {low}.0..{high}.0 for all between"
        )
    return Range(name, low, high, int(start) if whole else start, whole)


# The games


class Budget(NamedTuple):
    """What a search may take, and the comparison after it: half each."""

    text: str
    half: int
    """In games, or in microseconds."""
    in_games: bool

    @classmethod
    def parse(cls, text: str) -> Budget:
        """The budget in a text such as 20m, or 5000 for a number of games; raises UserError."""
        match = re.fullmatch(r"(\d{1,9})([smh]?)", text)
        if match is None or not int(match[1]):
            raise UserError(
                f"{text!r} is no budget: name a time such as 90s, 20m or 2h, or a number of games"
            )
        unit = {"": 1, "s": 10**6, "m": 60 * 10**6, "h": 3600 * 10**6}[match[2]]
        return cls(text, max(1, int(match[1]) * unit // 2), in_games=not match[2])


class TuneGames:
    """The search, and the comparison of what it finds with the start."""

    def __init__(
        self,
        subject: Subject,
        settings: BlockSettings,
        budget: Budget,
        now_us: Callable[[], int],
        opened: ExitStack,
        out: Path | None = None,
    ) -> None:
        """Raises UserError for a folder `out` that cannot be written, or holds something else.

        settings  of a comparison of the bot at its start with itself
        now_us    the clock that a budget of time is measured by
        opened    closes the folders
        out       keeps the steps, and the comparison in a folder of its own; both go on from there
        """
        self.subject = subject
        self.settings = settings
        self.search = Spsa(subject.ranges, settings.seed)
        self.compared: CompareGames | None = None
        self.spent = 0
        """Of the budget."""
        self._budget = budget
        self._now_us = now_us
        self._opened = opened
        self._out = out
        asked = {"parameters": subject.given.format(), "budget": budget.text}
        self._folder = kept_folder(opened, out, {**asked, **settings.asked()}, KIND)
        for step in [] if self._folder is None else self._folder.blocks:
            self._count(step.lead, step.spent)

    @property
    def percent(self) -> int:
        """How much of the budget is spent."""
        return min(100, 50 * self.spent // self._budget.half)

    def play(
        self, on_news: Callable[[], object], *, workers: int = 1, in_process: bool = False
    ) -> bool:
        """Search, and compare; returns whether Ctrl-C ended it before.

        on_news  is called after each step of the search, and each block of the comparison
        Raises UserError for a bot that cannot be started, or if no game of a step counts.
        """
        try:
            while self.spent < self._budget.half:
                if self._step(workers, in_process):
                    return True
                on_news()
        except KeyboardInterrupt:  # between two steps
            return True
        if self.search.values == self.subject.start:
            return False
        settings = self._held_out()
        out, kind = self._out, settings.kind
        asked, bots = settings.asked(), settings.bots
        folder = kept_folder(self._opened, out and out / kind, asked, kind, bots)
        kept = () if folder is None else (folder.blocks, folder.add)
        games = self.compared = CompareGames(settings, *kept)
        began_us, before = self._now_us(), games.comparison.blocks

        def on_block(_played: PlayedBlock) -> bool:
            self.spent = self._budget.half
            self.spent += self._cost(games.comparison.blocks - before, began_us)
            on_news()
            return self.spent >= 2 * self._budget.half

        return games.play(on_block, workers=workers, in_process=in_process)

    def _step(self, workers: int, in_process: bool) -> bool:
        began_us, first = self._now_us(), self.search.steps * BLOCKS
        settings = self._between(*self.search.pair())
        step = replace(settings, done=first, games=(first + BLOCKS) * settings.size)
        games = CompareGames(step)
        if games.play(lambda _: None, workers=workers, in_process=in_process):
            return True
        if not games.comparison.blocks:
            raise UserError("no block of a step counts: every one had a void game")
        lead, spent = games.comparison.deciding.mean, self._cost(BLOCKS, began_us)
        if self._folder is not None:
            self._folder.add(self.search.steps, (), {"lead": lead, "spent": spent})
        self._count(lead, spent)
        return False

    def _count(self, lead: float, spent: int) -> None:
        self.spent += spent
        self.search.add(lead, self.spent / self._budget.half)

    def _cost(self, blocks: int, began_us: int) -> int:
        if self._budget.in_games:
            return blocks * self.settings.size
        return max(1, self._now_us() - began_us)

    def _held_out(self) -> BlockSettings:
        """The comparison of what was found with the start."""
        settings, text = self.settings, f"{self.settings.seed_text}-held-out"
        return replace(
            self._between(self.search.values, self.subject.start),
            games=_MOST_BLOCKS * settings.size,
            seed=seed_from_text(text),
            seed_text=text,
        )

    def _between(self, *pair: Values) -> BlockSettings:
        """The settings of a comparison of these two."""
        one, other = map(self.subject.with_values, pair)
        chosen = dict.fromkeys(self.settings.ours, one) | dict.fromkeys(self.settings.theirs, other)
        bots = [chosen.get(number, bot) for number, bot in enumerate(self.settings.bots)]
        return replace(self.settings, bots=bots)
