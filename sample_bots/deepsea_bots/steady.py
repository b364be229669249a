"""Lesson 5: a bot that plays by a policy. The SDK has one that answers at once.

`steady` turns back, takes and drops by its chance to get home and nine constants, which were fitted
in games of the policy against itself. It is quick because bots that look ahead also use it in their
roll-outs (`roll_out`). Take it as a start, and change what you know better.
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
        # The policy itself would lay the items in pick-up order.
        return sorted(view.items, key=view.expected_value)


if __name__ == "__main__":
    run(Steady)
