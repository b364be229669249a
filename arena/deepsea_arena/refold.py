"""Compares stored ratings with those that follow from the games.

Invariant: a check compares bit for bit, and changes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
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
from deepsea_referee.errors import RefereeError
from deepsea_referee.workers import Died, Done, Failed, Link, LocalWorkers, Perform, Task

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
        portions = iter(lambda: list(islice(left, portion)), [])
        first = list(islice(portions, 2))
        if workers == 1 or len(first) < 2:
            for some in chain(first, portions):
                yield from prove(some)
                on_games(len(some))
        else:
            yield from _share(chain(first, portions), workers, on_games)

    return look


def _share(
    portions: Iterator[Sequence[RecordedGame]], workers: int, on_games: Callable[[int], object]
) -> Iterator[str]:
    begun: deque[Task] = deque()
    """In the order of the games, until their differences were given."""
    ended: dict[Task, list[str]] = {}
    # One more portion waits at each worker, so that none is idle while this process reads.
    with closing(LocalWorkers(_prover, workers, ahead=1)) as pool:
        while True:
            for worker, some in zip(pool.free(), portions, strict=False):
                begun.append(pool.start(some, worker))
            if not begun:
                return
            for event in pool.wait(None):
                match event:
                    case Done(task, found):
                        ended[task] = found
                        assert isinstance(task.argument, list)
                        on_games(len(task.argument))
                    case Failed(_, error):
                        raise error
                    case Died(_, ending):
                        raise RefereeError(f"a worker that re-runs records ended: {ending}")
            while begun and begun[0] in ended:
                yield from ended.pop(begun.popleft())


@contextmanager
def _prover(link: Link) -> Iterator[Perform]:
    """The setup of a worker."""
    yield lambda games: list(prove(games))
