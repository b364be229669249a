"""Roll-outs: a sampled position is played to its end, and every seat gets what it banked."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256

import pytest

from deepsea_rules import PRESETS, GameState, IllegalAction
from deepsea_rules.events import Happening, TurnPlayed
from deepsea_rules.game import Game
from deepsea_rules.randomness import deal
from deepsea_rules.ruleset import FACES
from deepsea_sdk import Policy, TurnDice, roll_out, sensible, steady
from helpers.games import rng

GOLDEN = "f396dc4d90f93792fd7ce58034c0566edee036dcf5d7e45682be55f21a69dc23"


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


class Checked(GameState):
    """A state that looks at every move that a roll-out makes without being checked."""

    __slots__ = ()

    def unchecked_declare(self, action: str | None) -> None:
        assert self.phase == "declare"
        assert action in self.legal or (action is None and not self.legal)
        super().unchecked_declare(action)

    def unchecked_move(self, d1: int, d2: int) -> None:
        assert self.phase == "roll"
        assert d1 in FACES
        assert d2 in FACES
        super().unchecked_move(d1, d2)

    def unchecked_search(self, action: str) -> None:
        assert self.phase == "search"
        assert action in self.legal
        super().unchecked_search(action)

    def unchecked_order(self, action: str) -> None:
        assert self.phase == "order"
        assert action in self.legal
        super().unchecked_order(action)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_move_of_a_roll_out_is_legal(preset: str) -> None:
    for players in range(2, 7):
        source = rng(f"{preset}/{players}")
        for number in range(8):
            values = deal(bytes([number]) * 32)
            state = Checked.opening(PRESETS[preset], values, players, number % players)
            roll_out(state, source)
            assert state.phase == "over"


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


def test_all_rolls_and_actions_come_up() -> None:
    """Each of the nine rolls about as often, and each declaration and search."""
    log: list[Happening] = []
    for number in range(60):
        state = GameState.opening(PRESETS["guide"], deal(bytes([number]) * 32), 4, 0, log)
        roll_out(state, rng(f"{number}"))
    turns = [happening for happening in log if isinstance(happening, TurnPlayed)]
    rolls = Counter(turn.dice for turn in turns)
    assert len(rolls) == 9
    assert min(rolls.values()) > 0.8 * len(turns) / 9
    declared = Counter(turn.declare for turn in turns if turn.declare)
    assert 0.8 < declared["down"] / declared["back"] < 1.25
    kinds = Counter(turn.search and turn.search[:4] for turn in turns)
    assert set(kinds) == {None, "leav", "take", "drop"}


# Policies


def legal_policy(state: GameState) -> str:
    """Take all there is and never turn back, but for the orders of the last item first."""
    assert len(state.legal) > 1
    return state.legal[-1] if state.phase != "declare" else state.legal[0]


@pytest.mark.parametrize("preset", PRESETS)
def test_a_policy_decides_wherever_there_is_a_choice(preset: str) -> None:
    log: list[Happening] = []
    state = GameState.opening(PRESETS[preset], deal(bytes(32)), 4, 0, log)
    roll_out(state, rng("policy"), legal_policy)
    assert state.phase == "over"
    turns = [happening for happening in log if isinstance(happening, TurnPlayed)]
    assert {turn.declare for turn in turns} <= {None, "down"} | (
        {"back"} if PRESETS[preset].forced_turn == "when_cannot_advance" else set()
    )
    assert "take" in {turn.search for turn in turns}


def test_a_policy_gets_the_same_dice_as_another() -> None:
    """Chance is drawn for dice alone, so that two policies are compared on equal luck."""

    def first_dice(policy: Policy) -> list[tuple[int, int] | None]:
        log: list[Happening] = []
        state = GameState.opening(PRESETS["manual"], deal(bytes(32)), 4, 0, log)
        roll_out(state, rng("dice"), policy)
        return [event.dice for event in log if isinstance(event, TurnPlayed)][:20]

    assert first_dice(legal_policy) == first_dice(sensible)


def test_what_a_policy_may_not_do_is_refused() -> None:
    state = GameState.opening(PRESETS["manual"], deal(bytes(32)), 2, 0)
    with pytest.raises(IllegalAction, match="back"):
        roll_out(state, rng("dice"), lambda _: "back")


@pytest.mark.parametrize("policy", [None, sensible])
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
    for number, policy in enumerate((sensible, steady, lambda state: state.legal[0])):
        state = Rolls.opening(PRESETS["manual"], deal(bytes([number]) * 32), players, 0)
        assert isinstance(state, Rolls)
        state.rolls = {}
        roll_out(state, dice, policy)
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
            for policy in (None, sensible, steady):
                found.update(f"{roll_out(view.sample(source), source, policy)}".encode())
            dice = TurnDice(source, players)
            state = view.sample(source)
            found.update(f"{roll_out(state, dice, steady)} {state}".encode())
    assert found.hexdigest() == GOLDEN
