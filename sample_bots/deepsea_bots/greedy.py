"""Lesson 3: a bot plans ahead. This one takes as much as it can, and turns back when it must.

Its one question is: if I carry this much from here, does the air last until I am home? Everything
it does follows from the answer.
"""

from deepsea_sdk import LEAVE, TAKE, Bot, Unit, View, drop, run

STEPS = (4, 3, 2, 10 / 9, 4 / 9, 1 / 9)
"""Mean spaces that a roll moves a diver with 0, 1, 2, ... units; with six it never moves."""


class Greedy(Bot):
    """Dives as deep and loads as much as the air allows, by its own estimate."""

    concurrent_games = True

    def turn_back(self, view: View) -> bool:
        """Turn back if there may be no way home from the next space."""
        # Deeper is better as long as there is a way back from where the next roll may end.
        load = view.me.load
        deeper = view.distance_home + STEPS[min(load, 5)]
        return load > 0 and not self.gets_home(view, deeper, load)

    def search(self, view: View) -> str:
        """Take what we can still carry home, and drop the poorest unit if we are too heavy."""
        # One more unit costs air each turn and makes every step home slower: can we afford it?
        if view.can_take and self.gets_home(view, view.distance_home, view.me.load + 1):
            return TAKE
        # Homeward and too heavy: give up what is worth least, but never the last thing we have.
        too_heavy = not self.gets_home(view, view.distance_home, view.me.load)
        if view.droppable and view.me.load > 1 and view.me.homeward and too_heavy:
            return drop(min(view.droppable, key=view.expected_value))
        return LEAVE

    def stack_order(self, view: View) -> list[Unit]:
        """Lay the poorest items nearest to the submarine."""
        # Stranded: our items are laid in piles past the end of the trail. The best go deepest,
        # where the next dive's divers come last.
        return sorted(view.items, key=view.expected_value)

    def gets_home(self, view: View, distance: float, load: int) -> bool:
        """Return True if the air lasts for this way and load, if the others keep their cargo."""
        if load >= len(STEPS):
            return False
        turns = distance / STEPS[load]
        others_load = sum(diver.load for diver in view.others if not diver.home)
        return turns * (load + others_load) <= view.air


if __name__ == "__main__":
    run(Greedy)
