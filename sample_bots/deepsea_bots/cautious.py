"""Lesson 2: a bot looks at its view. This one takes little, and gets home.

What costs air is carrying: every unit takes one of it each turn, and one step off every roll. So
two chips that come home are worth more than five that drown.
"""

from deepsea_sdk import LEAVE, TAKE, Bot, View, drop, run

ENOUGH = 2
"""Most units to take: with two a diver still moves two spaces a turn, with three hardly one."""


class Cautious(Bot):
    """Takes two chips where it finds them, and goes home before the air gets short."""

    concurrent_games = True

    def turn_back(self, view: View) -> bool:
        """Turn back with enough cargo, or with any cargo when the air gets short."""
        # Asked before each roll, once we may turn: some rules want us to carry treasure first.
        return view.me.load >= ENOUGH or (view.me.load > 0 and self.air_is_short(view))

    def search(self, view: View) -> str:
        """Take up to two units, and drop one if the air gets short."""
        # We can take where treasure lies and drop where nothing does: the view knows.
        if view.can_take and view.me.load < ENOUGH and not self.air_is_short(view):
            return TAKE
        if view.droppable and view.me.load > 1 and self.air_is_short(view):
            # Lighten the load: it is better to give up one chip than to lose two.
            return drop(view.droppable[0])
        return LEAVE

    def air_is_short(self, view: View) -> bool:
        """Return True if the air may not last until we are home."""
        # We all breathe the same air: a round costs as much as all divers carry together. On the
        # way home we make about two spaces in a round.
        breath = sum(diver.load for diver in view.divers)
        rounds_home = view.distance_home / 2
        return view.air < (breath + 1) * (rounds_home + 1)


if __name__ == "__main__":
    run(Cautious)
