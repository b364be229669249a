"""Asks the pairing for the next games, from what the store knows: the runner's source.

Laws: it decides nothing, `pairing` does; the same store gives the same games, whoever asks; what
was arranged before is read once and then only continued.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Sequence
from itertools import combinations
from typing import Final

from deepsea_ladder.model import BotState, Rotation, StoredSeason
from deepsea_ladder.scheduling.pairing import Candidate, choose
from deepsea_ladder.store import Store

_REMEMBERED: Final = 200_000
"""Jobs that are looked back on; who has not played in them waits longest."""
_LATELY: Final = 500
"""Line-ups whose meetings count as lately."""
_SHARE: Final = 50
"""A large ladder is paired this many bots to a line-up at once, since each look at it costs."""


class Matchmaker:
    """The source of a season's games."""

    def __init__(self, store: Store, season: StoredSeason) -> None:
        self._store = store
        self._season = season
        self._seen = 0
        self._created: list[int] = []
        """When each line-up was arranged; its index is the line-up's number in here."""
        self._last: dict[int, int] = {}
        """The last line-up of each version."""
        self._lately: deque[frozenset[int]] = deque(maxlen=_LATELY)

    def __call__(self, number: int, wanted: int) -> Sequence[Rotation]:
        """At least `wanted` games to follow job `number`, as blocks of line-ups.

        Raises `PairingError` if no table can be filled.
        """
        self._catch_up(number)
        candidates = self._candidates()
        season = self._season.season
        fewest = min(season.seats)
        lineups = choose(
            candidates,
            season.seats,
            season.pairing,
            season.rating,
            max(-(-wanted // fewest), len(candidates) // _SHARE),
            f"{self._season.commitment}/{number}".encode(),
            Counter(pair for bots in self._lately for pair in combinations(sorted(bots), 2)),
        )
        return [lineup.seatings() for lineup in lineups]

    def _catch_up(self, number: int) -> None:
        block = None
        for job in self._store.queue.arranged(
            self._season, after=max(self._seen, number - _REMEMBERED)
        ):
            self._seen = job.number
            if job.block == block:
                continue
            block = job.block
            for version in job.lineup:
                self._last[version] = len(self._created)
            self._created.append(job.created_at)
            self._lately.append(frozenset(job.lineup))

    def _candidates(self) -> list[Candidate]:
        pending = self._store.queue.pending(self._season)
        candidates = []
        for entry in self._store.ratings.entries(self._season):
            version = entry.version
            if not entry.is_current or entry.state is not BotState.ACTIVE:
                continue
            candidates.append(
                Candidate(
                    bot=version.id,
                    author=version.author,
                    rating=entry.tally.rating,
                    games=entry.tally.games,
                    pending=pending.get(version.id, 0),
                    waited=self._waited(version.id, version.created_at),
                )
            )
        return candidates

    def _waited(self, version: int, came_at: int) -> int:
        """Line-ups since the version's last one, or since it came."""
        if version in self._last:
            return len(self._created) - 1 - self._last[version]
        return len(self._created) - bisect_right(self._created, came_at)
