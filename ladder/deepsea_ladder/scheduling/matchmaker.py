"""The runner's source of games: reads the store and calls the pairing.

Invariants: it decides nothing, `pairing` does; the same store gives the same games to every
caller; it reads the newest rotations and one row for each bot, however many games were played.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from itertools import combinations
from typing import Final, Protocol

from deepsea_ladder.model.bots import RatedVersion
from deepsea_ladder.model.jobs import PairingQueue, Rotation
from deepsea_ladder.model.seasons import StoredSeason
from deepsea_ladder.scheduling.pairing import Candidate, choose

LATELY: Final = 500
"""Rotations in which a meeting counts as lately."""
_SHARE: Final = 50
"""A large ladder makes one line-up for this many bots in one call, since each call is costly."""


class _Ratings(Protocol):
    def entries(self, season: StoredSeason) -> Sequence[RatedVersion]: ...


class _Queue(Protocol):
    def for_pairing(self, season: StoredSeason, lately: int, *, after: int = 0) -> PairingQueue: ...


class PairingStore(Protocol):
    """The queries of a store that the pairing needs."""

    @property
    def ratings(self) -> _Ratings:
        """The ratings now."""

    @property
    def queue(self) -> _Queue:
        """The jobs until now."""


class Matchmaker:
    """The source of a season's games."""

    def __init__(self, store: PairingStore, season: StoredSeason) -> None:
        self._store = store
        self._season = season
        self._seen = 0
        """The last rotation that is in `_lately`."""
        self._lately: deque[frozenset[int]] = deque(maxlen=LATELY)
        self._names: dict[int, tuple[str, str]] = {}
        """The bot and the author of each version in `_lately`."""
        self._playing: list[RatedVersion] = []

    def __call__(self, number: int, wanted: int) -> list[Rotation]:
        """At least `wanted` games to follow job `number`.

        Raises `PairingError` if no table can be filled.
        """
        candidates = self.candidates()
        season = self._season.season
        fewest = min(season.seats)
        lineups = choose(
            candidates,
            season.seats,
            season.pairing,
            season.rating,
            max(-(-wanted // fewest), len(candidates) // _SHARE),
            f"{self._season.commitment}/{number}".encode(),
            self._met(),
        )
        return [lineup.seatings() for lineup in lineups]

    def candidates(self) -> list[Candidate]:
        """The bots that may be given a game now."""
        queue = self._store.queue.for_pairing(self._season, LATELY, after=self._seen)
        self._seen = queue.rotations
        self._lately += queue.lately
        self._names |= queue.names
        # A bot that was added between the two queries gets games from the next call on.
        self._playing = [
            entry
            for entry in self._store.ratings.entries(self._season)
            if entry.gets_games(self._season.season) and entry.version.id in queue.last_rotation
        ]
        had = Counter(self._names[version][1] for bots in self._lately for version in bots)
        return [
            Candidate(
                bot=entry.version.id,
                author=entry.version.author,
                rating=entry.tally.rating,
                games=entry.tally.games,
                pending=queue.pending.get(entry.version.id, 0),
                waited=queue.rotations - queue.last_rotation[entry.version.id],
                lately=had[entry.version.author],
            )
            for entry in self._playing
        ]

    def _met(self) -> Counter[tuple[int, int]]:
        """How often two versions met lately. Those that replaced others have met whom they met."""
        playing = self._playing
        present = {entry.version.id: entry.version.id for entry in playing}
        newest = {entry.version.bot: entry.version.id for entry in playing if entry.is_current}
        for version, (bot, _) in self._names.items():
            if bot in newest:
                present.setdefault(version, newest[bot])
        return Counter(
            pair
            for bots in self._lately
            for pair in combinations(sorted(present[bot] for bot in bots if bot in present), 2)
        )
