"""Lesson 7: a bot that has learnt. It takes the action that the SDK's evaluation values most.

The evaluation is a small net. What it looks at is in deepsea_sdk/evaluation/inputs.py, and what it
knows it found in games with itself: `python -m deepsea_sdk.train` trains one like it, in minutes.
It needs no numpy to play, and no search: an answer takes a millisecond.
"""

from deepsea_sdk import BACK, DOWN, Bot, Unit, View, run
from deepsea_sdk.evaluation import choices


class Pearl(Bot):
    """Chooses what is worth most."""

    concurrent_games = True

    def turn_back(self, view: View) -> bool:
        worth = choices(view)
        return worth[BACK] > worth[DOWN]

    def search(self, view: View) -> str:
        worth = choices(view)
        return max(worth, key=lambda action: worth[action])

    def stack_order(self, view: View) -> list[Unit]:
        # Here the evaluation has no opinion.
        return sorted(view.items, key=view.expected_value)


if __name__ == "__main__":
    run(Pearl)
