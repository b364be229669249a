"""Re-runs the records of a ladder's games, in this process or shared among workers.

Invariants: differences come in the order of the games, whoever looks at them; only some portions of
games are in memory at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import chain, islice
from typing import Final

from deepsea_ladder.proof import Prove, RecordedGame, prove
from deepsea_referee.errors import RefereeError
from deepsea_referee.worker import Link, Perform
from deepsea_referee.workers import Died, Done, Failed, LocalWorkers, Task

PORTION: Final = 50
"""Games that a worker takes at once. Fewer than two portions are not worth a worker's start."""


def prove_with(
    workers: int, on_games: Callable[[int], object] = lambda games: None, *, portion: int = PORTION
) -> Prove:
    """A way to look at games with so many workers.

    on_games  receives how many more games have been looked at
    Raises RefereeError if a worker ended.
    """

    def look(games: Iterable[RecordedGame]) -> Iterator[str]:
        portions = _portions(games, portion)
        first = list(islice(portions, 2))
        if workers == 1 or len(first) < 2:
            for some in chain(first, portions):
                yield from prove(some)
                on_games(len(some))
        else:
            yield from _share(chain(first, portions), workers, on_games)

    return look


def _portions(games: Iterable[RecordedGame], size: int) -> Iterator[Sequence[RecordedGame]]:
    games = iter(games)
    while some := list(islice(games, size)):
        yield some


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
