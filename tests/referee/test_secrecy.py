"""What a seat is sent depends on what the seat may know, to the byte.

A game is stopped at one of a seat's requests; every value that the seat does not know there is
another chip's of its level; the same game with the same decisions then sends the seat the same
bytes up to there.
"""

from __future__ import annotations

import pytest

from deepsea_referee.bots.process import Hosting
from deepsea_referee.bots.resolve import resolve
from deepsea_referee.match import MatchSettings
from deepsea_referee.sandbox.plain_process import PlainProcess
from deepsea_rules.game import Game
from deepsea_rules.randomness import Stream, game_seed, seed_from_text
from deepsea_rules.ruleset import PRESETS, RuleSet
from deepsea_sdk._pb import play_pb2 as pb
from deepsea_sdk.entropy import fresh_seed, fresh_token
from helpers.games import other_values
from helpers.in_loop import run
from helpers.streams import Decide, Table
from helpers.tiers import daily

PLAYERS = 3
SEEDS = [game_seed(seed_from_text("secrecy"), number) for number in range(3)]


def by_what_is_public(seed: bytes, *, faulty: bool) -> Decide:
    """A bot that decides by chance and not by any value, now and then against the rules."""
    chance = Stream(seed, "bot")

    def decide(request: pb.DecisionRequest) -> str:
        if faulty and chance.uniform(40) == 0:
            return "drop:5"
        return request.legal[chance.uniform(len(request.legal))]

    return decide


def play(rules: RuleSet, seed: bytes, values: tuple[int, ...] | None) -> list[list[bytes]]:
    """Play a game, with other values if given; returns what each seat was sent."""

    async def test() -> list[list[bytes]]:
        bots = [
            by_what_is_public(seed + bytes([seat]), faulty=seat == 0) for seat in range(PLAYERS)
        ]
        table = Table(bots)
        game = Game(rules, PLAYERS, seed)
        if values is not None:
            game.state.values = values
        await table.play(game)
        return [stream.sent for stream in table.streams]

    return run(test())


def revealed_to(rules: RuleSet, view: pb.View) -> set[int]:
    """The chips whose values the rules have shown to the seat that looks."""
    revealed: set[int] = set()
    for seat, diver in enumerate(view.divers):
        if rules.owner_peek == "on_return" and seat == view.seat:
            revealed.update(diver.bank)
        elif rules.reveal == "dive_end" and view.phase == pb.PHASE_ORDER:
            revealed.update(diver.bank)  # the clean-up begins with the reveal
        elif rules.reveal == "dive_end":
            revealed.update(diver.bank[: diver.banked_earlier])
    return revealed


# One rule set for each way to reveal values.
@pytest.mark.parametrize("name", daily(PRESETS, ["manual", "guide", "publisher"]))
@pytest.mark.parametrize("seed", daily(SEEDS, SEEDS[:1]), ids=range(len(SEEDS)))
def test_hidden_values_change_no_byte_until_a_rule_reveals_them(name: str, seed: bytes) -> None:
    rules = PRESETS[name]
    sent = play(rules, seed, None)
    revealed = 0
    for seat in range(PLAYERS):
        messages = [pb.PlayResponse.FromString(data) for data in sent[seat]]
        asked = [number for number, message in enumerate(messages) if message.requests]
        revealed += len(messages[asked[-1]].requests[0].view.known)
        for stop in asked[:: len(asked) // 4]:
            view = messages[stop].requests[0].view
            known = {pair.chip for pair in view.known}
            assert known == revealed_to(rules, view)
            dealt = Game(rules, PLAYERS, seed).state.values
            values = other_values(dealt, known)
            assert values != dealt
            again = play(rules, seed, values)
            assert again[seat][: stop + 1] == sent[seat][: stop + 1]
            assert again[seat] != sent[seat]  # the end shows everything
    assert revealed or rules.reveal == "game_end"


@pytest.mark.parametrize("name", PRESETS)
def test_the_seed_is_sent_with_the_end_and_never_before(name: str) -> None:
    seed = SEEDS[0]
    for sent in play(PRESETS[name], seed, None):
        over = [number for number, data in enumerate(sent) if seed in data]
        assert len(over) == 1
        assert pb.PlayResponse.FromString(sent[over[0]]).results[0].seed == seed
        assert not any(seed.hex().encode() in data for data in sent[: over[0]])


def test_seeds_are_256_bits_from_the_systems_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    def draw(count: int) -> bytes:
        drawn.append(count)
        return bytes([len(drawn)]) * count

    monkeypatch.setattr("secrets.token_bytes", draw)
    assert [fresh_seed(), fresh_seed()] == [b"\1" * 32, b"\2" * 32]
    assert drawn == [32, 32]
    bots = [resolve("greedy"), resolve("greedy")]
    settings = MatchSettings(bots=bots, hosting=Hosting(PlainProcess()))
    assert settings.seed == b"\3" * 32


def test_tokens_are_256_bits_and_no_two_are_alike() -> None:
    tokens = {fresh_token() for _ in range(100)}
    assert len(tokens) == 100
    assert {len(token) for token in tokens} == {43}  # 6 bits in each character


def test_a_finished_games_seed_tells_nothing_about_the_next() -> None:
    # What a bot learns at the end is a hash; the seed that it came from is sent to nobody.
    run_seed = seed_from_text("a run")
    shown = {game_seed(run_seed, number) for number in range(100)}
    assert len(shown) == 100
    assert run_seed not in shown
