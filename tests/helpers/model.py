"""A second, slow engine, written from the rules page alone: what the real one is compared with.

It favours the page's sentences over speed: it looks everything up again each time, compares whole
turns for the stall rule, and tries orders out. It knows chips only by id and nothing about
notation, views or events. Where the page leaves something open, `open_starters` says so.
"""

from collections.abc import Sequence
from typing import Any

HOME = -1
Chips = tuple[int, ...]


def level(chip: int) -> int:
    return (chip - 1) // 8 + 1


def name(unit: Chips) -> str:
    digits = "".join(str(level(chip)) for chip in unit)
    return digits if len(unit) == 1 else f"[{digits}]"


class Model:
    """One game under the given options."""

    def __init__(self, options: dict[str, Any], players: int, starter: int) -> None:
        self.options = options
        self.players = players
        self.trail: list[Chips] = [(chip,) for chip in range(1, 33)]  # space n is trail[n - 1]
        self.laid: set[Chips] = set()
        self.bank: list[Chips] = [()] * players
        self.dive = 0
        self.open_starters: list[int] = []
        self._board(starter)

    @classmethod
    def on_trail(
        cls, options: dict[str, Any], players: int, dive: int, trail: list[Chips], laid: set[Chips]
    ) -> "Model":
        """The start of a dive on a trail that earlier dives left, seat 0 to move."""
        model = cls(options, players, 0)
        model.dive, model.trail, model.laid = dive, list(trail), set(laid)
        return model

    def _board(self, starter: int) -> None:
        self.dive += 1
        self.air = 25
        self.place = [0] * self.players
        self.homeward = [False] * self.players
        self.kept_out = [False] * self.players
        self.cargo: list[list[Chips]] = [[] for _ in range(self.players)]
        self.home_order: list[int] = []
        self.quiet = 0
        self.to_move = starter
        self._begin_turn()

    def _begin_turn(self) -> None:
        self.phase = "declare"
        self._before = self._turn_facts()

    def _turn_facts(self) -> tuple[Any, ...]:
        """What has to stay as it is for a turn to be quiet."""
        return self.air, list(self.place), [list(cargo) for cargo in self.cargo]

    def _out(self) -> list[int]:
        return [seat for seat in range(self.players) if self.place[seat] != HOME]

    def _free(self, space: int) -> bool:
        return space not in self.place

    # What may be done

    def legal(self) -> list[str]:
        seat = self.to_move
        cargo = self.cargo[seat]
        if self.phase == "declare":
            if self.homeward[seat]:
                return []
            if self.place[seat] == 0:
                return ["down"]
            deeper = range(self.place[seat] + 1, len(self.trail) + 1)
            if self.options["forced_turn"] == "when_cannot_advance" and not any(
                self._free(space) for space in deeper
            ):
                return ["back"]
            if self.options["turn_needs_treasure"] and not cargo:
                return ["down"]
            return ["down", "back"]
        if self.phase == "search":
            if self.trail[self.place[seat] - 1]:
                return ["leave", "take"]
            last_is_kept = self.homeward[seat] and not self.options["drop_last_after_turn"]
            if len(cargo) == 1 and last_is_kept:
                return ["leave"]
            drops = []
            for unit in cargo:
                if f"drop:{name(unit)}" not in drops:
                    drops.append(f"drop:{name(unit)}")
            return ["leave", *drops]
        return []

    def may_differ(self) -> bool:
        """Whether orders of the items of the seat to move lead to different piles."""
        items = self._items(self.to_move)
        names = {tuple(sorted(map(level, item))) for item in items}
        piles = {self._lay(self._piles, [item])[1][0] for item in items[:1]}
        piles |= set(self._lay(self._piles, items)[1])
        return len(names) > 1 and len(piles) > 1

    # Playing

    def act(self, action: str) -> None:
        if self.phase == "declare":
            self.homeward[self.to_move] = action == "back"
            self._breathe()
        elif self.phase == "search":
            self._search(action)
            self._end_turn()
        else:
            self._order(action)

    def _breathe(self) -> None:
        self.air -= len(self.cargo[self.to_move])
        self.phase = "roll"

    def roll(self, d1: int, d2: int) -> None:
        if self.phase == "declare":
            self._breathe()
        seat = self.to_move
        steps = max(0, d1 + d2 - len(self.cargo[seat]))
        if self.homeward[seat]:
            self._swim_home(steps)
        else:
            free = [
                space
                for space in range(self.place[seat] + 1, len(self.trail) + 1)
                if self._free(space)
            ]
            reach = free[:steps]
            if reach:
                self.place[seat] = reach[-1]
        if self.place[seat] in (0, HOME):
            self._end_turn()
        else:
            self.phase = "search"

    def _swim_home(self, steps: int) -> None:
        seat = self.to_move
        start = self.place[seat]
        free = [space for space in range(start - 1, 0, -1) if self._free(space)]
        if steps <= len(free):
            if steps:
                self.place[seat] = free[steps - 1]
            return
        empty = not self.cargo[seat] and self.options["home_empty_handed"] == "barred"
        if empty and self.options["barred_release"] == "never_this_dive":
            self.kept_out[seat] = True
        if empty or self.kept_out[seat]:
            self.place[seat] = free[-1] if free else start
            return
        self.place[seat] = HOME
        self.home_order.append(seat)
        for unit in self.cargo[seat]:
            self.bank[seat] += unit
        self.cargo[seat] = []

    def _search(self, action: str) -> None:
        seat = self.to_move
        space = self.place[seat] - 1
        if action == "take":
            unit = self.trail[space]
            self.cargo[seat].append(unit)
            self.laid.discard(unit)
            self.trail[space] = ()
        elif action.startswith("drop:"):
            wanted = action.removeprefix("drop:")
            unit = next(unit for unit in self.cargo[seat] if name(unit) == wanted)
            self.cargo[seat].remove(unit)
            self.trail[space] = unit

    def _end_turn(self) -> None:
        facts = self._turn_facts()
        # Who got home lost its cargo to the bank, which is a change like any other.
        self.quiet = self.quiet + 1 if facts == self._before else 0
        out = self._out()
        if not out or self.air <= 0 or self.quiet >= len(out):
            self._end_dive()
            return
        while True:
            self.to_move = (self.to_move + 1) % self.players
            if self.to_move in out:
                break
        self._begin_turn()

    # Between dives

    def _end_dive(self) -> None:
        self.stranded = self._out()
        self.last_places = list(self.place)
        farthest_first = self.options["drop_sequence"] == "farthest_first"
        self._waiting = sorted(
            (seat for seat in self.stranded if self.cargo[seat]),
            key=lambda seat: self.place[seat],
            reverse=farthest_first,
        )
        # A pile is written as its room for items and the chips in it.
        self._piles: list[tuple[int, Chips]] = []
        self._old_tail: list[int] = []
        if self.options["top_up_tail_piles"]:
            for space in range(len(self.trail), 0, -1):
                unit = self.trail[space - 1]
                if unit and unit not in self.laid:
                    break
                if unit and len(unit) < 3:
                    self._old_tail.insert(0, space)
            self._piles = [
                (3 - len(self.trail[space - 1]), self.trail[space - 1]) for space in self._old_tail
            ]
        self._next_to_lay()

    def _items(self, seat: int) -> list[Chips]:
        if self.options["relost_stack"] == "unit":
            return list(self.cargo[seat])
        return [(chip,) for unit in self.cargo[seat] for chip in unit]

    def _lay(
        self, piles: list[tuple[int, Chips]], items: Sequence[Chips]
    ) -> tuple[list[tuple[int, Chips]], list[int]]:
        """The piles after the items were laid one by one, and where each of them went."""
        piles, where = list(piles), []
        for item in items:
            index = next((i for i, (room, _) in enumerate(piles) if room > 0), len(piles))
            if index == len(piles):
                piles.append((3, ()))
            room, chips = piles[index]
            piles[index] = (room - 1, chips + item)
            where.append(index)
        return piles, where

    def _next_to_lay(self) -> None:
        while self._waiting:
            self.to_move = self._waiting[0]
            if self.options["drop_order"] == "owner_choice" and self.may_differ():
                self.phase = "order"
                return
            self._lay_down(self._items(self.to_move))
        self._clean_up()

    def _order(self, action: str) -> None:
        left = self._items(self.to_move)
        items = []
        for wanted in action.removeprefix("order:").split(","):
            item = next(item for item in left if name(item) == wanted)
            left.remove(item)
            items.append(item)
        assert not left
        self._lay_down(items)
        self._next_to_lay()

    def _lay_down(self, items: list[Chips]) -> None:
        self._piles, _ = self._lay(self._piles, items)
        self.cargo[self._waiting.pop(0)] = []

    def _clean_up(self) -> None:
        old = len(self._old_tail)
        for space, (_, chips) in zip(self._old_tail, self._piles[:old], strict=True):
            if self.trail[space - 1] != chips:
                self.laid.discard(self.trail[space - 1])
                self.laid.add(chips)
                self.trail[space - 1] = chips
        for _, chips in self._piles[old:]:
            self.trail.append(chips)
            self.laid.add(chips)
        self.trail = [unit for unit in self.trail if unit]
        self.open_starters = self._starters()
        if self.dive == 3 or not self.trail:
            self.phase = "over"
        else:
            self._board(self.open_starters[0])

    def _starters(self) -> list[int]:
        """Who begins the next dive; several if the page does not say which of them."""
        far = max((self.last_places[seat] for seat in self.stranded), default=None)
        farthest = [seat for seat in self.stranded if self.last_places[seat] == far]
        last_home = self.home_order[-1:]
        if self.options["starter"] == "last_home_else_farthest":
            return last_home or farthest
        return farthest or last_home

    def choose_starter(self, seat: int) -> None:
        """Settle an open question the way the other engine did."""
        if seat in self.open_starters and self.to_move in self.open_starters:
            self.to_move = seat

    # Points

    def result(self, values: Sequence[int]) -> tuple[list[int], list[int]]:
        scores = [sum(values[chip] for chip in bank) for bank in self.bank]
        keys = []
        for seat in range(self.players):
            tied = [other for other in range(self.players) if scores[other] == scores[seat]]
            counts = {
                other: [
                    sum(level(chip) == number for chip in self.bank[other])
                    for number in (4, 3, 2, 1)
                ]
                for other in tied
            }
            kind = self.options["tiebreak"]
            if kind == "lexicographic":
                key = counts[seat]
            elif kind == "level4":
                key = counts[seat][:1]
            else:
                tops = [i for i in range(4) if any(count[i] for count in counts.values())]
                key = [counts[seat][tops[0]]] if tops else []
            keys.append((scores[seat], key))
        return scores, [1 + sum(other > key for other in keys) for key in keys]
