"""Bots that keep in their module whatever they are sent, and their twin that forgets."""

from __future__ import annotations

TWIN = """
from deepsea_bots.greedy import Greedy
from deepsea_sdk import run

class Twin(Greedy):
    number = 2

run(Twin)
"""
"""Plays as `greedy`, whatever it has met."""

SUSPICIOUS = """
from deepsea_bots.greedy import Greedy
from deepsea_sdk import run

MET = set()

class Suspicious(Greedy):
    number = 2
    def on_game_start(self, info):
        for what in (info.commitment, info.game_id):
            if what in MET:
                raise RuntimeError(f"I have met {what} before")
            MET.add(what)

    def on_game_end(self, end):
        if end.seed in MET:
            raise RuntimeError("I have met this seed before")
        MET.add(end.seed)

run(Suspicious)
"""
"""Plays as `greedy` until anything comes again that a game has for itself: then it is at fault."""

EXPLOITS = """
from deepsea_bots.greedy import Greedy
from deepsea_rules.randomness import deal, source
from deepsea_sdk import TAKE, run

SEEDS = {}

class Exploits(Greedy):
    number = 2
    def on_game_start(self, info):
        self.info, self.turns = info, {}
        self.seed = SEEDS.get(info.commitment)

    def on_game_end(self, end):
        SEEDS[self.info.commitment] = end.seed

    def on_event(self, event):
        if getattr(event, "seat", None) == self.info.seat and hasattr(event, "dice"):
            self.turns[event.dive] = self.turns.get(event.dive, 0) + 1

    def gets_home(self, view, distance, load):
        if self.seed is None:
            return super().gets_home(view, distance, load)
        turn, left = self.turns.get(view.dive, 0) + 1, view.air
        others = sum(diver.load for diver in view.others if not diver.home)
        while distance > 0 and left > 0:
            turn += 1
            left -= load + others
            distance -= max(0, sum(source(self.seed).dice(view.dive, self.info.seat, turn)) - load)
        return distance <= 0

    def search(self, view):
        if self.seed is not None and view.can_take and view.unit_here:
            values, (chip, *_) = deal(self.seed), view.unit_here
            if values[chip] % 4 == 3 and self.gets_home(view, view.distance_home, view.me.load + 1):
                return TAKE
            return "leave"
        return super().search(view)

run(Exploits)
"""
"""Plays as `greedy`, but with the values and dice of the game if it has seen its end before."""
