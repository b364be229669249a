"""Chances, roll-outs and policies: by brute force, and by games that are played on."""

from __future__ import annotations

import itertools
from collections import Counter
from hashlib import sha256

import pytest
from hypothesis import given, settings

from deepsea_rules.actions import BACK, DOWN, LEAVE, TAKE
from deepsea_rules.errors import IllegalAction
from deepsea_rules.events import EngineEvent, TurnPlayed
from deepsea_rules.game import Game
from deepsea_rules.randomness import deal
from deepsea_rules.ruleset import FACES, PRESETS, RuleSet
from deepsea_rules.state import GameState
from deepsea_rules.view import view_for
from deepsea_sdk import (
    MANY_TURNS,
    Policy,
    TurnDice,
    home_chance,
    roll_out,
    steady,
    turns_left,
)
from deepsea_sdk.policies import STEADY, policy
from helpers import games
from helpers.games import Chooser, opening_state, rng, walk
from helpers.positions import at
from helpers.tiers import daily

ROLLS = [d1 + d2 for d1 in FACES for d2 in FACES]


def counted(distance: int, load: int, turns: int) -> float:
    """The share of all sequences of rolls that cover the distance."""
    home = [
        sum(max(0, roll - load) for roll in rolls) >= distance
        for rolls in itertools.product(ROLLS, repeat=turns)
    ]
    return sum(home) / len(home)


@pytest.mark.parametrize(
    ("load", "turns"),
    daily(itertools.product(range(7), range(5)), [*itertools.product(range(7), range(4)), (1, 4)]),
)
def test_the_chance_to_get_home_is_that_of_all_rolls_counted(load: int, turns: int) -> None:
    for distance in (0, 1, 2, 3, 5, 8, 12):
        expected = counted(distance, load, turns)
        assert home_chance(distance, load, turns) == pytest.approx(expected)


def test_other_divers_on_the_way_only_help() -> None:
    # With B and C on the way, 6 spaces home are 4 that count.
    home = 0
    for d1, d2 in itertools.product(FACES, FACES):
        state = at("1 1 1 1 1 x 1 | *A6^:1 B5v C4v | d1 a25")
        state.roll(d1, d2)
        home += state.home_order == (0,)
    assert home / 9 == pytest.approx(home_chance(4, 1, 1))
    assert home / 9 > home_chance(6, 1, 1)


def rolls_played(state: GameState) -> int:
    """How many rolls the seat to move makes in this dive if nobody takes, drops or gets home."""
    seat, dive, rolls = state.to_move, state.dive, 0
    while state.dive == dive and state.phase != "over":
        if state.phase == "search":
            state.apply("leave")
        elif state.phase == "order":
            state.apply(state.legal[0])
        else:
            rolls += state.to_move == seat
            state.roll(1, 1)
    return rolls


@pytest.mark.parametrize("air", [1, 2, 3, 4, 5, 6, 7, 12, 25])
@pytest.mark.parametrize(
    "divers",
    ["*A30v:1,1 B29v:1,1", "*A30v:1,1 B0v", "*A30v:1,1 B29v:1,1,1 C28v:2,2,2,2", "*A31v B29v:1,1"],
)
@pytest.mark.parametrize("phase", ["", "roll", "search"])
def test_the_turns_left_are_those_that_are_played(divers: str, air: int, phase: str) -> None:
    # Two ones move nobody who carries two or more; who carries none only goes down.
    state = at(f"1 {'x ' * 31}| {divers} | d1 a{air} {phase}".strip())
    load = len(state.cargo[state.to_move])
    expected = turns_left(state, load)
    assert turns_left(view_for(state, state.to_move), load) == expected
    assert min(rolls_played(state), MANY_TURNS) == expected


def test_turns_left_is_asked_for_a_load_that_is_not_carried_yet() -> None:
    state = at("1 1 1 1 | *A4v B3v:1,1 | d1 a12 search")
    # The two of B, and then rounds of 2 or 3.
    assert [turns_left(state, load) for load in (0, 1)] == [5, 4]


def test_without_anybody_who_carries_there_is_no_end() -> None:
    assert turns_left(at("1 1 1 1 | *A4v B3v | d1 a1 search"), 0) == MANY_TURNS


# Roll-outs: a sampled position is played to its end, and every seat gets what it banked


GOLDEN = "c070421aae42be2339c41cc458bc6c2391ff5678fb3c270793621d32009203ba"


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("players", [2, 6])
def test_a_roll_out_ends_the_game_and_returns_points_by_seat(preset: str, players: int) -> None:
    game = Game(PRESETS[preset], players, bytes(32))
    question = game.pending()
    assert question is not None
    position = game.view(question.seat).sample(rng("values"))
    trial = position.clone()
    scores = roll_out(trial, rng("course"))
    assert trial.phase == "over"
    assert scores == tuple(sum(trial.values[chip] for chip in bank) for bank in trial.bank)
    # The same chance gives the same course, and the position it began from is untouched.
    assert roll_out(position.clone(), rng("course")) == scores
    assert position.phase != "over"


class Counted:
    """Somebody's own source of numbers: 0, 1/100, 2/100, ..., again and again."""

    def __init__(self) -> None:
        self.count = -1

    def random(self) -> float:
        self.count = (self.count + 1) % 100
        return self.count / 100


def test_any_source_of_numbers_from_0_to_1_will_do() -> None:
    game = Game(PRESETS["guide"], 3, bytes(32))
    source = Counted()
    position = game.view(0).sample(source)
    for level in range(4):
        chips = slice(8 * level + 1, 8 * level + 9)
        assert sorted(position.values[chips]) == sorted(game.state.values[chips])
    assert len(roll_out(position, source)) == 3


# Policies


def legal_policy(state: GameState) -> str:
    """Take all there is and never turn back, but for the orders of the last item first."""
    assert len(state.legal) > 1
    return state.legal[-1] if state.phase != "declare" else state.legal[0]


@pytest.mark.parametrize("preset", PRESETS)
def test_a_policy_decides_wherever_there_is_a_choice(preset: str) -> None:
    log: list[EngineEvent] = []
    state = GameState.opening(PRESETS[preset], deal(bytes(32)), 4, 0, log)
    roll_out(state, rng("policy"), legal_policy)
    assert state.phase == "over"
    turns = [event for event in log if isinstance(event, TurnPlayed)]
    assert {turn.declare for turn in turns} <= {None, "down"} | (
        {"back"} if PRESETS[preset].forced_turn == "when_cannot_advance" else set()
    )
    assert "take" in {turn.search for turn in turns}


def test_a_policy_gets_the_same_dice_as_another() -> None:
    """Chance is drawn for dice alone, so that two policies are compared on equal luck."""

    def first_dice(policy: Policy) -> list[tuple[int, int] | None]:
        log: list[EngineEvent] = []
        state = GameState.opening(PRESETS["manual"], deal(bytes(32)), 4, 0, log)
        roll_out(state, rng("dice"), policy)
        return [event.dice for event in log if isinstance(event, TurnPlayed)][:20]

    assert first_dice(legal_policy) == first_dice(steady)


def test_what_a_policy_may_not_do_is_refused() -> None:
    state = GameState.opening(PRESETS["manual"], deal(bytes(32)), 2, 0)
    with pytest.raises(IllegalAction, match="back"):
        roll_out(state, rng("dice"), lambda _: "back")


@pytest.mark.parametrize("policy", [None, steady])
def test_a_roll_out_may_stop_when_the_dive_ends(policy: Policy | None) -> None:
    for number in range(20):
        state = GameState.opening(PRESETS["manual"], deal(bytes([number]) * 32), 3, 0)
        for dive in (1, 2, 3):
            assert state.dive == dive
            points = roll_out(state, rng(f"{number}"), policy, to_end_of="dive")
            assert points == state.points()
            if len(state.trail) == 1:
                break
            assert (state.phase, state.dive) == (("declare", dive + 1) if dive < 3 else ("over", 3))


class Rolls(GameState):
    """A state that writes down what each seat rolls in each of its turns."""

    __slots__ = ("rolls",)
    rolls: dict[tuple[int, int, int], tuple[int, int]]

    def unchecked_move(self, d1: int, d2: int) -> None:
        turn = sum(key[:2] == (self.dive, self.to_move) for key in self.rolls)
        self.rolls[self.dive, self.to_move, turn] = d1, d2
        super().unchecked_move(d1, d2)


@pytest.mark.parametrize("players", [2, 4, 6])
def test_turn_dice_are_the_same_for_a_seats_turn_whatever_is_done(players: int) -> None:
    dice = TurnDice(rng(f"dice of {players}"), players)
    courses = []
    for number, choose in enumerate((steady, lambda state: state.legal[0])):
        state = Rolls.opening(PRESETS["manual"], deal(bytes([number]) * 32), players, 0)
        assert isinstance(state, Rolls)
        state.rolls = {}
        roll_out(state, dice, choose)
        assert state.phase == "over"
        courses.append(state.rolls)
    one, *others = courses
    for other in others:
        common = one.keys() & other.keys()
        assert len(common) > 3 * players
        assert one.keys() != other.keys()
        assert {key: one[key] for key in common} == {key: other[key] for key in common}


def test_turn_dice_are_fair_and_differ_from_trial_to_trial() -> None:
    source = rng("fair")
    trials = [TurnDice(source, 6) for _ in range(20)]
    assert len({trial.rolls for trial in trials}) == 20
    counts = Counter(b"".join(trial.rolls for trial in trials))
    assert sorted(counts) == list(range(9))
    mean = sum(counts.values()) / 9
    assert all(abs(count - mean) < 5 * mean**0.5 for count in counts.values())


def test_with_turn_dice_a_policy_chooses() -> None:
    state = GameState.opening(PRESETS["manual"], deal(bytes(32)), 2, 0)
    with pytest.raises(TypeError, match="steady"):
        roll_out(state, TurnDice(rng("dice"), 2))


def test_the_same_seeds_give_the_same_roll_outs_on_every_machine() -> None:
    found = sha256()
    for name in PRESETS:
        for players in (2, 4, 6):
            game = Game(PRESETS[name], players, bytes([players]) * 32)
            question = game.pending()
            assert question is not None
            view = game.view(question.seat)
            source = rng(f"{name} {players}")
            for choose in (None, steady):
                found.update(f"{roll_out(view.sample(source), source, choose)}".encode())
            dice = TurnDice(source, players)
            state = view.sample(source)
            found.update(f"{roll_out(state, dice, steady)} {state}".encode())
    assert found.hexdigest() == GOLDEN


# The steady policy: legal everywhere, by public facts alone, and strong


@settings(max_examples=40)
@given(games.rule_sets, games.players, games.choosers)
def test_steady_is_legal_and_the_same_for_a_view(
    rules: RuleSet, players: int, chooser: Chooser
) -> None:
    for state in walk(opening_state(rules, players, "steady"), chooser):
        if state.legal:
            action = steady(state)
            assert action in state.legal
            assert steady(view_for(state, state.to_move)) == action


@pytest.mark.parametrize(
    ("position", "action"),
    [
        # Nothing to lose yet.
        ("1 1 1 1 2 2 2 2 | *A3v B0v | d1 a25", DOWN),
        # The way home takes all the air that is left.
        ("1 1 1 x 2 2 x x 3 3 3 | *A8v:2,2 B4v:1 | d1 a12", BACK),
        # A first unit that surely comes home, and one that cannot.
        ("1 1 1 1 2 2 2 2 3 3 | *A9v B0v | d1 a25 search", TAKE),
        ("1 1 1 1 2 2 2 2 3 3 | *A9^ B1v:1,1,1 | d1 a3 search", LEAVE),
    ],
)
def test_what_steady_does(position: str, action: str) -> None:
    assert steady(at(position)) == action


def test_steady_with_other_numbers_plays_otherwise() -> None:
    bold = policy(STEADY[2]._replace(turn_back=(0.0, 0.0, 0.0)))
    state = at("1 1 1 x 2 2 x x 3 3 3 | *A8v:2,2 B4v:1 | d1 a12")
    assert (steady(state), bold(state)) == (BACK, DOWN)
