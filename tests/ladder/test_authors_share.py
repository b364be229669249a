"""Who gets the seats of a ladder where some authors submit again and again; in a simulation."""

from __future__ import annotations

from collections.abc import Collection
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache
from typing import cast

import pytest

from deepsea_ladder.matchmaker import Matchmaker
from deepsea_ladder.model import BotState, BotVersion, PairingQueue, RatedVersion, StoredSeason
from deepsea_ladder.rating import Rating, RatingTotals
from deepsea_ladder.season import SeasonSettings
from deepsea_ladder.standings import LEARNT
from deepsea_ladder.store import Store
from deepsea_rules.randomness import Stream, seed_from_text
from helpers.tiers import daily

SEASON = StoredSeason(1, SeasonSettings("s1"), "a commitment", "a method", 0, None, 0, "a head")


@dataclass
class Author:
    """An author with a bot, and how well it plays; there is one of these for each of the bots."""

    name: str
    skill: float
    after: int | None
    """Submits a new version after so many games of the present one."""
    copy: int = 0
    version: int = 0
    games: int = 0
    came: int = 0
    """The last rotation when the present version came."""
    seats: int = 0

    @property
    def bot(self) -> str:
        """The bot's name."""
        return f"{self.name}-{self.copy}"


@dataclass
class Ladder:
    """A ladder whose games take no time, as the matchmaker sees it.

    A version's rating is its author's skill once it is no longer provisional.
    """

    authors: list[Author]
    rotations: list[frozenset[int]] = field(default_factory=list)
    last: dict[int, int] = field(default_factory=dict)
    made: dict[int, Author] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for author in self.authors:
            self.submit(author)

    @property
    def ratings(self) -> Ladder:
        """Itself: a stand-in for the store."""
        return self

    @property
    def queue(self) -> Ladder:
        """Itself: a stand-in for the store."""
        return self

    def submit(self, author: Author) -> None:
        """Add a version that has no games."""
        author.version, author.games = len(self.made) + 1, 0
        author.came = len(self.rotations)
        self.made[author.version] = author

    def entries(self, season: StoredSeason, former: Collection[int]) -> list[RatedVersion]:
        """What `Ratings` has of the present versions."""
        parameters = season.settings.rating
        learnt = LEARNT / parameters.beta**2
        found = []
        for author in self.authors:
            sigma = (1 / parameters.sigma**2 + learnt * author.games) ** -0.5
            known = min(1.0, author.games / season.settings.pairing.provisional_games)
            mu = parameters.mu + known * (author.skill - parameters.mu)
            version = BotVersion(author.version, author.bot, author.name, 1, "", 0)
            totals = RatingTotals(Rating(mu, sigma), games=author.games)
            found.append(RatedVersion(version, totals, BotState.ACTIVE, is_current=True))
        return found

    def for_pairing(self, season: StoredSeason, rotations: int, *, after: int = 0) -> PairingQueue:
        """What `Queue` has of the rotations."""
        newest = self.rotations[max(after, len(self.rotations) - rotations) :]
        return PairingQueue(
            rotations=len(self.rotations),
            recent_lineups=newest,
            bot_and_author={
                version: (self.number(made.bot), self.number(made.name))
                for version, made in self.made.items()
            },
            last_rotation={
                author.version: self.last.get(author.version, author.came)
                for author in self.authors
            },
            pending={},
        )

    def number(self, name: str) -> int:
        """The id of a bot or of an author."""
        return self.numbers.setdefault(name, len(self.numbers))

    def play(self, rotations: int, matchmaker: Matchmaker) -> None:
        """Play some rotations; whoever wants to, submits again."""
        for _ in range(rotations):
            (rotation,) = matchmaker(4 * len(self.rotations), 4)
            self.rotations.append(frozenset(rotation[0]))
            for version in rotation[0]:
                author = self.made[version]
                self.last[version] = len(self.rotations)
                author.games += len(rotation)
                author.seats += 1
            for author in self.authors:
                if author.after is not None and author.games >= author.after:
                    self.submit(author)


def settled() -> tuple[Ladder, Matchmaker]:
    """A ladder on which every author is known."""
    return deepcopy(_settled())


@cache
def _settled(authors: int = 25) -> tuple[Ladder, Matchmaker]:
    chance = Stream(seed_from_text("authors"), "skill")
    ladder = Ladder(
        [Author(f"author-{n}", 15.0 + chance.uniform(200) / 10, None) for n in range(authors)]
    )
    matchmaker = Matchmaker(cast(Store, ladder), SEASON)
    ladder.play(150, matchmaker)
    return ladder, matchmaker


def simulate(after: int | None, restless: int = 5) -> Ladder:
    """That ladder, when some authors have begun to submit again and again."""
    ladder, matchmaker = settled()
    for author in ladder.authors[:restless]:
        author.after = after
    ladder.play(150, matchmaker)
    for author in ladder.authors:
        author.seats = 0
    ladder.play(300, matchmaker)
    return ladder


@pytest.mark.parametrize(
    "after", [4, *(pytest.param(after, marks=pytest.mark.release) for after in (None, 12, 24))]
)
def test_five_of_25_authors_get_little_more_by_submitting_again_and_again(
    after: int | None,
) -> None:
    """Their fair share is 20 %; it was 57 to 65 %."""
    seats = [author.seats for author in simulate(after).authors]
    assert 0.19 < sum(seats[:5]) / sum(seats) < 0.26
    assert min(seats) > 0.75 * sum(seats) / len(seats)


@pytest.mark.parametrize(
    ("copies", "rotations"), daily([(5, 200), (5, 600), (20, 600)], [(5, 200)])
)
def test_bots_of_one_author_share_the_seats_of_one(copies: int, rotations: int) -> None:
    """Their fair share is 4 %; it was 17 and 25 %."""
    ladder, matchmaker = settled()
    for copy in range(1, copies):
        ladder.authors.append(Author("author-0", ladder.authors[0].skill, None, copy))
        ladder.submit(ladder.authors[-1])
    ladder.play(rotations // 4, matchmaker)
    for author in ladder.authors:
        author.seats = 0
    ladder.play(rotations, matchmaker)
    ours = [author.seats for author in ladder.authors if author.name == "author-0"]
    others = [author.seats for author in ladder.authors if author.name != "author-0"]
    assert 0.03 < sum(ours) / (4 * rotations) < 0.06
    assert min(ours) > 0.5 * sum(ours) / copies
    assert min(others) > 0.7 * sum(others) / len(others)


def test_a_newcomer_is_no_longer_provisional_at_once() -> None:
    ladder, matchmaker = settled()
    ladder.play(150, matchmaker)
    newcomer = Author("newcomer", 25.0, None)
    ladder.authors.append(newcomer)
    ladder.submit(newcomer)
    again = ladder.authors[0]
    ladder.submit(again)
    ladder.play(8, matchmaker)
    assert newcomer.games >= SEASON.settings.pairing.provisional_games
    assert again.games >= SEASON.settings.pairing.provisional_games
