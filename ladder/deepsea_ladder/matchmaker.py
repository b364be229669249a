"""The source of a season's games: who may be given one now, and the line-ups that follow.

Invariants: it reads the newest rotations and one row for each bot, however many games were played;
the same store gives the same games to every caller; bots and authors are known by their ids, so
that a new name changes nothing.
"""

from __future__ import annotations

from collections import Counter, deque
from itertools import combinations
from typing import TYPE_CHECKING

from deepsea_ladder.model import RatedVersion, Rotation, StoredSeason
from deepsea_ladder.pairing import Candidate, choose

if TYPE_CHECKING:
    from deepsea_ladder.store import Store

LATELY = 500
"""Rotations in which a meeting counts as lately."""
SHARE = 50
"""A large ladder makes one line-up for this many bots in one call, since each call is costly."""


class Matchmaker:
    """The source of a season's games."""

    def __init__(self, store: Store, season: StoredSeason) -> None:
        self._store = store
        self._season = season
        self._seen = 0
        """The last rotation that is in `_lately`."""
        self._lately: deque[frozenset[int]] = deque(maxlen=LATELY)
        self._bots: dict[int, tuple[int, int]] = {}
        """The ids of bot and author, of each version in `_lately` and of each that gets games."""
        self._playing: list[RatedVersion] = []

    def __call__(self, number: int, wanted: int) -> list[Rotation]:
        """At least `wanted` games to follow job `number`.

        Raises `PairingError` if no table can be filled.
        """
        candidates = self.candidates()
        season = self._season.settings
        fewest = min(season.seats)
        lineups = choose(
            candidates,
            season.seats,
            season.pairing,
            season.rating,
            max(-(-wanted // fewest), len(candidates) // SHARE),
            f"{self._season.commitment}/{number}".encode(),
            self._met(),
        )
        return [lineup.seatings() for lineup in lineups]

    def candidates(self) -> list[Candidate]:
        """The bots that may be given a game now."""
        queue = self._store.queue.for_pairing(self._season, LATELY, after=self._seen)
        self._seen = queue.rotations
        self._lately += queue.lately
        known = {**self._bots, **queue.bots}
        met = {version for bots in self._lately for version in bots}
        self._bots = {version: known[version] for version in met | queue.bots.keys()}
        # A bot that was added between the two queries gets games from the next call on.
        self._playing = [
            entry
            for entry in self._store.ratings.entries(self._season, ())
            if entry.takes_part(self._season.settings) and entry.version.id in queue.last_rotation
        ]
        had = Counter(self._bots[version][1] for bots in self._lately for version in bots)
        return [
            Candidate(
                bot=entry.version.id,
                author=self._bots[entry.version.id][1],
                rating=entry.tally.rating,
                games=entry.tally.games,
                pending=queue.pending.get(entry.version.id, 0),
                waited=queue.rotations - queue.last_rotation[entry.version.id],
                lately=had[self._bots[entry.version.id][1]],
            )
            for entry in self._playing
        ]

    def _met(self) -> Counter[tuple[int, int]]:
        """How often two versions met lately. Those that replaced others have met whom they met."""
        playing = self._playing
        present = {entry.version.id: entry.version.id for entry in playing}
        newest = {
            self._bots[entry.version.id][0]: entry.version.id
            for entry in playing
            if entry.is_current
        }
        for version, (bot, _) in self._bots.items():
            if bot in newest:
                present.setdefault(version, newest[bot])
        return Counter(
            pair
            for bots in self._lately
            for pair in combinations(sorted(present[bot] for bot in bots if bot in present), 2)
        )
