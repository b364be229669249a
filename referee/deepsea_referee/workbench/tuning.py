"""A search for better numbers in a bot, by SPSA on the same luck, and a comparison as its proof.

Invariants: a step plays two settings against each other in blocks, so that only the settings
differ; every step follows from the seed, the ranges, and the leads and costs of earlier steps, so
that a search continues from its folder as if it had not been interrupted; whole numbers are whole
in every game; the comparison at the end has seeds that the search never saw.

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
from deepsea_referee.workbench.blocks import BlockSettings, CompareGames, PlayedBlock, open_folder
from deepsea_rules.randomness import Stream, seed_from_text
from deepsea_sdk.coach.decisions import SURE
from deepsea_sdk.launch import Parameters, number_or_text, split_parameters

Values: TypeAlias = dict[str, float]
"""A number for each name; whole numbers are of type int."""
BLOCKS = 4
"""The number of blocks in a step."""
KIND = "tune"
"""The name of the file of a search in its folder, without the suffix."""
_FIRST_MOVE = 0.4
"""The distance of the two settings from the place in the first step, as a share of each range."""
_LAST_MOVE = 0.08
"""The distance of the two settings from the place in the last step, as a share of each range.

The distance falls by the same factor in every step.
"""
_GAIN = 0.7
"""The factor from the slope of the lead to the change of the place: the constant a of the paper."""
_GAINS_FALL = 0.602
"""The exponent with which this factor falls from step to step: alpha of the paper."""
_CALM = 20
"""The number of steps that the fall is ahead at the start: the constant A of the paper."""
_GROUP = 8
"""The number of steps whose directions are drawn together.

Seven numbers can have directions in them of which any two agree in exactly half of the steps.
"""
_DIGITS = 3
"""The number of decimal digits of a result in a range of width 1."""
_MOST_BLOCKS = 10**6
"""The largest number of blocks of the comparison at the end; its budget ends earlier."""


class Range(NamedTuple):
    """A number of a bot that is searched for, with the range to search."""

    name: str
    low: float
    high: float
    start: float
    """The value that the bot has now."""
    whole: bool
    """True if the number must be an integer."""

    def at(self, place: float) -> float:
        """Return the number at a place in the range: `low` at place 0, `high` at place 1.

        It is rounded: to a whole number if it must be one, otherwise to `_DIGITS` decimal digits in
        a range of width 1, to fewer in a wider range, and to more in a narrower one.
        """
        width = self.high - self.low
        exact = self.low + place * width
        if self.whole:
            return math.floor(exact + 0.5)  # halves up; `round` would round them to even numbers
        decimal_digits = _DIGITS - math.floor(math.log10(width))
        return min(self.high, max(self.low, round(exact, decimal_digits)))


class TriedRange(NamedTuple):
    """The part of a number's range that a search has tried, and how much the number matters."""

    name: str
    low: float
    high: float
    worth: float
    """The estimated lead of the high end of the range over the low end, in placement score."""
    error: float
    """The half width of the 95 % interval of `worth`."""


class Spsa:
    """The state of a search: a list of places, from which the next step follows.

    A place has one value for each number: 0 at the low end of its range, 1 at the high end.
    """

    def __init__(self, ranges: Sequence[Range], seed: bytes) -> None:
        self.ranges = ranges
        self.places = [
            [(bounds.start - bounds.low) / (bounds.high - bounds.low) for bounds in ranges]
        ]
        """The place before each step, followed by the place after the last step."""
        self._steps: list[tuple[Values, Values, float]] = []
        """The two settings of each step, and the lead of the first setting over the second."""
        self._seed = seed
        self._progress = 0.0
        """The share of the search that is over."""

    @property
    def steps(self) -> int:
        """The number of steps that were played."""
        return len(self.places) - 1

    @property
    def values(self) -> Values:
        """The result so far: the mean of the second half of the places."""
        half = self.places[len(self.places) // 2 :]
        return self._values([sum(places) / len(half) for places in zip(*half, strict=True)])

    def pair(self) -> tuple[Values, Values]:
        """Return the two settings of the bot's numbers that the next step compares.

        They are on opposite sides of the newest place, each one move of `_moves` from it.
        """
        first_place, second_place = [], []
        for coordinate, move in zip(self.places[-1], self._moves(), strict=True):
            # Coordinates are from 0 to 1. Near an end of the range, the two settings are around the
            # nearest middle for which both are inside.
            distance = abs(move)
            middle = min(max(coordinate, distance), 1 - distance)
            first_place.append(middle + move)
            second_place.append(middle - move)
        return self._values(first_place), self._values(second_place)

    def add(self, lead: float, progress: float) -> None:
        """Add a step that was played, and move the place of the search towards the better setting.

        A place has one coordinate for each number of the bot: 0 at the low end of the range that is
        searched, 1 at the high end.

        lead      the lead of the first setting of `pair` over the second one, as a placement score
        progress  the share of the search that is over with this step, from 0 to 1
        """
        first, second = self.pair()
        self._steps.append((first, second, lead))
        gain = self._gain()
        new_place = []
        for coordinate, move in zip(self.places[-1], self._moves(), strict=True):
            # The two settings are 2 * move apart, so the slope along a number is lead / (2 * move).
            change = gain * lead / (2 * move)
            new_place.append(min(1.0, max(0.0, coordinate + change)))
        self.places.append(new_place)
        self._progress = progress

    def _gain(self) -> float:
        """Return the factor from the slope of the lead to the change of the place in this step.

        It falls from step to step, so that the search comes to rest: it is a / (k + 1 + A) ** alpha
        in Spall's paper, for step k from 0.
        """
        gain: float = _GAIN / (self.steps + 1 + _CALM) ** _GAINS_FALL
        return gain

    @property
    def tried_ranges(self) -> list[TriedRange]:
        """Return the part of its range that was tried of each number, and how much it matters."""
        return [self._tried_range(bounds) for bounds in self.ranges]

    def _tried_range(self, bounds: Range) -> TriedRange:
        """Return which part of a number's range was tried, and how much the number matters.

        That is estimated by a linear regression of the leads of all steps on the differences
        between the number's values in their two settings. It has no constant, as equal settings
        have no lead. At least one step is needed.
        """
        name, width = bounds.name, bounds.high - bounds.low
        tried_values = []
        differences = []  # as a share of the range
        leads = []
        for first, second, lead in self._steps:
            tried_values += [first[name], second[name]]
            differences.append((first[name] - second[name]) / width)
            leads.append(lead)
        # The slope of the line through 0 with the least squared residuals
        sum_of_squares = sum(difference * difference for difference in differences)
        slope = sum(map(mul, differences, leads)) / sum_of_squares
        squared_residuals = sum(
            (lead - slope * difference) ** 2
            for difference, lead in zip(differences, leads, strict=True)
        )
        # Its variance is that of a residual, divided by the sum of the squared differences.
        degrees_of_freedom = max(1, len(leads) - 1)
        error = SURE * math.sqrt(squared_residuals / sum_of_squares / degrees_of_freedom)
        return TriedRange(name, min(tried_values), max(tried_values), worth=slope, error=error)

    def _values(self, place: Sequence[float]) -> Values:
        """Return the numbers at a place, by name."""
        return {
            bounds.name: bounds.at(share) for bounds, share in zip(self.ranges, place, strict=True)
        }

    def _moves(self) -> list[float]:
        """Return for each number the move from the newest place to the next step's first setting.

        The second setting is as far on the other side. A move is a share of the number's range, at
        most half of it. Its direction is random, but always the same one for the same step.
        """
        # From _FIRST_MOVE to _LAST_MOVE as the search goes on.
        usual_distance = _FIRST_MOVE * (_LAST_MOVE / _FIRST_MOVE) ** min(1.0, self._progress)
        moves = []
        for direction, bounds in zip(self._directions(), self.ranges, strict=True):
            # The two settings of a whole number must differ by at least 1, also when rounded.
            shortest = 0.5001 / (bounds.high - bounds.low) if bounds.whole else 0.0
            distance = min(0.5, max(usual_distance, shortest))
            moves.append(direction * distance)
        return moves

    def _directions(self) -> list[int]:
        """Return for each number the direction of its move in the next step: 1 or -1.

        Within a group of _GROUP steps, any two numbers move the same way in half of the steps, so
        that the effect of one cancels for the other. The rows of a Hadamard matrix have this
        property, also if the signs of a whole row are changed at random.
        """
        group, step_in_group = divmod(self.steps, _GROUP)
        random_stream = Stream(self._seed, f"tune/{group}")
        directions = []
        for row in range(1, len(self.ranges) + 1):
            # An entry of the matrix is -1 if the two indices have an odd number of common 1 bits.
            common_bits = (row & step_in_group).bit_count()
            hadamard_sign = (-1) ** common_bits
            random_sign = 2 * random_stream.uniform(2) - 1  # -1 or 1
            directions.append(random_sign * hadamard_sign)
        return directions


# The numbers of a bot


class Subject(NamedTuple):
    """A bot whose numbers are searched for, with the ranges of the numbers."""

    text: str
    """The name or path of the bot as the user gave it, without parameters."""
    given: Parameters
    """The parameters as the user gave them, ranges included."""
    bot: BotSpec
    """The bot without parameters."""
    class_name: str = ""
    """The name of the class that has the numbers as attributes."""
    ranges: tuple[Range, ...] = ()

    @property
    def start(self) -> Values:
        """The values that the numbers have now."""
        return {bounds.name: bounds.start for bounds in self.ranges}

    def parameters(self, values: Values) -> str:
        """Return the parameters as text, with these values in place of the ranges."""
        return self.given._replace(values={**self.given.values, **values}).format()

    def with_values(self, values: Values) -> BotSpec:
        """Return the bot with these values of the numbers."""
        return with_parameters(self.bot, self.parameters(values))


def subject(text: str) -> Subject:
    """Read an argument such as `mine,safe=0.5..1.5,depth=1..4`, and import the bot that it names.

    Parameters that are ranges are searched, and the values that the bot has now are the start of
    the search. Other parameters are fixed. Raises UserError if no parameter is a range, if the bot
    does not have a parameter, or if a range is empty or excludes the present value.
    """
    bot_name, parameters = split_parameters(text)
    parsed = Subject(bot_name, Parameters.parse(parameters), resolve(bot_name))
    values = parsed.given.values
    limits = {}
    for key, value in values.items():
        if ".." in str(value):
            limits[key] = _read_limits(key, str(value))
    if not limits:
        raise UserError(f"{text!r} has no range to search, such as {bot_name},safe=0.5..1.5")
    # Fails if the bot does not have one of the numbers.
    load(parsed.with_values({key: low for key, (low, _high) in limits.items()}))

    # The bot with its fixed parameters has the present values of the searched ones.
    fixed_values = {key: value for key, value in values.items() if key not in limits}
    fixed = parsed.given._replace(values=fixed_values)
    fixed_bot = with_parameters(parsed.bot, fixed.format()) if any(fixed) else parsed.bot
    bot_class = load(fixed_bot)
    class_name = getattr(bot_class, "__name__", "")
    ranges = [
        _checked_range(f"class {class_name}", key, getattr(bot_class, key), low, high)
        for key, (low, high) in limits.items()
    ]
    return parsed._replace(class_name=class_name, ranges=tuple(ranges))


def _read_limits(name: str, text: str) -> tuple[float, float]:
    """Return the two ends of a range such as `0.5..1.5`, as int if they are whole numbers.

    Raises UserError if the text is not two numbers, the lower one first.

    name  the name of the parameter, for the error
    """
    low, high = map(number_or_text, text.split("..", 1))
    if isinstance(low, str) or isinstance(high, str):
        raise UserError(f"{name}={text}: a range is two numbers, such as 0.5..1.5")
    if low >= high:
        raise UserError(f"{name}={text} is an empty range: the lower number comes first")
    return low, high


def _checked_range(owner: str, name: str, start: object, low: float, high: float) -> Range:
    """Return the range in which a number of a bot is searched.

    If both ends are integers, only whole numbers are searched.

    owner  the class that has the number, for errors
    start  the value that the bot has now

    Raises UserError if that value is no number, is outside of the range, or is not whole although
    the ends are.
    """
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
    """A limit of games or of time: half for the search, half for the comparison after it."""

    text: str
    """The budget as the user wrote it."""
    half: int
    """The half of the budget, in games or in microseconds."""
    in_games: bool
    """True for a number of games, False for a time."""

    @classmethod
    def parse(cls, text: str) -> Budget:
        """Read a budget: a time such as 20m, or a number of games such as 5000.

        One half of it is for the search, the other one for the comparison after it. Raises
        UserError if the text is neither a time nor a number.
        """
        match = re.fullmatch(r"(\d{1,9})([smh]?)", text)
        if match is None or not int(match[1]):
            raise UserError(
                f"{text!r} is no budget: name a time such as 90s, 20m or 2h, or a number of games"
            )
        number, unit = int(match[1]), match[2]
        # A time is stored in microseconds; a number without a unit counts games.
        size_of_unit = {"": 1, "s": 10**6, "m": 60 * 10**6, "h": 3600 * 10**6}
        total = number * size_of_unit[unit]
        return cls(text, half=max(1, total // 2), in_games=unit == "")


class TuneGames:
    """The games of a search, followed by a comparison of its result with the start."""

    def __init__(
        self,
        subject: Subject,
        settings: BlockSettings,
        budget: Budget,
        now_us: Callable[[], int],
        opened: ExitStack,
        out: Path | None = None,
    ) -> None:
        """Open the folder, and count the steps of earlier runs.

        settings  the settings of a comparison of the bot with itself, both at the start
        now_us    the clock that measures a budget of time
        opened    the exit stack that closes the folders
        out       stores the steps, and the comparison in a folder within it; both continue from
                  what is there; None stores nothing

        Raises UserError for a folder that cannot be written, or has something else.
        """
        self.subject = subject
        self.settings = settings
        self.search = Spsa(subject.ranges, settings.seed)
        self.compared: CompareGames | None = None
        """The comparison at the end, once it has begun."""
        self.spent = 0
        """The used part of the budget, in games or in microseconds."""
        self._budget = budget
        self._now_us = now_us
        self._opened = opened
        self._out = out
        fields_to_match = {
            "parameters": subject.given.format(),
            "budget": budget.text,
            **settings.fields_to_match(),
        }
        self._folder = open_folder(opened, out, fields_to_match, KIND)
        for step in [] if self._folder is None else self._folder.blocks:
            self._count(step.lead, step.spent)

    @property
    def percent(self) -> int:
        """The used part of the budget in percent."""
        return min(100, 100 * self.spent // (2 * self._budget.half))

    def play(
        self, on_news: Callable[[], object], *, workers: int = 1, in_process: bool = False
    ) -> bool:
        """Play the search and the comparison; return True if Ctrl-C interrupted them.

        There is no comparison if the search ends where it began.

        on_news  called after each step of the search, and after each block of the comparison

        Raises UserError for a bot that cannot be started, or if no block of a step counts.
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
        settings = self._proof_settings()
        folder = open_folder(
            self._opened,
            None if self._out is None else self._out / settings.kind,
            settings.fields_to_match(),
            settings.kind,
            settings.bots,
        )
        stored = () if folder is None else (folder.blocks, folder.add)
        games = self.compared = CompareGames(settings, *stored)
        start_us, earlier_blocks = self._now_us(), games.comparison.blocks

        def on_block(_played: PlayedBlock) -> bool:
            self.spent = self._budget.half
            self.spent += self._cost(games.comparison.blocks - earlier_blocks, start_us)
            on_news()
            return self.spent >= 2 * self._budget.half

        return games.play(on_block, workers=workers, in_process=in_process)

    def _step(self, workers: int, in_process: bool) -> bool:
        """Play a step of the search, store it and count it; return True if Ctrl-C interrupted it.

        A step plays BLOCKS blocks between two settings of the bot. They continue the numbers of the
        blocks of earlier steps, so that each step has new dice and values. Raises UserError if no
        block counts.
        """
        start_us = self._now_us()
        first_block = self.search.steps * BLOCKS
        settings = self._comparison_settings(*self.search.pair())
        # A comparison of BLOCKS blocks, as if those of all earlier steps were played already.
        all_games = (first_block + BLOCKS) * settings.size
        step = CompareGames(replace(settings, done=first_block, games=all_games))
        interrupted = step.play(_ignore_block, workers=workers, in_process=in_process)
        if interrupted:
            return True
        if not step.comparison.blocks:
            raise UserError("no block of a step counts: every one had a void game")
        lead = step.comparison.deciding.mean
        spent = self._cost(BLOCKS, start_us)
        if self._folder is not None:
            self._folder.add(self.search.steps, (), {"lead": lead, "spent": spent})
        self._count(lead, spent)
        return False

    def _count(self, lead: float, spent: int) -> None:
        """Count a step: the lead of its first setting, and the part of the budget that it used."""
        self.spent += spent
        self.search.add(lead, self.spent / self._budget.half)

    def _cost(self, blocks: int, start_us: int) -> int:
        """Return the part of the budget that these blocks used: their games, or the time since."""
        if self._budget.in_games:
            return blocks * self.settings.size
        return max(1, self._now_us() - start_us)

    def _proof_settings(self) -> BlockSettings:
        """Return the settings of the comparison of the search's result with the bot as it was.

        Its games have seeds that the search never saw, so that luck of the search does not count.
        """
        seed_text = f"{self.settings.seed_text}-held-out"
        return replace(
            self._comparison_settings(self.search.values, self.subject.start),
            games=_MOST_BLOCKS * self.settings.size,
            seed=seed_from_text(seed_text),
            seed_text=seed_text,
        )

    def _comparison_settings(self, values_of_a: Values, values_of_b: Values) -> BlockSettings:
        """Return the settings of a comparison of the bot with two settings of its numbers.

        The bots of the field, in the other seats, stay as they are.
        """
        bots = list(self.settings.bots)
        bot_a, bot_b = self.subject.with_values(values_of_a), self.subject.with_values(values_of_b)
        for index in self.settings.ours:
            bots[index] = bot_a
        for index in self.settings.theirs:
            bots[index] = bot_b
        return replace(self.settings, bots=bots)


def _ignore_block(_played: PlayedBlock) -> None:
    """Do nothing with a block: a step of a search is only counted as a whole."""
