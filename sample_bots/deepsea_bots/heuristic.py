"""Lesson 4: a bot that calculates. This one knows its chance to get home, exactly.

A diver with k units moves max(0, roll - k) spaces a turn, so the chance to cover a distance in a
number of turns is plain arithmetic, and the SDK does it: `home_chance`, `turns_left`. Everything
this bot does compares such chances, times what is at stake, one move ahead.
"""

from collections.abc import Iterator, Sequence

from deepsea_sdk import LEAVE, ROLLS, TAKE, Bot, Unit, View, drop, home_chance, run, turns_left

PATIENCE = 8.0
"""What an empty-handed diver hopes to find deeper, shared among all who dive."""


class Heuristic(Bot):
    """Compares, one move ahead, what it is likely to bring home."""

    concurrent_games = True

    def turn_back(self, view: View) -> bool:
        return self.prospect(view, homeward=True) >= self.prospect(view, homeward=False)

    def search(self, view: View) -> str:
        worth = {LEAVE: self.worth(view, view.me.cargo)}
        if view.can_take:
            worth[TAKE] = self.worth(view, (*view.me.cargo, view.unit_here))
        for unit in view.droppable:
            rest = list(view.me.cargo)
            rest.remove(unit)
            worth[drop(unit)] = self.worth(view, rest)
        # The first unit slows us down for the rest of the dive, so a poor one can wait.
        if not view.me.homeward and not view.me.cargo and view.can_take:
            worth[TAKE] -= PATIENCE / view.players
        return max(worth, key=lambda action: worth[action])

    def stack_order(self, view: View) -> list[Unit]:
        return sorted(view.items, key=view.expected_value)

    def prospect(self, view: View, homeward: bool) -> float:
        """What we are likely to bring home if we turn now, or go on, and then do our best."""
        cargo = view.me.cargo
        total = 0.0
        for roll, chance in ROLLS.items():
            place = self.after(view, roll - len(cargo), homeward)
            turns = turns_left(view, len(cargo)) - 1
            choices = [cargo]
            if place > 0 and view.trail[place]:
                choices.append((*cargo, view.trail[place]))
            total += chance * max(
                self.value(view, choice) * home_chance(place, len(choice), turns)
                for choice in choices
            )
        return total

    def worth(self, view: View, cargo: Sequence[Unit]) -> float:
        """What we are likely to bring home if we swim home from here with this cargo."""
        turns = turns_left(view, len(cargo))
        return self.value(view, cargo) * home_chance(view.distance_home, len(cargo), turns)

    def value(self, view: View, cargo: Sequence[Unit]) -> float:
        return sum(view.expected_value(unit) for unit in cargo)

    def after(self, view: View, steps: int, homeward: bool) -> int:
        """The space that so many steps lead to, hopping over other divers."""
        place = view.distance_home
        for space in self.way(view, homeward):
            if steps <= 0:
                break
            if space == 0 or space not in view.place:
                place = space
                steps -= 1
        return place

    def way(self, view: View, homeward: bool) -> Iterator[int]:
        here = view.distance_home
        yield from range(here - 1, -1, -1) if homeward else range(here + 1, len(view.trail))


if __name__ == "__main__":
    run(Heuristic)
