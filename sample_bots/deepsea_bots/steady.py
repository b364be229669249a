"""Lesson 5: a bot that goes by a policy. The SDK has one that answers at once.

`steady` turns back, takes and drops by its chance to get home and nine numbers, which were found in
games of the policy against itself. It is quick because it also plays the futures of bots that look
ahead, by `roll_out`. Take it as a start, and change what you know better.
"""

from deepsea_sdk import BACK, Bot, Unit, View, run, steady


class Steady(Bot):
    """Plays by the SDK's policy."""

    concurrent_games = True

    def search(self, view: View) -> str:
        return steady(view)

    def turn_back(self, view: View) -> bool:
        return steady(view) == BACK

    def stack_order(self, view: View) -> list[Unit]:
        # Here the policy has no opinion: it lays the items as they are.
        return sorted(view.items, key=view.expected_value)


if __name__ == "__main__":
    run(Steady)
