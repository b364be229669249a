"""What one decision is made of, apart from the messages' way: rules, bytes, and the bot's SDK.

Invariants: the referee's and the SDK's own functions are called one after the other for whole
games, as `match` and `client` call them; each part has the median of all its times, so that what
the machine does meanwhile does not count.
"""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Final

from at_once import AtOnce
from deepsea_rules.game import Game
from deepsea_rules.randomness import seed_from_text
from deepsea_rules.ruleset import DEFAULT, preset
from deepsea_sdk import wire
from deepsea_sdk._pb import play_pb2 as pb
from deepsea_sdk.clock import TimeLeft
from figures import median

LEFT: Final = TimeLeft(100_000, 2_000_000)
SEATS: Final = 2


def parts(games: int) -> dict[str, float]:
    """Seconds that each part of a decision takes."""
    times: dict[str, list[float]] = defaultdict(list)
    for number in range(games):
        _play(Game(preset(DEFAULT), SEATS, seed_from_text(f"bench {number}")), times)
    return {name: median(all_of_them) for name, all_of_them in times.items()}


def _play(game: Game, times: dict[str, list[float]]) -> None:
    bot = AtOnce()
    game.keep_no_events()  # the bot reads none
    writer = wire.RequestWriter("bench-0001", game.events)
    last = time.perf_counter()

    def lap(name: str) -> None:
        nonlocal last
        now = time.perf_counter()
        times[name].append(now - last)
        last = time.perf_counter()

    while (question := game.pending()) is not None:
        view = game.view(question.seat)
        lap("rules: question and view")
        data = wire.numbered(writer.write(view, None, LEFT), 1)
        lap("referee: question as bytes")
        request = wire.request_from_wire(pb.PlayResponse.FromString(data).requests[0], game.rules)
        lap("bot: bytes as a view")
        action = bot.decide(request.view)
        lap("bot: decides")
        answer = pb.PlayRequest()
        wire.decision_to_wire(wire.Answer(request.request_id, action), answer.decisions.add())
        data = answer.SerializeToString()
        lap("bot: decision as bytes")
        action = wire.read_from_bot(data).answers[0].action
        lap("referee: bytes as a decision")
        game.decide(action)
        lap("rules: the move")
