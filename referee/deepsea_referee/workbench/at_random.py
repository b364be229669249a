"""A seat that needs no process: it chooses at random, in this one.

Invariants: it plays the same game in the same way, as the sample bot `random` does; it answers in a
later pass of the event loop, as a bot does, and takes no time.
"""

from __future__ import annotations

import asyncio
from typing import Final

from deepsea_referee.transport.answers import OnAnswer, TimedAnswer
from deepsea_rules.game import Game
from deepsea_rules.randomness import Stream
from deepsea_sdk.clock import TimeLeft
from deepsea_sdk.wire import NO_EVENTS


class AtRandom:
    """A seat of one game that chooses uniformly among the legal actions."""

    features: Final = frozenset({NO_EVENTS})

    def __init__(self, game: Game, seat: int) -> None:
        self._game = game
        self._chance = Stream(bytes.fromhex(game.commitment), f"random/{seat}")

    def send(self, message: bytes) -> None:
        """Do nothing: it remembers nothing."""

    def ask(self, request: bytes, time_left: TimeLeft, on_answer: OnAnswer) -> int:
        """Answer the question that the game has."""
        question = self._game.pending()
        assert question is not None
        action = question.legal[self._chance.uniform(len(question.legal))]
        asyncio.get_running_loop().call_soon(on_answer, TimedAnswer(action, 0))
        return 0
