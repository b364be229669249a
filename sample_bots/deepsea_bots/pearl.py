"""Lesson 7: a bot that has learnt. It takes the action that the SDK's evaluation values most.

The evaluation is a small net. Its inputs are in deepsea_sdk/evaluation/plain.py, and its weights
were trained in games with itself: `python -m deepsea_sdk.train` trains a net like it, in minutes.
It needs no numpy to play, and no search: an answer takes a millisecond.
"""

from deepsea_sdk import BACK, DOWN, Bot, Unit, View, run
from deepsea_sdk.evaluation import choices


class Pearl(Bot):
    """Chooses the action with the highest value."""

    concurrent_games = True

    def turn_back(self, view: View) -> bool:
        values = choices(view)
        return values[BACK] > values[DOWN]

    def search(self, view: View) -> str:
        values = choices(view)
        return max(values, key=lambda action: values[action])

    def stack_order(self, view: View) -> list[Unit]:
        # The evaluation values all orders alike.
        return sorted(view.items, key=view.expected_value)


if __name__ == "__main__":
    run(Pearl)
