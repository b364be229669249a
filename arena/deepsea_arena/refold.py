"""Compares stored ratings with those that follow from the games.

Invariant: a check compares bit for bit, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain, islice
from typing import TypeAlias

from msgspec import Struct

from deepsea_ladder.backup import season_differences
from deepsea_ladder.chain import Prove, RecordedGame, prove
from deepsea_ladder.errors import StoreDamaged
from deepsea_ladder.model import StoredSeason
from deepsea_ladder.rating.trueskill_fold import Audit
from deepsea_ladder.store import Store
from deepsea_ladder.store.database import damages
from deepsea_referee.workers import Link, Perform, results_in_order

Progress: TypeAlias = Callable[[int], AbstractContextManager[Callable[[int], object]]]
PORTION = 50
"""Games that a worker takes at once. Fewer than two portions are not worth a worker's start."""


def no_progress(games: int) -> AbstractContextManager[Callable[[int], object]]:
    """Show nothing."""
    return nullcontext(lambda more: None)


class RatingCheck(Struct, frozen=True, kw_only=True):
    """A season's stored ratings, compared with those that follow from its games."""

    season: str
    games: int
    sound: bool
    differences: tuple[str, ...]
    """The first differences, one line each."""


def check_ratings(
    store: Store,
    season_name: str | None = None,
    *,
    records: bool = False,
    workers: int = 1,
    progress: Progress = no_progress,
) -> tuple[RatingCheck, ...]:
    """Compare one season or all.

    records   as for `season_differences`
    workers   how many processes re-run records; the result is the same
    progress  called with the number of games, for what is called with how many more were re-run
    Raises `StoreDamaged` if the database is damaged, RefereeError if a worker ended.
    """
    if damage := damages(store.database):
        raise StoreDamaged(f"the ladder at {store.database} is damaged: {damage[0]}")
    seasons = _seasons(store, season_name)
    games = [store.queue.counts(season).done for season in seasons]
    checks = []
    with progress(sum(games)) as on_games:
        proof = prove_with(workers, on_games)
        for season, number in zip(seasons, games, strict=True):
            found = tuple(season_differences(store, season, records=records, proof=proof))
            checks.append(
                RatingCheck(
                    season=season.name,
                    games=number,
                    sound=not found,
                    differences=found,
                )
            )
    return tuple(checks)


def _seasons(store: Store, name: str | None) -> Sequence[StoredSeason]:
    return store.seasons.all() if name is None else [store.seasons.get(name)]


def audit_ratings(store: Store, season_name: str | None = None) -> dict[str, Audit]:
    """Compare the ratings of one season or all, by name, with those by the package `trueskill`."""
    return {season.name: store.ratings.audit(season) for season in _seasons(store, season_name)}


def prove_with(
    workers: int, on_games: Callable[[int], object] = lambda games: None, *, portion: int = PORTION
) -> Prove:
    """A way to look at games with so many workers.

    on_games  receives how many more games have been looked at
    Raises RefereeError if a worker ended.
    """

    def look(games: Iterable[RecordedGame]) -> Iterator[str]:
        left = iter(games)
        portions: Iterator[list[RecordedGame]] = iter(lambda: list(islice(left, portion)), [])
        first = list(islice(portions, 2))
        portions = chain(first, portions)
        if workers == 1 or len(first) < 2:
            results: Iterable[tuple[int, list[str]]] = map(_proved, portions)
        else:
            name = "a worker that re-runs records"
            results = results_in_order(_prover, portions, workers, name)
        for number, differences in results:
            yield from differences
            on_games(number)

    return look


def _proved(games: Sequence[RecordedGame]) -> tuple[int, list[str]]:
    """The number of the games, and their differences."""
    return len(games), list(prove(games))


@contextmanager
def _prover(link: Link) -> Iterator[Perform]:
    """The setup of a worker."""
    yield _proved
