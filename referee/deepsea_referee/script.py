"""Matches and comparisons from programs, and the decisions of a person in words.

`run_match` and `run_comparison` are the commands `match` and `compare` for programs. `choices`,
`rules_of` and `hint` say a person's decision in words: choices with their keys, the rules that
matter, and hints.

Invariants: bots, rules, clocks and seeds are named as on the command line; no file is written, and
nothing is printed except a note of `resolve` about a name that could mean two bots; both functions
work in any thread, also where an event loop runs. The words of a person's decision follow from the
seat's view, so that nothing hidden is shown.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeVar

from deepsea_referee import in_process as playing_in_process
from deepsea_referee import match
from deepsea_referee.bots.process import Hosting
from deepsea_referee.bots.resolve import resolve
from deepsea_referee.errors import UserError
from deepsea_referee.interrupts import run_apart
from deepsea_referee.match import MatchSettings, OnGame
from deepsea_referee.sandbox.interface import IsolationLevel
from deepsea_referee.summary import MatchResult
from deepsea_referee.system import SYSTEM
from deepsea_referee.workbench.blocks import BlockSettings, CompareGames
from deepsea_referee.workbench.comparison import Comparison
from deepsea_rules.actions import BACK, DOWN, LEAVE, TAKE, Unit, drop, order
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import DEFAULT, OPTIONS, RuleSet, preset
from deepsea_rules.time_control import DEFAULT_CLOCK, TimeControl
from deepsea_rules.view import View
from deepsea_sdk.coach.decisions import Effort, PlayedDecision, judge
from deepsea_sdk.coach.roll_outs import Stream
from deepsea_sdk.entropy import fresh_seed

T = TypeVar("T")


def run_match(
    bots: Sequence[str],
    *,
    games: int = 1,
    rules: RuleSet | str = DEFAULT,
    clock: TimeControl | str = DEFAULT_CLOCK,
    seed: bytes | str | None = None,
    seating: Literal["rotate", "fixed"] = "rotate",
    isolation: IsolationLevel = "auto",
    in_process: bool = False,
    on_game: OnGame | None = None,
) -> MatchResult:
    """Play a match. If this is the main thread, Ctrl-C ends it early and cleanly.

    bots        two to six files, folders, zips, names of sample bots, or `cmd:COMMAND LINE`
    rules       a rule set, or the name of a preset
    clock       the time for each decision and for each game, such as "100ms+2s"
    seed        a seed as for the option `--seed`; by default a new one each time
    isolation   the level of isolation; "auto" is the sandbox if it works, else plain processes
    in_process  True to import and call the bots in this process, fast and without isolation
    on_game     called with the result and the record of each game that counts, as it ends; with
                `in_process` in the thread that plays

    Raises UserError for a match that cannot be played, for example if a bot does not exist, and
    BotHangs if a bot in this process does not return: the error's `result` has the complete games.
    """
    settings = MatchSettings(
        bots=[resolve(bot) for bot in bots],
        hosting=_hosting(isolation, in_process),
        games=games,
        rules=_rules(rules),
        time_control=_time_control(clock),
        seed=_seed(seed),
        seating=seating,
    )
    play = playing_in_process.run_match if in_process else match.run_match
    return _play(lambda: play(settings, on_game), in_process)


def run_comparison(
    a: str,
    b: str,
    *,
    field: Sequence[str] = (),
    seats: int | None = None,
    blocks: int = 200,
    until_decided: bool = False,
    rules: RuleSet | str = DEFAULT,
    clock: TimeControl | str = DEFAULT_CLOCK,
    seed: bytes | str | None = None,
    isolation: IsolationLevel = "auto",
    in_process: bool = False,
    luck_adjusted: bool = False,
    on_block: Callable[[Comparison], object] | None = None,
) -> Comparison:
    """Compare two bots on the same deals and dice, with seats swapped.

    The verdict of the comparison is "A", "B", "same", or None if it needs more blocks.

    a, b           the bots, named as for `run_match`
    field          bots for the other seats; without them a and b share all seats
    blocks         the largest number of blocks
    until_decided  True to stop as soon as there is a verdict
    luck_adjusted  True to decide by the lead minus the luck in it
    on_block       called with the comparison after each block

    Other parameters are those of `run_match`. Raises UserError for a comparison that cannot be
    played, and KeyboardInterrupt at Ctrl-C.
    """
    pair, others = (resolve(a), resolve(b)), [resolve(bot) for bot in field]
    games = CompareGames(
        BlockSettings.of(
            *pair,
            others,
            seats,
            blocks=blocks,
            hosting=_hosting(isolation, in_process),
            rules=_rules(rules),
            time_control=_time_control(clock),
            seed=_seed(seed),
            until_decided=until_decided,
            luck_adjusted=luck_adjusted,
        )
    )

    def count(_: object) -> None:
        if on_block is not None:
            on_block(games.comparison)

    if _play(lambda: games.play(count, in_process=in_process), in_process):
        raise KeyboardInterrupt
    return games.comparison


_with_grpc: set[int] = set()
"""The ids of processes that have started gRPC: this process, or one from which it was forked."""


def _play(play: Callable[[], T], in_process: bool) -> T:
    """Call `play` and return its result; in another thread if this one runs an event loop.

    Notebooks run an event loop. Raises UserError if bots would play as processes in a process that
    was forked after gRPC had started.
    """
    if not in_process:
        if _with_grpc - {os.getpid()}:
            raise UserError(
                "bots played as processes before this process was forked, and gRPC does not go on "
                "after a fork: make the pool with multiprocessing.get_context('spawn')"
            )
        _with_grpc.add(os.getpid())
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return play()
    return run_apart(play)


def _hosting(isolation: IsolationLevel, in_process: bool) -> Hosting:
    return Hosting(isolation=SYSTEM.choose("process" if in_process else isolation))


def _rules(rules: RuleSet | str) -> RuleSet:
    return preset(rules) if isinstance(rules, str) else rules


def _time_control(clock: TimeControl | str) -> TimeControl:
    return TimeControl.parse(clock) if isinstance(clock, str) else clock


def _seed(seed: bytes | str | None) -> bytes:
    if seed is None:
        return fresh_seed()
    return seed_from_text(seed) if isinstance(seed, str) else seed


# ----- Decisions of a person in words

ITEM_KEYS = "123456789ABCDEFGIJKMNOPRSTUVWXYZ"
"""The keys of units.

H, L and Q are left out: in a terminal they ask for a hint, the last turns, and the end of the
program.
"""
HINTED = 3
"""The number of actions that a hint names."""
HINT_EFFORT = Effort.to()
LAST_TURNS = 18
"""The number of past turns that a person at the table sees."""
BOARD = (
    "The dice show 2 to 6, less one step for each piece that you carry.",
    "Each of these takes one air from all, too, at the start of your turn.",
    "Spaces with a diver are skipped and not counted.",
    "A stack, such as [12], is one piece: one step, one air, taken and laid as a whole.",
    "A number is the level of a piece: 1 has 0 to 3 points, 2 4 to 7, 3 8 to 11, 4 12 to 15.",
    "Only what you bring home counts. The turn that uses the last air is still played to its end.",
    "A dive also ends when all are home, or when nothing changes in a turn of each diver outside.",
)
MOMENTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "declare": (
        "Before you roll you say which way you go; you turn once.",
        ("turn_needs_treasure", "forced_turn", "home_empty_handed", "barred_release"),
    ),
    "search": (
        "You may take what lies here, or on a blank lay a piece down.",
        ("drop_last_after_turn", "reveal", "owner_peek"),
    ),
    "order": (
        "The air is used up: what you carry sinks, in your order.",
        ("drop_sequence", "drop_order", "top_up_tail_piles", "relost_stack"),
    ),
}
"""An explanation of each kind of decision, and the names of the options that matter."""
QUESTIONS = {"declare": "which way?", "search": "what do you do?", "order": "what sinks first?"}


class Choice(NamedTuple):
    """A possible answer of a person: its key, the action that it stands for, and its meaning."""

    key: str
    action: str
    meaning: str


class Choosing:
    """A decision of a person in progress.

    Most decisions need a single choice. For the order of cargo the person chooses one unit after
    the other, until the order of the remaining units does not matter.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._remaining = list(view.items) if view.kind == "order" else []
        self._laid: list[Unit] = []
        self.offered = _unit_choices(view, self._remaining) if self._remaining else choices(view)
        """The choices of the moment."""

    @property
    def note(self) -> list[str]:
        """A line that names the units chosen so far; empty if there are none."""
        return [f"laid so far: {', '.join(map(_name, self._laid))}"] if self._laid else []

    def choose(self, answer: str) -> str | None:
        """Make a choice by its key; return the complete action, or None if more must be chosen.

        A complete legal action is accepted too. The name of a unit is not, because it may be the
        key of another unit. Raises ValueError for any other answer.
        """
        action = {choice.key: choice.action for choice in self.offered}.get(answer)
        if action is None and self._view.is_legal(answer):
            return answer
        if action is None:
            raise ValueError(f"not one of {' '.join(choice.key for choice in self.offered)}")
        if not self._remaining:
            return action
        unit = next(unit for unit in self._remaining if unit.name == action)
        self._laid.append(unit)
        self._remaining.remove(unit)
        if len({unit.name for unit in self._remaining}) > 1:
            self.offered = _unit_choices(self._view, self._remaining)
            return None
        return order([*self._laid, *self._remaining])


def choices(view: View) -> list[Choice]:
    """Return the legal actions of a declaration or a search, with their keys and meanings."""
    load = view.me.load
    breathe = f"you breathe {load} a turn"
    home = view.distance_home
    keys_and_meanings = {
        DOWN: ("d", f"down: go on, {breathe}"),
        BACK: ("b", f"back: {home} space{'' if home == 1 else 's'} to go, {breathe}"),
        LEAVE: ("n", f"nothing: {breathe}"),
        TAKE: ("t", f"take {_with_value(view, view.unit_here)}: you breathe {load + 1} a turn"),
    }
    for number, unit in enumerate(view.droppable):
        meaning = f"drop {_with_value(view, unit)}: you breathe {load - 1} a turn"
        keys_and_meanings[drop(unit)] = (ITEM_KEYS[number], meaning)
    offered = []
    for action in view.legal:
        key, meaning = keys_and_meanings[action]
        offered.append(Choice(key, action, meaning))
    return offered


def _unit_choices(view: View, units: list[Unit]) -> list[Choice]:
    """Return the choices of the unit that is laid down next, one for each name of a unit.

    Units of the same name are interchangeable; the first of them stands for all.
    """
    first_of_name: dict[str, Unit] = {}
    for unit in units:
        first_of_name.setdefault(unit.name, unit)
    return [
        Choice(key, name, _with_value(view, unit))
        for key, (name, unit) in zip(ITEM_KEYS, first_of_name.items(), strict=False)
    ]


def _with_value(view: View, unit: Unit) -> str:
    """Return a unit in words, with its expected value by what the seat knows."""
    return f"{_name(unit)}, worth {view.expected_value(unit):.1f}"


def _name(unit: Unit) -> str:
    return _name_in_words(unit.name)


def _name_in_words(name: str) -> str:
    """Return the name of a unit in words, since a bare number could be mistaken for a key.

    "2" becomes "level 2", and the stack "[12]" becomes "levels 1, 2".
    """
    levels = ", ".join(name.strip("[]"))
    return f"level {levels}" if len(name) == 1 else f"levels {levels}"


def action_words(action: str) -> str:
    """Return an action in the words of the choices, such as "drop level 2"."""
    verb, _, names = action.partition(":")
    if not names:
        return "take nothing" if action == LEAVE else action
    return f"{verb} {', then '.join(map(_name_in_words, names.split(',')))}"


def rules_of(view: View) -> list[str]:
    """Return lines that explain the pending decision and the rules that matter for it."""
    assert view.kind is not None
    explanation, names = MOMENTS[view.kind]
    lines = [explanation, "", *BOARD, ""]
    return lines + [
        f"{option.about}: {option.in_words(getattr(view.rules, option.name))}"
        for option in OPTIONS
        if option.name in names
    ]


def hint(view: View, effort: Effort = HINT_EFFORT) -> list[str]:
    """Return lines with the best actions and the scores that the coach expects of them.

    This takes a second or more. The random numbers follow from the view, so that the same question
    gets the same hint.
    """
    # The coach judges a played action in comparison with all others; any legal action will do.
    question = PlayedDecision(view, view.legal[0], Stream(f"hint/{view}", view.players))
    judgement = judge(question, effort)
    best = sorted(judgement.options, key=lambda option: -option.score.mean)[:HINTED]
    scores = ", ".join(f"{action_words(option.action)} {option.score.mean:.2f}" for option in best)
    return [f"hint: {scores}", "  (placement score to be expected: 1 wins, 0 is last)"]
