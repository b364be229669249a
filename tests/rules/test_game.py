"""The loop from seed and decisions to a result: what is asked, what happens by itself, forfeits."""

import gc
import hashlib
import weakref
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings

from deepsea_rules.errors import IllegalAction, RulesError
from deepsea_rules.faults import Fault
from deepsea_rules.game import Game
from deepsea_rules.randomness import deal, first_player, seed_from_text, source
from deepsea_rules.ruleset import PRESETS, RuleSet
from helpers.games import Chooser, choosers, play_out, players, rule_sets, salts
from helpers.positions import ALL, snapshot

SEED = seed_from_text("game")


def new_game(preset: str = "manual", count: int = 3, seed: bytes = SEED) -> Game:
    return Game(PRESETS[preset], count, seed)


def events_of(game: Game, viewer: int | None = None) -> list[dict[str, Any]]:
    return [dict(event) for event in game.events_for(viewer)]


# ------------------------------------------------------------------------- the beginning


@pytest.mark.parametrize("preset", ALL)
@pytest.mark.parametrize("count", range(2, 7))
def test_the_opening(preset: str, count: int) -> None:
    game = new_game(preset, count)
    state = game.state
    assert state.values == deal(SEED)
    assert [tuple(unit) for unit in state.trail] == [(), *((chip,) for chip in range(1, 33))]
    assert state.to_move == first_player(SEED, count)
    assert state.place == [0] * count
    assert (state.dive, state.air) == (1, 25)
    assert game.commitment == hashlib.sha256(SEED).hexdigest()
    assert game.decisions == []


def test_the_first_event_is_the_first_dive() -> None:
    game = new_game()
    game.pending()
    assert game.events_for(None)[0] == {
        "event": "dive",
        "dive": 1,
        "starter": first_player(SEED, 3),
        "air": 25,
        "trail": " ".join(["1"] * 8 + ["2"] * 8 + ["3"] * 8 + ["4"] * 8),
    }


# ---------------------------------------------------------------------------- questions


@given(rule_sets, players, salts, choosers)
@settings(max_examples=20)
def test_only_choices_are_asked(rules: RuleSet, count: int, salt: str, chooser: Chooser) -> None:
    def look(game: Game) -> None:
        question = game.pending()
        if question is None:
            assert game.state.phase == "over"
            return
        before = snapshot(game.state)
        assert len(question.legal) > 1
        assert question.seat == game.state.to_move
        assert tuple(question.legal) == tuple(game.state.legal_actions())
        kinds = {"declare": "declare", "search": "search", "order": "order"}
        assert question.kind == kinds[game.state.phase]
        assert game.view(question.seat).kind == question.kind
        assert game.view(question.seat).legal == tuple(question.legal)
        assert game.pending() == question  # asking twice changes nothing
        assert snapshot(game.state) == before

    play_out(Game(rules, count, seed_from_text(salt)), chooser, look)


def test_the_default_comes_first() -> None:
    firsts = defaultdict(set)
    for preset in ALL:

        def look(game: Game) -> None:
            if question := game.pending():
                firsts[question.kind].add(question.legal[0].split(":")[0])

        play_out(new_game(preset, 4), Chooser(preset, takes=True), look)
    assert firsts == {"declare": {"down"}, "search": {"leave"}, "order": {"order"}}


@pytest.mark.parametrize("action", ["down", "back", "drop:1", "order:1,2"])
def test_illegal_answers_change_nothing(action: str) -> None:
    game = new_game()
    question = game.pending()
    assert question is not None
    assert question.kind == "search"
    before = snapshot(game.state)
    with pytest.raises(IllegalAction):
        game.decide(action)
    assert snapshot(game.state) == before
    assert game.pending() == question
    assert game.decisions == []


@pytest.mark.parametrize("count", [-1, 0, 1, 7])
def test_a_game_has_two_to_six_players(count: int) -> None:
    with pytest.raises(ValueError, match="2 to 6"):
        Game(PRESETS["manual"], count, SEED)


@pytest.mark.parametrize("seed", [b"", bytes(31), bytes(33)])
def test_a_seed_has_32_bytes(seed: bytes) -> None:
    with pytest.raises(ValueError, match="32"):
        Game(PRESETS["manual"], 2, seed)


def test_no_answer_without_a_fault() -> None:
    game = new_game()
    with pytest.raises(RulesError):
        game.decide(None)
    assert game.decisions == []


def test_no_decision_after_the_end() -> None:
    game = play_out(new_game(), Chooser("game", takes=True))
    with pytest.raises(IllegalAction):
        game.decide("down")


def test_no_result_before_the_end() -> None:
    game = new_game()
    game.pending()
    with pytest.raises(RulesError):
        game.result()


def test_decisions_are_noted_with_their_times() -> None:
    game = new_game()
    question = game.pending()
    assert question is not None
    decision = game.decide("take", us=412)
    assert (decision.seat, decision.action) == (question.seat, "take")
    assert (decision.us, decision.fault) == (412, None)
    assert game.decisions == [decision]


# ------------------------------------------------------------------------------- events


EVENT_KEYS = {
    "dive": "event dive starter air trail",
    "turn": "event dive seat declare dice from_space to_space home search air",
    "cleanup": "event dive reason trail banked starter",
    "end": "event points placements seed",
}


@given(rule_sets, players, salts, choosers)
@settings(max_examples=20)
def test_the_events_tell_the_game(rules: RuleSet, count: int, salt: str, chooser: Chooser) -> None:
    """Dice, air, places and cargo, followed from event to event."""
    seed = seed_from_text(salt)
    game = play_out(Game(rules, count, seed), chooser)
    events = events_of(game)
    for event in events:
        assert " ".join(event) == EVENT_KEYS[event["event"]]
    assert events[0]["event"] == "dive"
    assert events[-1]["event"] == "end"
    kinds = "".join(
        {"dive": "D", "turn": "t", "cleanup": "C", "end": "E"}[e["event"]] for e in events
    )
    assert kinds.replace("t", "") in ("DCE", "DCDCE", "DCDCDCE")
    assert "DC" not in kinds

    starter, expected, dives, air = None, 0, 0, 25
    place, load, turns = [0] * count, [0] * count, [0] * count
    home: set[int] = set()
    for event in events:
        if event["event"] == "dive":
            dives += 1
            assert (event["dive"], event["air"]) == (dives, 25)
            assert starter in (None, event["starter"])
            starter, air = event["starter"], 25
            place, load, turns, home = [0] * count, [0] * count, [0] * count, set()
            expected = starter
        elif event["event"] == "turn":
            seat = event["seat"]
            while expected in home:
                expected = (expected + 1) % count
            assert seat == expected
            expected = (seat + 1) % count
            turns[seat] += 1
            assert event["dive"] == dives
            assert event["dice"] == [*source(seed).dice(dives, seat, turns[seat])]
            assert event["from_space"] == place[seat]
            air -= load[seat]
            assert event["air"] == air
            assert event["declare"] in ("down", "back", None)
            place[seat] = event["to_space"]
            if event["to_space"] == 0:
                assert event["search"] is None
                load[seat] = 0
            else:
                assert event["home"] is False
                assert event["search"] is not None
                load[seat] += {"take": 1, "leave": 0}.get(event["search"], -1)
            if event["home"]:
                home.add(seat)
        elif event["event"] == "cleanup":
            assert event["dive"] == dives
            assert list(event["banked"]) == list("ABCDEF"[:count])
            if event["reason"] == "home":
                assert len(home) == count
            elif event["reason"] == "air":
                assert air <= 0
            else:
                assert event["reason"] == "stall"
                assert air > 0
                assert len(home) < count
            for seat in range(count):
                assert seat in home or event["banked"]["ABCDEF"[seat]] == []
            starter = event["starter"]
        else:
            assert starter is None
            assert event["points"] == list(game.result().points)
            assert event["placements"] == list(game.result().placements)
            assert event["seed"] == seed.hex()
    banked = [
        sum(len(e["banked"]["ABCDEF"[seat]]) for e in events if e["event"] == "cleanup")
        for seat in range(count)
    ]
    assert banked == [len(bank) for bank in game.state.bank]


def test_events_since_a_mark() -> None:
    game = new_game("publisher")
    marks = []
    chooser = Chooser("mark", takes=True)
    while (question := game.pending()) is not None:
        marks.append(len(game.events))
        assert game.events_for(0, skip=marks[-1]) == []
        game.decide(chooser.action(question.legal))
    everything = game.events_for(0)
    for mark in marks:
        assert game.events_for(0, skip=mark) == everything[mark:]


@pytest.mark.parametrize("preset", ALL)
def test_the_seed_is_told_last_and_not_before(preset: str) -> None:
    secret = SEED.hex()

    def look(game: Game) -> None:
        text = repr([game.events_for(viewer) for viewer in (0, 1, 2, None)])
        assert (secret in text) is (game.pending() is None)

    play_out(new_game(preset), Chooser("secret"), look)


# ------------------------------------------------------------------- faults and forfeits


def play_with_faults(
    game: Game, faults: dict[int, list[Fault]], chooser: Chooser | None = None
) -> Game:
    """Play to the end; each seat commits its faults at its first decisions."""
    chooser = chooser or Chooser("faults", takes=True)
    left = {seat: list(kinds) for seat, kinds in faults.items()}
    while (question := game.pending()) is not None:
        if left.get(question.seat):
            game.decide(None, fault=left[question.seat].pop(0))
        else:
            game.decide(chooser.action(question.legal))
    return game


T, I, P, R = Fault.TIMEOUT, Fault.ILLEGAL_ACTION, Fault.PROTOCOL_ERROR, Fault.RESOURCE_LIMIT  # noqa: E741
C, S = Fault.CRASH, Fault.START_TIMEOUT


@pytest.mark.parametrize(
    ("faults", "forfeit"),
    [
        ([], None),
        ([T], None),
        ([T, T], None),
        ([T, I], None),
        ([P], (0, P)),
        ([R], (0, R)),
        ([T, T, T], (2, T)),
        ([T, I, P], (2, P)),
        ([C], (0, C)),
        ([S], (0, S)),
        ([T, C], (1, C)),
        ([I, T, C], (2, C)),
    ],
)
def test_what_forfeits(faults: list[Fault], forfeit: tuple[int, Fault] | None) -> None:
    game = play_with_faults(new_game(), {1: faults})
    mine = [i for i, decision in enumerate(game.decisions) if decision.seat == 1]
    if forfeit is None:
        assert game.forfeits == []
        assert not game.has_forfeited(1)
        assert len(mine) > len(faults)
        return
    number, fault = forfeit
    (entry,) = game.forfeits
    assert (entry.seat, entry.fault, entry.decision) == (1, fault, mine[number])
    assert game.has_forfeited(1)
    assert not game.has_forfeited(0)
    assert mine[number] == mine[-1]  # it is not asked again


def test_faults_count_by_seat() -> None:
    game = play_with_faults(new_game(), {0: [T, T], 1: [I, I], 2: [T, I]})
    assert game.forfeits == []


@pytest.mark.parametrize("preset", ALL)
def test_a_forfeited_seat_goes_on_with_defaults(preset: str) -> None:
    """Down, leave and the pick-up order: no more treasure, no early way home."""
    game = new_game(preset)
    game = play_with_faults(game, {2: [C]}, Chooser(preset, takes=True))
    (entry,) = game.forfeits
    events = [e for e in events_of(game) if e["event"] == "turn" and e["seat"] == 2]
    assert len(events) > 3
    assert {event["search"] for event in events} <= {"leave", None}
    free = {event["declare"] for event in events}
    assert free <= ({None, "down", "back"} if preset == "guide" else {None, "down"})
    assert game.result().points[2] == 0
    assert entry.decision == next(
        i for i, decision in enumerate(game.decisions) if decision.seat == 2
    )


@pytest.mark.parametrize("preset", ALL)
def test_forfeits_rank_last_later_above_earlier(preset: str) -> None:
    game = new_game(preset, 4)
    faults = {2: [S], 0: [T, T, T]}
    game = play_with_faults(game, faults)
    assert [entry.seat for entry in game.forfeits] == [2, 0]
    result = game.result()
    scores, placements = result.points, result.placements
    assert placements[2] == 4
    assert placements[0] == 3
    finishers = sorted((placements[1], placements[3]))
    assert finishers in ([1, 2], [1, 1])
    if scores[1] != scores[3]:
        assert (placements[1] < placements[3]) is (scores[1] > scores[3])
    assert game.events_for(None)[-1]["placements"] == list(placements)  # type: ignore[typeddict-item]


def test_all_seats_forfeit() -> None:
    game = play_with_faults(new_game("manual", 3), {0: [C], 1: [C], 2: [C]})
    order = [entry.seat for entry in game.forfeits]
    assert sorted(order) == [0, 1, 2]
    placements = game.result().placements
    assert [placements[seat] for seat in order] == [3, 2, 1]
    assert len(game.decisions) == 3


def test_nothing_holds_on_to_a_game_that_is_over() -> None:
    gc.disable()
    try:
        game = play_out(Game(PRESETS["manual"], 3, SEED), Chooser("gone"))
        views = [game.view(seat) for seat in (0, 1, 2, None)]
        gone = weakref.ref(game)
        del game
        assert gone() is None
        assert len(views) == 4
    finally:
        gc.enable()
