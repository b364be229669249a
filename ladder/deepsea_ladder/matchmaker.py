"""The choice of a season's next games from the bots in the store.

Invariants: it reads the newest rotations and one row for each version that may play, however many
games were played; the same store gives the same games to every caller; versions and authors are
compared by their ids, so that a new name changes nothing.
"""

from __future__ import annotations

from collections import Counter, deque
from itertools import combinations
from math import ceil
from typing import TYPE_CHECKING

from deepsea_ladder.model import RatedVersion, Rotation, StoredSeason
from deepsea_ladder.pairing import Candidate, choose

if TYPE_CHECKING:
    from deepsea_ladder.store import Store

RECENT_ROTATIONS = 500
"""The number of newest rotations in which meetings of bots and seats of authors are counted."""
BOTS_PER_LINEUP = 50
"""A large ladder makes one line-up for this many bots in one call, since each call is costly."""


class Matchmaker:
    """The source of a season's games.

    Calling it returns the next games. It keeps the newest rotations between calls, so that each
    call reads only those that were added since the last one.
    """

    def __init__(self, store: Store, season: StoredSeason) -> None:
        """Begin without rotations: the first call reads the newest ones of the season."""
        self._store = store
        self._season = season
        self._last_rotation = 0
        """The number of the newest rotation in `_recent_lineups`."""
        self._recent_lineups: deque[frozenset[int]] = deque(maxlen=RECENT_ROTATIONS)
        """The ids of the versions in each of the newest rotations, the oldest first."""
        self._bot_and_author: dict[int, tuple[int, int]] = {}
        """The ids of bot and author by version id, for versions in `_recent_lineups` and those that
        get games."""
        self._playing: list[RatedVersion] = []
        """The versions that get games, as `candidates` read them last."""

    def __call__(self, number: int, games: int) -> list[Rotation]:
        """Return rotations with at least this many games in all, to be stored after job `number`.

        Raises `PairingError` if no table can be filled.
        """
        candidates = self.candidates()
        season = self._season.settings
        games_per_rotation = min(season.seats)  # at least: every bot plays once in every seat
        lineups = choose(
            candidates,
            season.seats,
            season.pairing,
            season.rating,
            count=max(ceil(games / games_per_rotation), len(candidates) // BOTS_PER_LINEUP),
            seed=f"{self._season.commitment}/{number}".encode(),
            meetings=self._count_meetings(),
        )
        return [lineup.seatings() for lineup in lineups]

    def candidates(self) -> list[Candidate]:
        """Return the versions that may be given a game now, as the store has them."""
        queue = self._store.queue.for_pairing(
            self._season, RECENT_ROTATIONS, after=self._last_rotation
        )
        self._last_rotation = queue.rotations
        self._recent_lineups += queue.recent_lineups
        known_ids = {**self._bot_and_author, **queue.bot_and_author}
        recent_versions = {version for lineup in self._recent_lineups for version in lineup}
        self._bot_and_author = {
            version: known_ids[version] for version in recent_versions | queue.bot_and_author.keys()
        }
        # A version that was added between the two queries gets games from the next call on.
        self._playing = [
            entry
            for entry in self._store.ratings.entries(self._season, ())
            if entry.takes_part(self._season.settings) and entry.version.id in queue.last_rotation
        ]
        author_of = {version: author for version, (_, author) in self._bot_and_author.items()}
        seats_of_author = Counter(
            author_of[version] for lineup in self._recent_lineups for version in lineup
        )
        return [
            Candidate(
                version_id=entry.version.id,
                author=author_of[entry.version.id],
                rating=entry.tally.rating,
                games=entry.tally.games,
                pending=queue.pending.get(entry.version.id, 0),
                waited=queue.rotations - queue.last_rotation[entry.version.id],
                recent_seats=seats_of_author[author_of[entry.version.id]],
            )
            for entry in self._playing
        ]

    def _count_meetings(self) -> Counter[tuple[int, int]]:
        """Return how often each two versions that get games met in the recent rotations.

        The key is the pair of their ids, the lower one first. If a bot's former version gets no
        games any more, its meetings count as those of the current one, so that a new version does
        not meet the same opponents all over again.
        """
        playing_version = self._playing_versions()
        meetings: Counter[tuple[int, int]] = Counter()
        for lineup in self._recent_lineups:
            members = sorted(
                playing_version[version] for version in lineup if version in playing_version
            )
            meetings.update(combinations(members, 2))
        return meetings

    def _playing_versions(self) -> dict[int, int]:
        """Return for each version id the id of the version that gets games in its place now.

        That is the version itself if it still gets games, else its bot's current one. A version
        whose bot gets no games is left out.
        """
        playing_version = {entry.version.id: entry.version.id for entry in self._playing}
        current_version_of_bot = {}
        for entry in self._playing:
            if entry.is_current:
                bot, _ = self._bot_and_author[entry.version.id]
                current_version_of_bot[bot] = entry.version.id
        for version, (bot, _) in self._bot_and_author.items():
            if version not in playing_version and bot in current_version_of_bot:
                playing_version[version] = current_version_of_bot[bot]
        return playing_version
