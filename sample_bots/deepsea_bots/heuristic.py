"""Lesson 4: a bot that calculates. This one knows its chance to get home, exactly.

A diver with k units moves max(0, roll - k) spaces a turn, so the chance to cover a distance in a
number of turns is plain arithmetic, and the SDK does it: `home_chance`, `turns_left`. This bot
compares such chances, times the points at stake, one move ahead.
"""

from collections.abc import Iterator, Sequence

from deepsea_sdk import LEAVE, ROLLS, TAKE, Bot, Unit, View, drop, home_chance, run, turns_left

PATIENCE = 8.0
"""Points that a diver without cargo hopes to find deeper, shared among all seats."""


class Heuristic(Bot):
    """Compares, one move ahead, the points that it is likely to bring home."""

    concurrent_games = True

    def turn_back(self, view: View) -> bool:
        """Turn back if that is likely to bring home at least as much as going on."""
        return self.prospect(view, homeward=True) >= self.prospect(view, homeward=False)

    def search(self, view: View) -> str:
        """Return the action after which we are likely to bring home the most."""
        points_by_action = {LEAVE: self.likely_points(view, view.me.cargo)}
        if view.can_take:
            points_by_action[TAKE] = self.likely_points(view, (*view.me.cargo, view.unit_here))
        for unit in view.droppable:
            other_units = list(view.me.cargo)
            other_units.remove(unit)
            points_by_action[drop(unit)] = self.likely_points(view, other_units)
        # The first unit slows us down for the rest of the dive, so a poor one can wait.
        if not view.me.homeward and not view.me.cargo and view.can_take:
            points_by_action[TAKE] -= PATIENCE / view.players
        return max(points_by_action, key=lambda action: points_by_action[action])

    def stack_order(self, view: View) -> list[Unit]:
        """Lay the poorest items nearest to the submarine."""
        return sorted(view.items, key=view.expected_value)

    def prospect(self, view: View, homeward: bool) -> float:
        """Return the points that we are likely to bring home if we turn back now, or go on.

        It is a mean over all rolls; after each one we take the unit there if that is better.
        """
        cargo = view.me.cargo
        total = 0.0
        for roll, chance in ROLLS.items():
            place = self.place_after(view, roll - len(cargo), homeward)
            turns = turns_left(view, len(cargo)) - 1
            cargos = [cargo]
            if place > 0 and view.trail[place]:
                cargos.append((*cargo, view.trail[place]))
            total += chance * max(
                self.value(view, option) * home_chance(place, len(option), turns)
                for option in cargos
            )
        return total

    def likely_points(self, view: View, cargo: Sequence[Unit]) -> float:
        """Return the points that we are likely to bring home from here with this cargo."""
        turns = turns_left(view, len(cargo))
        return self.value(view, cargo) * home_chance(view.distance_home, len(cargo), turns)

    def value(self, view: View, cargo: Sequence[Unit]) -> float:
        """Return the mean worth of a cargo."""
        return sum(view.expected_value(unit) for unit in cargo)

    def place_after(self, view: View, steps: int, homeward: bool) -> int:
        """Return the space that so many steps lead to; spaces of other divers are skipped."""
        place = view.distance_home
        for space in self.way(view, homeward):
            if steps <= 0:
                break
            if space == 0 or space not in view.place:
                place = space
                steps -= 1
        return place

    def way(self, view: View, homeward: bool) -> Iterator[int]:
        """Yield the spaces ahead, towards the submarine (0) or down."""
        current_space = view.distance_home
        yield from (
            range(current_space - 1, -1, -1)
            if homeward
            else range(current_space + 1, len(view.trail))
        )


if __name__ == "__main__":
    run(Heuristic)
