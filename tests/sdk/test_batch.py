"""Many games at once are the games of the reference engine: position by position, to the end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256, shake_256
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import pytest

pytest.importorskip("numpy", reason="the extra is not installed: pip install 'deepsea-sdk[learn]'")

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from deepsea_rules.actions import BACK, DOWN, LEAVE, TAKE, drop, order
from deepsea_rules.cleanup import items_of
from deepsea_rules.errors import RulesError
from deepsea_rules.notation import parse_position
from deepsea_rules.randomness import deal, seed_from_text
from deepsea_rules.ruleset import DIVES, MAX_PLAYERS, MIN_PLAYERS, PRESETS, RuleSet
from deepsea_rules.scoring import halves_ahead
from deepsea_rules.state import GameState
from deepsea_rules.view import view_for
from deepsea_sdk import TurnDice, steady
from deepsea_sdk.batch import (
    Batch,
    GivenDice,
    Luck,
    Orders,
    Policy,
    RandomDice,
    RandomPolicy,
    SteadyPolicy,
    Turn,
    chips,
    draw_luck,
    given_luck,
    levels,
    open_random,
    play_on_many,
    put,
    roll_out_many,
    state_of,
    worth,
)
from deepsea_sdk.batch.units import BELOW, Array
from deepsea_sdk.coach.roll_outs import halves
from deepsea_sdk.features import features, mask
from deepsea_sdk.features_many import (
    DECLARE,
    NOTHING,
    SEARCH,
    TURN_ACTIONS,
    features_many,
    masks_many,
)
from deepsea_sdk.policies import STEADY, dice_length, dice_of, play_on
from helpers.games import (
    Chooser,
    choosers,
    late_trail,
    opening_state,
    players,
    rng,
    rule_sets,
    walk,
)
from helpers.positions import at, custom, faces, opening, settle
from helpers.positions import play as play_steps
from helpers.tiers import daily

GAMES = 8
GOLDENS = {
    "manual": "793128289294ed64",
    "reference": "1982b506cef86731",
    "guide": "3c46b87e7cceaa46",
    "revised": "21c566fdc295c101",
    "publisher": "5bd88cb0bd9eee5b",
}
"""Of whole games by the steady policy at 2 to 6 seats: the reference engine has the same."""
PER_GAME = (
    *("dive", "air", "quiet_turns", "to_move", "out", "breath", "last", "homes", "taken"),
    *("banked_earlier", "trail", "values"),
)
PER_DIVER = ["place", "load", "homeward", "barred", "home_rank", "cargo", "carried", "bank"]


class Noted(Policy):
    """Decides by another policy, and notes the actions, by game."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.declared: dict[int, str] = {}
        self.searched: dict[int, str | int] = {}
        self.ordered: dict[tuple[int, int], list[int]] = {}
        self.orders = policy.orders

    def declare(self, batch: Batch, turn: Turn) -> Array:
        back = self.policy.declare(batch, turn)
        self.declared |= {g: BACK if b else DOWN for g, b in zip(games(turn), back, strict=True)}
        return back

    def take(self, batch: Batch, turn: Turn, units: Array) -> Array:
        takes = self.policy.take(batch, turn, units)
        self.searched |= {g: TAKE if t else LEAVE for g, t in zip(games(turn), takes, strict=True)}
        return takes

    def drop(self, batch: Batch, turn: Turn) -> Array:
        slots = self.policy.drop(batch, turn)
        self.searched |= dict(zip(games(turn), slots.tolist(), strict=True))
        return slots

    def order(self, batch: Batch, orders: Orders) -> Array:
        chosen = self.policy.order(batch, orders)
        for game, diver, size, row in zip(
            orders.games, orders.diver, orders.sizes, chosen.tolist(), strict=True
        ):
            self.ordered[int(game), int(diver) % batch.players] = row[:size]
        return chosen


def games(turn: Turn) -> list[int]:
    assert turn.games is not None
    return [int(game) for game in turn.games]


def late_position(rules: RuleSet, seats: int, salt: str) -> GameState:
    """The second dive on a short trail: blocked ways, stalls, old piles, lost stacks."""
    divers = " ".join(f"{seat}0v" for seat in "ABCDEF"[:seats])
    return at(f"{late_trail(Chooser(salt))} | {divers} | d2", rules)


def both(
    rules: RuleSet, seats: int, policy: Policy, seed: int, *, late: bool
) -> Iterator[list[GameState]]:
    """Play some games in both engines, and compare them turn by turn; yields those that end."""
    source = np.random.default_rng(seed)
    batch = Batch(rules, seats, GAMES)
    open_random(batch, np.arange(GAMES), source)
    if late:
        for game in range(GAMES):
            put(batch, np.array([game]), late_position(rules, seats, f"{seed}/{game}"))
    dice, noted = RandomDice(source), Noted(policy)
    states = [state_of(batch, game) for game in range(GAMES)]
    while True:
        # All games at once or in two parts, which is the same.
        first = source.random(GAMES) < 0.5
        parts = [np.flatnonzero(first), np.flatnonzero(~first)] if source.random() < 0.5 else [None]
        sums = np.zeros(GAMES, int)
        ended = np.zeros(0, int)
        for part in parts:
            turn = batch.turn(part)
            batch.declare(turn, noted)
            sums[part] = dice(batch, turn)
            batch.move(turn, sums[part].reshape(-1))
            ended = np.append(ended, batch.search(turn, noted))
        over = batch.clean_up(ended, noted)
        for game, state in enumerate(states):
            dive = state.dive
            play(state, noted, int(sums[game]), game)
            assert (state.phase == "over") == (game in over), state
            assert (state.dive > dive or state.phase == "over") == (game in ended), state
        assert not noted.declared
        assert not noted.searched
        assert not noted.ordered
        compare(batch, states)
        if len(over):
            results = batch.results(over)
            for game, points, halves in zip(over, *results, strict=True):
                result = states[game].result()
                assert result.points == tuple(points)
                assert halves_ahead(result.placements) == halves.tolist()
            for game, drowned in zip(over, results.drowned.tolist(), strict=True):
                assert by_dive(states[game]) == drowned
            yield [states[game] for game in over]
            open_random(batch, over, source)
            for game in over:
                states[game] = state_of(batch, int(game))


def by_dive(state: GameState) -> list[list[int]]:
    """The units that each seat lost at the end of dives 1 to 3 of a game that is over."""
    nothing = [[0] * state.players] * DIVES
    before = state.dive - len(state.drowned)
    return [*nothing[:before], *map(list, state.drowned), *nothing[state.dive :]]


def play(state: GameState, noted: Noted, total: int, game: int) -> None:
    """The same turn of one game; where there is more than one action the policy was asked."""
    is_steady = isinstance(noted.policy, SteadyPolicy)
    declared = noted.declared.pop(game, None)
    assert (len(state.legal) > 1) == (declared is not None), state
    if declared is not None:
        assert not is_steady or steady(state) == declared, state
        state.apply(declared)
    seat = state.to_move
    state.roll(*faces(total))
    if state.phase == "search" and state.to_move == seat:
        assert (len(state.legal) > 1) == (game in noted.searched), state
        found = noted.searched.pop(game, LEAVE)
        if isinstance(found, int):
            found = LEAVE if found < 0 else drop(state.cargo[seat][found])
        assert not is_steady or steady(state) == found, state
        state.apply(found)
    while state.phase == "order":
        items = items_of(state.rules, state.cargo[state.to_move])
        places = range(len(items)) if is_steady else noted.ordered.pop((game, state.to_move))
        state.apply(order(items[place] for place in places))


def compare(batch: Batch, states: list[GameState]) -> None:
    """All that the batch holds of these games is what it would hold of these positions."""
    going = [game for game, state in enumerate(states) if state.phase != "over"]
    wanted = Batch(batch.rules, batch.players, len(going))
    for row, game in enumerate(going):
        put(wanted, np.array([row]), states[game])
    found = batch.part(np.array(going))
    for name in PER_GAME:
        assert np.array_equal(getattr(found, name), getattr(wanted, name)), name
    found.cargo[~BELOW[found.load]] = 0
    for name in PER_DIVER:
        assert np.array_equal(getattr(found, name), getattr(wanted, name)), name


@settings(max_examples=6, deadline=None)
@given(rule_sets, players, st.integers(0, 10**9), st.booleans(), st.booleans())
@example(PRESETS["guide"], 2, 3, False, True)  # a stack is one unit that drowns
def test_positions_and_results_are_those_of_the_reference_engine(
    rules: RuleSet, seats: int, seed: int, is_random: bool, late: bool
) -> None:
    policy = RandomPolicy(np.random.default_rng(seed)) if is_random else SteadyPolicy(seats)
    ended = both(rules, seats, policy, seed, late=late)
    done = 0
    while done < GAMES:
        done += len(next(ended))


def position(rules: RuleSet, seats: int, chooser: Chooser, steps: int) -> GameState:
    """A position in the course of a game, of a short one its last but one."""
    found = opening_state(rules, seats, f"{steps}{seats}")
    for state in islice(walk(found.clone(), chooser), steps):
        if state.phase != "over":
            found = state.clone()
    return found


@settings(max_examples=20, deadline=None)
@given(rules=rule_sets, seats=players, chooser=choosers, steps=st.integers(1, 250), data=st.data())
def test_a_trial_of_many_ends_as_play_on_ends_it(
    rules: RuleSet, seats: int, chooser: Chooser, steps: int, data: st.DataObject
) -> None:
    state = position(rules, seats, chooser, steps)
    states = [state]
    for action in state.legal:
        states.append(state.clone())
        states[-1].apply(action)
    to_end_of: Literal["game", "dive"] = data.draw(st.sampled_from(["game", "dive"]))
    source = rng(chooser.pick("abcdefgh"))
    deals = [view_for(state, None).sample(source).values for _ in range(4)]
    dice = [TurnDice(source, seats).rolls[: 200 + trial] for trial in range(4)]
    trials = [np.array([3, 0]), *(np.arange(1 + i % 4) for i in range(len(states) - 1))]
    found = play_on_many(
        states, given_luck(deals, dice), SteadyPolicy(seats), trials, to_end_of=to_end_of
    )
    wanted = []
    for begun, numbers in zip(states, trials, strict=True):
        for trial in numbers:
            played = begun.clone()
            played.values = deals[trial]
            play_on(played, dice[trial], steady, begun.dive if to_end_of == "dive" else 3)
            wanted.append((played.points(), halves(played)))
    assert [(tuple(p), h) for p, h in zip(*map(np.ndarray.tolist, found), strict=True)] == wanted


@settings(max_examples=20, deadline=None)
@given(rules=rule_sets, seats=players, chooser=choosers, steps=st.integers(1, 250))
def test_features_masks_and_positions_of_a_game_are_those_of_its_views(
    rules: RuleSet, seats: int, chooser: Chooser, steps: int
) -> None:
    state = position(rules, seats, chooser, steps)
    if state.phase not in ("declare", "roll", "search"):
        return
    batch = Batch(rules, seats, seats)
    all_seats = np.arange(seats)
    put(batch, all_seats, state)
    kind = np.full(seats, {"declare": DECLARE, "roll": NOTHING, "search": SEARCH}[state.phase])
    views = [view_for(state, seat) for seat in range(seats)]
    rows = features_many(batch, all_seats, all_seats, kind)
    for view, row in zip(views, rows, strict=True):
        assert features(view).tobytes() == row.tobytes(), str(view)
    legal = masks_many(batch, all_seats, kind)
    assert (legal == mask(views[state.to_move])[:TURN_ACTIONS]).all(), str(state)
    # What a seat cannot know changes nothing.
    source = rng(str(steps))
    batch.values[:] = [view.sample(source).values[1:] for view in views]
    assert rows.tobytes() == features_many(batch, all_seats, all_seats, kind).tobytes()
    other = views[0].sample(source)
    back = state_of(batch, 0, state.phase)
    # Chips of a bank are listed by their ids, those of earlier dives first.
    banks = zip(other.bank, other.banked_earlier, strict=True)
    other.bank = [(*sorted(bank[:old]), *sorted(bank[old:])) for bank, old in banks]
    assert str(back) == str(other)
    assert back.legal == other.legal


def luck(trials: int, seats: int, text: str = "luck") -> Luck:
    """Deals and dice of some trials, the same on every machine."""
    seeds = [seed_from_text(f"{text} {trial}") for trial in range(trials)]
    dice = [dice_of(shake_256(seed).digest(dice_length(seats))) for seed in seeds]
    return given_luck([*map(deal, seeds)], dice)


# By the test before these the batch is the reference engine, whatever the rules.
@pytest.mark.parametrize("name", daily(PRESETS, ["publisher"]))
def test_whole_games_stay_what_they_are(name: str) -> None:
    digest = sha256()
    for seats in range(MIN_PLAYERS, MAX_PLAYERS + 1):
        begun = [opening_state(PRESETS[name], seats, f"{starter}") for starter in range(seats)]
        for part in play_on_many(begun, luck(40, seats), SteadyPolicy(seats)):
            digest.update(part.astype("<i2").tobytes())
    assert digest.hexdigest()[:16] == GOLDENS[name]


@pytest.mark.parametrize("name", daily(PRESETS, ["publisher"]))
def test_hidden_values_change_no_position(name: str) -> None:
    seats, pairs = 4, 20
    batch = Batch(PRESETS[name], seats, 2 * pairs)
    one, other = np.arange(pairs), np.arange(pairs, 2 * pairs)
    given, values = luck(pairs, seats), luck(2 * pairs, seats, "others").values
    batch.open(np.append(one, other), values, 1)
    dice = GivenDice(given, np.append(one, one), seats)
    for _ in range(150):
        over = batch.play_turn(SteadyPolicy(seats), dice)
        left, right = batch.part(one), batch.part(other)
        for field in {*PER_GAME, *PER_DIVER} - {"values"}:
            assert np.array_equal(getattr(left, field), getattr(right, field)), field
        batch.open(over, 0, 0)


class Fixed(Policy):
    """Gives the same answer whatever it is asked."""

    orders = True

    def __init__(self, declared: Any = None, taken: Any = None, dropped: Any = None) -> None:
        self.declared, self.taken, self.dropped = declared, taken, dropped

    def declare(self, batch: Batch, turn: Turn) -> Array:
        return np.full(len(turn.diver), False) if self.declared is None else self.declared

    def take(self, batch: Batch, turn: Turn, units: Array) -> Array:
        return np.full(len(turn.diver), True) if self.taken is None else self.taken

    def drop(self, batch: Batch, turn: Turn) -> Array:
        return np.full(len(turn.diver), -1) if self.dropped is None else self.dropped

    def order(self, batch: Batch, orders: Orders) -> Array:
        return np.zeros(orders.items.shape, int)


def stage(text: str, name: str = "manual") -> Batch:
    """Three games that stand in this position; its phase is the stage that is next."""
    state = at(text, name)
    batch = Batch(state.rules, state.players, 3)
    put(batch, np.arange(3), state)
    return batch


DECLARES = f"{opening(3)} | *A5v:1 B7v | d1 a20"
TAKES = f"{opening(3)} | *A5v:1 B7v | d1 a20 search"
DROPS = f"{opening(3, 4, 5)} | *A5v:1,1,1 B7v | d1 a20 search"
ORDERS = f"{opening(3, 4, 5, 15)} | *A5v:1,1,1,2 B7v | d1 a0 order"
STRANDS = f"{opening(3, 4, 5, 15)} | *A5v:1,1,1,2 B7v | d1 a0 search"


ACTS: dict[str, Callable[[Batch, Any], object]] = {
    "declare": lambda batch, answer: batch.declare(batch.turn(), Fixed(declared=answer)),
    "take": lambda batch, answer: batch.search(batch.turn(), Fixed(taken=answer)),
    "drop": lambda batch, answer: batch.search(batch.turn(np.array([2, 0])), Fixed(dropped=answer)),
    "lay": lambda batch, _: batch.clean_up(np.arange(3), Fixed()),
    "move": lambda batch, answer: batch.move(batch.turn(np.array([1, 2])), answer),
    "begin": lambda batch, answer: batch.open(np.array([0, 2]), *answer),
    "select": lambda batch, answer: batch.turn(answer),
    "look": lambda batch, answer: features_many(batch, np.arange(3), answer, np.zeros(3)),
}
REFUSED: dict[str, tuple[str, str, Any, str]] = {
    "declares too few": (DECLARES, "declare", np.zeros(2, bool), "bool (2,), not of bool (3,)"),
    "declares numbers": (DECLARES, "declare", np.zeros(3, int), "declares is an array of int64"),
    "takes what is no array of games": (TAKES, "take", np.zeros((3, 1), bool), "takes is an array"),
    "drops booleans": (DROPS, "drop", np.zeros(2, bool), "drops is an array of bool"),
    "drops what it has not": (DROPS, "drop", np.array([-1, 3]), "game 0: seat A cannot drop"),
    "drops less than nothing": (DROPS, "drop", np.array([-2, 0]), "game 2: seat A cannot drop"),
    "lays an item twice": (STRANDS, "lay", None, "game 0: seat A cannot lay its 4 items"),
    "dice of no two faces": (DECLARES, "move", np.array([6, 7]), "game 2: two dice do not show 7"),
    "a die alone": (DECLARES, "move", np.array([2, 1]), "game 2: two dice do not show 1 together"),
    "dice for others": (
        DECLARES,
        "move",
        np.array([2, 2, 2]),
        "the dice is an array of int64 (3,)",
    ),
    "values of one game": (DECLARES, "begin", (np.zeros(32), 0), "values are (32,), not (2, 32)"),
    "a starter too many": (DECLARES, "begin", (0, np.array([1, 2])), "seat 2 cannot begin"),
    "a game too many": (DECLARES, "select", np.array([1, 3]), "no game 3 in a batch of 3"),
    "a game below 0": (DECLARES, "select", np.array([-1]), "no game -1 in a batch of 3"),
    "games as booleans": (DECLARES, "select", np.ones(3, bool), "numbers, not as bool"),
    "a view of nobody": (DECLARES, "look", np.array([0, 1, 2]), "game 2 has no seat 2"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_answer_is_refused_with_its_place_and_changes_nothing(case: str) -> None:
    text, act, answer, message = REFUSED[case]
    batch = stage(text)
    before = batch.part(np.arange(3))
    with pytest.raises((ValueError, RulesError), match=re.escape(message)):
        ACTS[act](batch, answer)
    for field in (*PER_GAME, *PER_DIVER):
        assert np.array_equal(getattr(batch, field), getattr(before, field)), field
    assert batch.decisions == 0


def test_of_units_with_one_name_the_first_is_dropped() -> None:
    batch, state = stage(DROPS), at(DROPS)
    state.apply("drop:1")
    batch.search(batch.turn(), Fixed(dropped=np.full(3, 2)))
    compare(batch, [state] * 3)


def test_a_diver_that_cannot_advance_may_only_turn_back() -> None:
    batch = stage("1 2 3 | *A3v:1 B0v | d2 a20", "guide")
    legal = masks_many(batch, np.arange(3), np.full(3, DECLARE))
    assert (legal == np.eye(TURN_ACTIONS)[1]).all()


def test_a_first_unit_of_just_the_worth_that_is_asked_for_is_taken() -> None:
    batch = stage("1 2 3 | *A1v B0v | d2 a20 search")
    just = STEADY[2]._replace(first_unit=(9.0, 1.5, 9.0))
    batch.search(batch.turn(), SteadyPolicy(2, just))
    assert batch.breath.tolist() == [1, 1, 1]


STACKS = (
    "{12} 3 x {1} x {2} | A1v:[321],2 *B3v:[23],[14] | d2 a0 search",
    "{12} 3 3 | A1^:[213],1,[44] *B2v:3 C3v:[12] | d2 a0 search",
)


@pytest.mark.parametrize("text", STACKS)
@pytest.mark.parametrize("relost_stack", ["unit", "chips"])
@pytest.mark.parametrize("preset", ["manual", "revised"])
def test_stranded_stacks_are_laid_as_in_the_reference_engine(
    preset: str, relost_stack: str, text: str
) -> None:
    rules = custom(preset, relost_stack=relost_stack)
    state = settle(play_steps(at(text, rules), "leave"))
    batch = Batch(rules, state.players, 3)
    put(batch, np.arange(3), at(text, rules))
    policy = Fixed(taken=np.zeros(3, bool))
    policy.orders = False
    batch.clean_up(batch.search(batch.turn(), policy), policy)
    compare(batch, [state] * 3)


def put_text(text: str, name: str = "manual") -> None:
    put(Batch(PRESETS["manual"], 2, 1), np.array([0]), at(text, name))


def play_rows(*trials: list[int]) -> None:
    state = at(DECLARES)
    play_on_many([state] * 2, luck(2, 2), SteadyPolicy(2), [np.array(t) for t in trials])


IMPOSSIBLE: dict[str, tuple[Callable[[], object], str]] = {
    "seven seats": (lambda: Batch(PRESETS["manual"], 7, 1), "a game has 2 to 6 players, not 7"),
    "one seat": (lambda: Batch(PRESETS["manual"], 1, 1), "a game has 2 to 6 players, not 1"),
    "less than no games": (lambda: Batch(PRESETS["manual"], 2, -1), "0 or more games, not -1"),
    "newer rules": (
        lambda: Batch(replace(PRESETS["manual"], unknown_options=("tide",)), 2, 1),
        "the option 'tide' is of a newer version",
    ),
    "games that were not begun": (lambda: Batch(PRESETS["manual"], 2, 4).turn(), "game 0 is over"),
    "another rule set": (lambda: put_text(DECLARES, "guide"), "the position guide with 2"),
    "an order to choose": (lambda: put_text(ORDERS), "a position in phase order has no turn"),
    "too many units": (
        lambda: put_text(f"{opening(*range(1, 9))} | *A9v:1,1,1,1,1,1,1,1 B0v | d1 a20"),
        "seat A: 8 units; up to 7 are possible",
    ),
    "a stack too long": (
        lambda: put_text("[1111111122] 3 | *A1v B0v | d2 a20"),
        "space 1: a stack of 10 chips; up to 9 are possible",
    ),
    "nothing to play on": (
        lambda: play_on_many([], luck(1, 2), SteadyPolicy(2)),
        "there is no position to play on",
    ),
    "a trial without luck": (lambda: play_rows([0, 1], [2]), "trial 2 is none of the 2"),
    "trials of fewer positions": (lambda: play_rows([0]), "trials of 1 positions for 2"),
    "dice without deals": (lambda: given_luck([], [b"1"]), "0 deals and dice for 1 trials"),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_what_cannot_be_is_refused(case: str) -> None:
    act, message = IMPOSSIBLE[case]
    with pytest.raises((ValueError, RulesError), match=re.escape(message)):
        act()


def test_a_roll_out_of_a_view_deals_what_it_does_not_know() -> None:
    state = opening_state(PRESETS["manual"], 3, "view")
    source = np.random.default_rng(1)
    same = roll_out_many(state, 200, SteadyPolicy(3), source, to_end_of="dive")
    dealt = roll_out_many(view_for(state, 0), 200, SteadyPolicy(3), source, to_end_of="dive")
    for results in (same, dealt):
        assert results.points.shape == results.halves.shape == (200, 3)
        assert (results.halves.sum(axis=1) == 3 * 2).all()
    luck_of_view = draw_luck(view_for(state, 0), source, 200)
    assert (np.sort(luck_of_view.values) == sorted(state.values[1:])).all()
    assert len(np.unique(luck_of_view.values, axis=0)) > 1
    assert (draw_luck(state, source, 200).values == state.values[1:]).all()


# What units hold, and what dives cost


@pytest.mark.parametrize("rules", [PRESETS["manual"], custom("manual", relost_stack="chips")])
def test_levels_chips_and_worth_are_those_of_the_units(rules: RuleSet) -> None:
    text = "1 [23] x 4 {144} | *A3v:2,[13] B2v C0v | d2 a9 declare"
    state = parse_position(text, rules)
    batch = Batch(rules, 3, 2)
    put(batch, np.arange(2), state)
    trail = batch.trail[1, 1 : len(state.trail)]
    assert levels(trail).tolist() == [
        [1, 0, 0, 0],
        [0, 1, 1, 0],
        [0, 0, 0, 0],
        [0, 0, 0, 1],
        [1, 0, 0, 2],
    ]
    assert chips(trail).tolist() == [1, 2, 0, 1, 3]
    assert worth(trail).tolist() == [1.5, 15, 0, 13.5, 28.5]
    assert levels(batch.carried).tolist() == 2 * [[1, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
    assert (chips(batch.carried)[0], worth(batch.carried)[0]) == (3, 16.5)
    assert levels(batch.cargo)[0, :2].tolist() == [[0, 1, 0, 0], [1, 0, 1, 0]]
    assert (levels(trail) - levels(trail).max()).min() == -2  # signed: differences may be negative


def test_what_drowned_is_told_at_the_end_of_each_dive_and_in_the_results() -> None:
    games, seats = 64, 3
    source = np.random.default_rng(1)
    batch, numbers = Batch(PRESETS["manual"], seats, games), np.arange(games)
    open_random(batch, numbers, source)
    policy, dice = SteadyPolicy(seats), RandomDice(source)
    expected = np.zeros((games, DIVES, seats), int)

    def on_dive_end(ending: Batch, ended: Array) -> None:
        for game in ended.tolist():
            state = state_of(ending, game)
            expected[game, state.dive - 1] = [len(cargo) for cargo in state.cargo]

    over = np.zeros(0, int)
    while not len(over):
        over = batch.play_turn(policy, dice, on_dive_end)
    assert (batch.results(numbers).drowned == expected).all()
    assert (batch.part(over).results(np.arange(len(over))).drowned == expected[over]).all()
    assert expected[:, 0].any()
    batch.open(over, 0, 0)
    assert not batch.results(over).drowned.any()
    points, halves = batch.results(over)
    assert points.shape == halves.shape == (len(over), seats)


@pytest.mark.parametrize("to_end_of", ["dive", "game"])
def test_a_roll_out_says_who_drowned_in_the_dives_that_it_played(
    to_end_of: Literal["dive", "game"],
) -> None:
    state = parse_position("1 1 1 2 2 2 3 3 3 | *A9^:1,1 B2v | d2 a1 declare", PRESETS["manual"])
    results = roll_out_many(
        state, 5, SteadyPolicy(2), np.random.default_rng(1), to_end_of=to_end_of
    )
    assert results.drowned.shape == (5, DIVES, 2)
    assert (results.drowned[:, 1, 0] >= 2).all()
    assert not results.drowned[:, 1, 1].any()
    assert not results.drowned[:, 0].any()
    assert to_end_of == "game" or not results.drowned[:, 2].any()


def test_the_study_of_the_docs_reproduces_what_players_say(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "learn.md").read_text(encoding="utf-8")
    study = page.split("## A study")[1].split("\n## ")[0]
    program, printed = re.findall(r"```\w+\n(.*?)```", study, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(program, "learn.md", "exec"), names)
    assert capsys.readouterr().out == printed
    assert np.mean(names["last"]) > np.mean(names["first"]) + 0.1
    assert np.mean(np.array(names["rolls"]) <= 3) == pytest.approx(1 / 3, abs=0.02)
    shallow, deep, *_ = np.mean(names["points"], axis=0)
    assert deep > shallow + 5
