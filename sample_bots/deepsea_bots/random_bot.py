"""Lesson 1: a bot picks one of the legal actions. This one does not care which.

It is called random_bot.py because a file random.py, run as a program, would stand in the way of
Python's own module of that name.
"""

from deepsea_rules.randomness import Stream
from deepsea_sdk import Bot, GameInfo, View, run


class Random(Bot):
    """Chooses uniformly among all legal actions."""

    # All that it knows of a game is in `self`, so several may run at once: long matches are faster.
    concurrent_games = True

    def on_game_start(self, info: GameInfo) -> None:
        # Every game comes with a text that nobody can foresee, the commitment to its seed. Random
        # numbers from it make a bot reproducible: it plays the same game in the same way again.
        self.random = Stream(bytes.fromhex(info.commitment), f"random/{info.seat}")

    def decide(self, view: View) -> str:
        # `decide` is what the SDK calls for every kind of decision. Most bots leave it alone and
        # say what they want in `turn_back`, `search` and `stack_order`; see cautious.py.
        return view.legal[self.random.uniform(len(view.legal))]


# A bot's file is a program: the referee starts it, and `run` connects it to its seat.
if __name__ == "__main__":
    run(Random)
