"""The check of a season's standings: all its games rated at once, in no order.

Invariants: it changes nothing, and ranks stay those of the standings; it lists whom they list, in
their order; a rank differs if the batch, with its joint uncertainty, rules it out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from math import log, sqrt
from typing import Literal

from msgspec import Struct, structs

from deepsea_arena.reports.standings import Standings, eligible, listed, show_standings
from deepsea_arena.seasons import find_season
from deepsea_ladder.model.bots import RatedVersion
from deepsea_ladder.model.games import StoredSeason
from deepsea_ladder.rating.batch import MOST_GAMES, BatchRatings, Joint, batch_ratings
from deepsea_ladder.rating.convergence import CONFIDENCE, Odds, Variances, certainty, odds
from deepsea_ladder.rating.gaussian import cdf
from deepsea_ladder.rating.totals import outcome_of
from deepsea_ladder.standings import StandingLine, meeting_of, standings
from deepsea_ladder.store import Store

Agreement = Literal["same", "within", "differs"]
SURPRISING = 3.0
"""From so many standard errors on a result is not foretold."""
BY_CHANCE = 2.0 * cdf(-SURPRISING)
"""The share of pairs whose forecast is right and that get there by luck."""
_SURE = 1e-12


class CheckLine(Struct, frozen=True, kw_only=True):
    """One bot version of the standings, as all games at once rate it. What needs games is None
    before the first."""

    bot: str
    version: int
    rank: int | None
    """That of the standings."""
    verdict: Agreement | None
    """Whether the batch gives it the same rank, one that its joint uncertainty leaves open
    (`within`), or rules out the rank of the standings (`differs`)."""
    batch_rank: int | None
    best_rank: int | None
    """Ranks that the batch leaves open: who is ahead or behind with less than the confidence may be
    either."""
    worst_rank: int | None
    rating: float | None
    """mu - 3 sigma of the batch."""
    mu: float | None
    low: float | None
    """mu - 2 sigma."""
    high: float | None


class UnforetoldPair(Struct, frozen=True, kw_only=True):
    """Two bot versions whose results are not those that their ratings foretell."""

    bot: str
    version: int
    other: str
    other_version: int
    games: int
    """At one table."""
    share: float
    """The share in which the first was placed before the other, level counting half."""
    foretold: float
    standard_errors: float
    """The distance of both, by the luck in the games; below 0 if it did worse than foretold."""


class SeasonCheck(Struct, frozen=True, kw_only=True):
    """The batch rating of a season beside its standings."""

    games: int
    """Those that were rated; of a large season an even sample."""
    sweeps: int
    settled: bool
    """Whether more sweeps would change nothing."""
    confidence: float
    """Of one bot being ahead of another."""
    lines: tuple[CheckLine, ...]
    """In the order of the standings."""
    stronger: tuple[tuple[float | None, ...], ...]
    """By line and column, in the same order: the probability that the line's bot is more skilled
    than the column's; None of a bot itself, and before the first game."""
    pairs: int
    """Listed pairs that were at one table."""
    by_chance: float
    """How many of them would not be foretold if all ratings were right."""
    unforetold: tuple[UnforetoldPair, ...]
    """The most surprising first."""


class FinalTable(Struct, frozen=True):
    """A season's standings, and its winner."""

    standings: Standings
    winner: StandingLine | None
    """The first; None if nobody has played, or two have the same rating."""
    second: StandingLine | None
    certainty: float | None
    """The probability that the winner is more skilled than the second; None without one."""
    check: SeasonCheck


def check_season(store: Store, page: Standings) -> SeasonCheck:
    """Rate all games of a season at once, of more than MOST_GAMES a sample, for the lines of its
    standings. A game takes 0.1 to 0.3 ms.
    """
    season = find_season(store, page.season.name)
    known = {
        (entry.version.bot, entry.version.number): entry for entry in store.ratings.entries(season)
    }
    entries = [known[line.bot, line.version] for line in page.standings]
    # Read after the entries, so that whoever has games there has some here.
    games = enumerate(store.history.outcomes(season, MOST_GAMES), 1)
    outcomes = (outcome_of(number, game.seats) for number, game in games)
    batch = batch_ratings(season.season.rating, outcomes)
    means = {version: rating.mu for version, rating in batch.ratings.items()}
    joint = Joint(means, batch.ties, season.season.rating.sigma)
    ranked = _ranked(entries, batch, joint)
    played = [entry for entry in entries if entry.tally.games]
    pairs, unforetold = _unforetold(store, season, played, means)
    return SeasonCheck(
        games=batch.games,
        sweeps=batch.sweeps,
        settled=batch.settled,
        confidence=CONFIDENCE,
        lines=tuple(
            _line(line.bot, line.version, line.rank, ranked.get((line.bot, line.version)))
            for line in page.standings
        ),
        stronger=tuple(tuple(_stronger(joint, one, other) for other in entries) for one in entries),
        pairs=pairs,
        by_chance=pairs * BY_CHANCE,
        unforetold=unforetold,
    )


def _ranked(
    entries: Sequence[RatedVersion], batch: BatchRatings, joint: Joint
) -> dict[tuple[str, int], StandingLine]:
    """The standings of those who played, by the batch's ratings."""

    def together(played: Sequence[RatedVersion]) -> Variances:
        versions = [entry.version.id for entry in played]
        return lambda place: joint.variances(versions[place], versions)

    lines = standings(
        (
            structs.replace(
                entry, tally=replace(entry.tally, rating=batch.ratings[entry.version.id])
            )
            for entry in entries
            if entry.tally.games
        ),
        uncertainty=together,
    )
    return {(line.bot, line.version): line for line in lines}


def _line(bot: str, version: int, rank: int | None, found: StandingLine | None) -> CheckLine:
    return CheckLine(
        bot=bot,
        version=version,
        rank=rank,
        verdict=_agreement(rank, found),
        batch_rank=found and found.rank,
        best_rank=found and found.best_rank,
        worst_rank=found and found.worst_rank,
        rating=found and found.rating,
        mu=found and found.mu,
        low=found and found.low,
        high=found and found.high,
    )


def _agreement(rank: int | None, found: StandingLine | None) -> Agreement | None:
    if rank is None or found is None or found.best_rank is None or found.worst_rank is None:
        return None
    if rank == found.rank:
        return "same"
    return "within" if found.best_rank <= rank <= found.worst_rank else "differs"


def _stronger(joint: Joint, one: RatedVersion, other: RatedVersion) -> float | None:
    if one is other or not one.tally.games or not other.tally.games:
        return None
    return joint.stronger(one.version.id, other.version.id)


def _unforetold(
    store: Store, season: StoredSeason, played: Sequence[RatedVersion], means: dict[int, float]
) -> tuple[int, tuple[UnforetoldPair, ...]]:
    """The number of pairs that met, and those with surprising results."""
    meetings = store.sums.pairs(season)
    pairs, found = 0, []
    for upper, lower in combinations(played, 2):
        one, other = upper.version, lower.version
        if (meeting := meeting_of(meetings, one.id, other.id)) is None:
            continue
        pairs += 1
        chances = odds(season.season.rating, means[one.id] - means[other.id])
        foretold, errors = surprise(chances, meeting.games, meeting.share)
        if abs(errors) >= SURPRISING:
            found.append(
                UnforetoldPair(
                    bot=one.bot,
                    version=one.number,
                    other=other.bot,
                    other_version=other.number,
                    games=meeting.games,
                    share=meeting.share,
                    foretold=foretold,
                    standard_errors=errors,
                )
            )
    found.sort(key=lambda pair: (-abs(pair.standard_errors), pair.bot, pair.other))
    return pairs, tuple(found)


def surprise(odds: Odds, games: int, share: float) -> tuple[float, float]:
    """Compare a result with its forecast, level games counting half.

    share  the share of `games` games that was won
    Returns the share that the odds foretell, and the difference in standard errors of luck.

    Ratings rest on the same games and lean towards them, so that distances are rather too small.
    Measured by likelihood: with few games, or against clear favourites, a result that is rare in a
    normal distribution is no rarity.
    """
    # Never quite sure, whatever doubles say.
    foretold = min(1.0 - _SURE, max(_SURE, odds.better + 0.5 * odds.level))
    likelihood = _part(share, foretold) + _part(1.0 - share, 1.0 - foretold)
    # Level games vary less than games that one of two wins.
    before, level, behind = 1.0 - foretold, 0.5 - foretold, foretold
    spread = odds.better * before**2 + odds.level * level**2 + odds.worse * behind**2
    errors = sqrt(max(0.0, 2.0 * games * likelihood * foretold * (1.0 - foretold) / spread))
    return foretold, errors if share > foretold else -errors


def _part(found: float, expected: float) -> float:
    return found * log(found / expected) if found > 0.0 else 0.0


def final_table(store: Store, season_name: str) -> FinalTable:
    """The table of a season as it stands now."""
    season = find_season(store, season_name)
    page = show_standings(store, season_name)
    check = check_season(store, page)
    ranked = [line for line in page.standings if line.rank is not None]
    if not ranked or [line.rank for line in ranked[:2]] == [1, 1]:
        return FinalTable(page, None, None, None, check)
    if len(ranked) == 1:
        return FinalTable(page, ranked[0], None, None, check)
    ratings = {
        (entry.version.bot, entry.version.number): entry.tally.rating
        for entry in listed(store, season, eligible(store, season))
    }
    first, second = (ratings[line.bot, line.version] for line in ranked[:2])
    return FinalTable(page, ranked[0], ranked[1], certainty(first, second), check)
