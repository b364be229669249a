"""Whole games played by a chooser that needs no luck: every choice is a hash of its number.

A `Chooser` makes the same choices on every machine and every version of Python, so goldens and
counter-examples stay what they are.
"""

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from random import Random  # noqa: TID251  (view.sample wants a source of numbers; seeded below)
from typing import Any, TypeVar

from hypothesis import strategies as st

from deepsea_rules.actions import CHIPS, LEVEL_OF, LEVELS
from deepsea_rules.game import Game
from deepsea_rules.randomness import deal, seed_from_text
from deepsea_rules.ruleset import PRESETS, RuleSet
from deepsea_rules.state import GameState

T = TypeVar("T")

MAX_STEPS = 20_000
"""Far more than any game can have: whoever gets here has found a game that does not end."""

VALUES: dict[str, tuple[Any, ...]] = {
    "turn_needs_treasure": (False, True),
    "forced_turn": ("never", "when_cannot_advance"),
    "home_empty_handed": ("allowed", "barred"),
    "barred_release": ("on_pickup", "never_this_dive"),
    "drop_last_after_turn": (False, True),
    "reveal": ("dive_end", "game_end"),
    "owner_peek": ("none", "on_return"),
    "drop_sequence": ("closest_first", "farthest_first"),
    "drop_order": ("owner_choice", "pickup_order"),
    "top_up_tail_piles": (False, True),
    "relost_stack": ("unit", "chips"),
    "starter": ("farthest_stranded_else_last_home", "last_home_else_farthest"),
    "tiebreak": ("top_level", "lexicographic", "level4"),
    "blank_count": (None, 12, 16),
    "first_player": ("roll_off", "seat_a"),
}


class Chooser:
    """Picks by hash. `takes` makes it take treasure more often than not."""

    def __init__(self, salt: str, *, takes: bool = False) -> None:
        self._salt = salt
        self._takes = takes
        self._count = 0

    def number(self, below: int) -> int:
        """The next number of the sequence, 0 <= number < below."""
        text = f"{self._salt}/{self._count}"
        self._count += 1
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) % below

    def pick(self, options: Sequence[T]) -> T:
        """One of the options."""
        return options[self.number(len(options))]

    def action(self, legal: Sequence[str]) -> str:
        """One of the legal actions."""
        if self._takes and "take" in legal and self.number(4):
            return "take"
        if legal[0].startswith("order:") and self.number(2):
            return self.shuffled_order(legal[0])
        return self.pick(legal)

    def shuffled_order(self, action: str) -> str:
        """The items of an order in another order, which may not be listed."""
        items = action.removeprefix("order:").split(",")
        for i in range(len(items) - 1, 0, -1):
            j = self.number(i + 1)
            items[i], items[j] = items[j], items[i]
        return "order:" + ",".join(items)

    def dice(self) -> tuple[int, int]:
        """Two faces."""
        return 1 + self.number(3), 1 + self.number(3)


def rng(text: str) -> Random:
    """A source of numbers for `view.sample`."""
    return Random(text)


def opening_state(rules: RuleSet, players: int, salt: str) -> GameState:
    """A fresh game whose chips lie as the salt says."""
    starter = int.from_bytes(salt.encode()[-1:]) % players
    return GameState.opening(rules, deal(seed_from_text(salt)), players, starter)


def step(state: GameState, chooser: Chooser) -> None:
    """One step: an action where there is one, else the dice."""
    if legal := state.legal_actions():
        state.apply(chooser.action(legal))
    else:
        state.roll(*chooser.dice())


def walk(state: GameState, chooser: Chooser) -> Iterator[GameState]:
    """Play the state itself to its end, yielding it before each step and once at the end."""
    for _ in range(MAX_STEPS):
        yield state
        if state.phase == "over":
            return
        step(state, chooser)
    raise AssertionError("the game does not end")


def some(states: Iterator[GameState]) -> Iterator[GameState]:
    """Every fifth state, and the end: phases go round in threes and twos."""
    return (one for n, one in enumerate(states) if n % 5 == 0 or one.phase == "over")


def play_out(
    game: Game, chooser: Chooser, look: Callable[[Game], None] = lambda game: None
) -> Game:
    """Play a game to its end; `look` is called before each decision and once at the end."""
    for _ in range(MAX_STEPS):
        question = game.pending()
        look(game)
        if question is None:
            return game
        game.decide(chooser.action(question.legal))
    raise AssertionError("the game does not end")


def rules_of(options: dict[str, Any]) -> RuleSet:
    """A rule set of any options, changed as little as makes sense of them."""
    options = dict(options)
    if options["home_empty_handed"] == "allowed":
        options["barred_release"] = None
    if options["forced_turn"] == "when_cannot_advance":
        options["turn_needs_treasure"] = False
    return RuleSet.from_options("house", options)


def late_trail(chooser: Chooser) -> str:
    """A short trail such as earlier dives leave: chips, stacks that were carried, laid piles."""
    left = [str(level) for level in (1, 2, 3, 4) for _ in range(8)]
    words = []
    for _ in range(1 + chooser.number(12)):
        kind = chooser.number(5)
        size = 1 if kind < 2 else 1 + chooser.number(3)
        chips = "".join(left.pop(chooser.number(len(left))) for _ in range(min(size, len(left))))
        if kind == 4 or (kind == 3 and len(chips) == 1):
            words.append(f"{{{chips}}}")
        else:
            words.append(chips if len(chips) == 1 else f"[{chips}]")
        if not left:
            break
    return " ".join(words)


presets = st.sampled_from([PRESETS[name] for name in sorted(PRESETS)])
customs = st.fixed_dictionaries(
    {name: st.sampled_from(values) for name, values in VALUES.items()}
).map(rules_of)
rule_sets = presets | customs
players = st.integers(2, 6)
salts = st.integers(0, 10**9).map(str)
choosers = st.builds(Chooser, salts, takes=st.booleans())
finished = st.builds(
    lambda rules, seats, salt: play_out(
        Game(rules, seats, seed_from_text(salt)), Chooser(salt, takes=True)
    ),
    *(rule_sets, players, salts),
)
"""Games that were played to their end, with much taken."""


def other_values(values: Sequence[int], known: Collection[int]) -> tuple[int, ...]:
    """The values of another deal that those who know the values of these chips cannot tell apart.

    Each value that they do not know is another chip's of the level.
    """
    found = list(values)
    for level in LEVELS:
        hidden = [chip for chip in CHIPS if LEVEL_OF[chip] == level and chip not in known]
        for chip, other in zip(hidden, [*hidden[1:], *hidden[:1]], strict=True):
            found[chip] = values[other]
    return tuple(found)
