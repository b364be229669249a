"""The bots that a worker keeps running from game to game, of several line-ups.

Invariants: a bot that does not play is frozen; a bot that crashed or forfeited, or was in a void
game, is started again for its next game, and any bot after `games` of them; those that played last
stay, within a number and while there is memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable, Sequence
from pathlib import Path
from typing import Final

from deepsea_referee.bots.pool import BotPool
from deepsea_referee.bots.process import BotProcess

KEPT: Final = 32
"""The most bots that a worker keeps running."""
GAMES_OF_A_PROCESS: Final = 200
"""The number of games after which a bot is restarted."""

StartPool = Callable[[], BotPool]
"""Makes the pool of one bot, whose process is not started yet."""


class RunningBots:
    """The running bots by their keys, those that played last at the end."""

    def __init__(
        self,
        most: int = KEPT,
        games: int = GAMES_OF_A_PROCESS,
        free_memory: Callable[[], int] | None = None,
    ) -> None:
        """`free_memory`: bytes that are available; by default the kernel's figure."""
        self._most = most
        self._games = games
        self._free_memory = free_memory or _available
        self._bots: dict[Hashable, _Running] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def __contains__(self, key: Hashable) -> bool:
        return key in self._bots

    async def prepare(self, key: Hashable, make: StartPool) -> None:
        """Start a bot that will play soon, unless it runs."""
        await self._running(key, make).pool.start_early(0)

    def seat(self, bots: Sequence[tuple[Hashable, StartPool]], reserve: int) -> LineUp:
        """The bots of a game by seat, which `play_game` starts if need be.

        reserve  bytes of memory that must stay available
        """
        keys = [key for key, _ in bots]
        for key, make in bots:
            self._running(key, make).games += 1
            self._bots[key] = self._bots.pop(key)
        self._shrink(keys, reserve)
        for key, running in self._bots.items():
            if key not in keys:
                running.pool.freeze(0)
        return LineUp([self._bots[key].pool for key in keys])

    def dismiss(self, keys: Collection[Hashable]) -> None:
        """Stop bots that must not play on, and those that have played enough games."""
        for key in [key for key, running in self._bots.items() if running.games >= self._games]:
            self._dismiss(key)
        for key in keys:
            if key in self._bots:
                self._dismiss(key)

    def freeze(self) -> None:
        """Freeze all bots, since no game follows at once."""
        for running in self._bots.values():
            running.pool.freeze(0)

    async def close(self) -> None:
        """Stop all bots."""
        for key in [*self._bots]:
            self._dismiss(key)
        await asyncio.gather(*self._ending)

    def _running(self, key: Hashable, make: StartPool) -> _Running:
        if key not in self._bots:
            self._bots[key] = _Running(make())
        return self._bots[key]

    def _shrink(self, but: Collection[Hashable], reserve: int) -> None:
        """Dismiss bots that have not played for longest while there are too many."""
        for key in [key for key in self._bots if key not in but]:
            if len(self._bots) <= self._most and self._free_memory() >= reserve:
                return
            self._dismiss(key)

    def _dismiss(self, key: Hashable) -> None:
        running = self._bots.pop(key)
        # In the background: games go on meanwhile.
        ending = asyncio.ensure_future(running.pool.__aexit__(None, None, None))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)


class LineUp:
    """The bots of a game as `play_game` needs them."""

    def __init__(self, pools: Sequence[BotPool]) -> None:
        self._pools = pools

    def running(self, bot: int) -> BotProcess | None:
        """The bot's process for a new game if it is there already."""
        return self._pools[bot].running(0)

    def ready(self, bot: int, *, suspect: bool = False) -> Awaitable[BotProcess]:
        """The bot's process for a new game."""
        return self._pools[bot].ready(0, suspect=suspect)

    def given_up(self, bot: int) -> str:
        """Why the bot is not started any more; "" if it is."""
        return self._pools[bot].given_up(0)

    def finished_game(self, bot: int) -> None:
        """Note that the bot was there until the end of a game."""
        self._pools[bot].finished_game(0)

    def output(self, bot: int) -> str:
        """The end of what the bot's present process printed, safe to show."""
        return self._pools[bot].output(0)


class _Running:
    """A bot with a pool to itself."""

    def __init__(self, pool: BotPool) -> None:
        self.pool = pool
        self.games = 0


def _available() -> int:
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 1 << 62
