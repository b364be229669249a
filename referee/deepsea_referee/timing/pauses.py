"""A bot's pauses between its turns: it is frozen in them, and its CPU time in them is measured.

Invariants: a bot with an open request is never frozen; a bot that rests (it has sent Hello and has
no open request) is frozen once the decision or start of another bot has lasted LAZY_US, or when no
bot was asked for so long. So bots that answer at once are never frozen, which would cost 0.2 to
0.4 ms for each decision, and a bot that computes while others are asked has the CPU for LAZY_US at
most.

A bot that only waits has a share near 0; pauses are sampled at most every SAMPLES_US, since reading
takes time. A pause includes the end of the bot's last answer and the work of its runtime after it
(garbage collection, compilation). So a small share means nothing if all bots answer at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from deepsea_referee.timing.clock import Alarm, Clock

LAZY_US = 2_000
"""The time that a bot's decision must last before the other bots are frozen."""
SAMPLES_US = 100_000
"""The shortest interval between two samples of a bot's CPU time outside of its turns."""


class Pauses:
    """The pauses of one bot between its requests, as its session reports them.

    read_us  reads the bot's CPU time; None if that is not measured
    turns    freezes the bot; None if it is never frozen
    """

    def __init__(
        self, read_us: Callable[[], int] | None = None, turns: BotTurns | None = None
    ) -> None:
        self._read_us = read_us
        self._turns = turns
        self.off_turn = OffTurn()
        """The CPU time in the pauses."""

    @property
    def frozen(self) -> bool:
        """Return True if the bot is frozen now, so that it cannot read messages."""
        return self._turns is not None and self._turns.frozen

    def pause(self, now_us: int) -> None:
        """Begin a measured pause: the bot has answered all requests."""
        self.rest(now_us)
        if self._read_us is not None:
            self.off_turn.begin(now_us, self._read_us)

    def rest(self, now_us: int) -> None:
        """Allow the bot to be frozen, without measuring: after Hello, and after timeouts."""
        if self._turns is not None:
            self._turns.rest(now_us)

    def resume(self, now_us: int) -> None:
        """End the pause, and thaw the bot: it gets a message with requests, or Goodbye."""
        if self._read_us is not None:
            self.off_turn.end(now_us, self._read_us)
        if self._turns is not None:
            self._turns.ask(now_us)


# Freezing


class Freezable(Protocol):
    """A process tree that can be stopped."""

    def freeze(self) -> None:
        """Stop every process of the tree."""

    def thaw(self) -> None:
        """Resume a frozen tree."""


class Freezer:
    """Freezes resting bots while others are asked; shared by the bots of a match or of a worker."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked: dict[BotTurns, int] = {}
        """The bots that have an open request or start, with the time since when."""
        self._resting: set[BotTurns] = set()
        """The bots that have no open request and are not yet frozen."""
        self._changed_us = 0
        """The time at which a bot has last begun to rest."""
        self._alarm: Alarm | None = None

    def join(self, process: Freezable) -> BotTurns:
        """Add a bot that starts now; until it rests, resting bots may be frozen."""
        turns = BotTurns(self, process)
        turns.ask(self._clock.now_us())
        return turns

    def freeze_all(self) -> None:
        """Freeze all resting bots at once, for example when no event loop will run for a while.

        The next request thaws a bot, so nothing has to be undone.
        """
        for turns in [*self._resting]:
            turns.freeze()

    def asks(self, turns: BotTurns, now_us: int) -> None:
        """Note that a bot has an open request, or starts."""
        self._resting.discard(turns)
        self._asked[turns] = now_us
        self._ring_by(now_us + LAZY_US)

    def rests(self, turns: BotTurns, now_us: int) -> None:
        """Note that a bot has no open request any more."""
        self._asked.pop(turns, None)
        if not turns.frozen:
            self._resting.add(turns)
            self._changed_us = now_us
            self._ring_by(now_us + LAZY_US)

    def leaves(self, turns: BotTurns) -> None:
        """Note that a bot ends, or is not to be frozen any more."""
        self._asked.pop(turns, None)
        self._resting.discard(turns)

    def take(self, turns: BotTurns) -> bool:
        """Claim a bot in order to freeze it; return False if it does not rest."""
        is_resting = turns in self._resting
        self._resting.discard(turns)
        return is_resting

    def _ring_by(self, when_us: int) -> None:
        """Set the alarm to this time if it is not set and a bot rests."""
        # An alarm that is set is not moved: one check in LAZY_US costs less than another alarm for
        # each decision.
        if self._alarm is None and self._resting:
            self._alarm = self._clock.at(when_us, self._ring)

    def _ring(self) -> None:
        """Freeze all resting bots if the longest open request has lasted LAZY_US, else wait."""
        self._alarm = None
        since_us = min(self._asked.values(), default=self._changed_us)
        if self._clock.now_us() < since_us + LAZY_US:
            self._ring_by(since_us + LAZY_US)
        else:
            self.freeze_all()


class BotTurns:
    """The turns of one bot process, as its session reports them."""

    def __init__(self, freezer: Freezer, process: Freezable) -> None:
        self._freezer = freezer
        self.process = process
        self.frozen = False

    def ask(self, now_us: int) -> None:
        """Thaw the bot, which is about to get a request."""
        self._freezer.asks(self, now_us)
        self._thaw()

    def rest(self, now_us: int) -> None:
        """Allow the bot to be frozen: it has no open request any more."""
        self._freezer.rests(self, now_us)

    def freeze(self) -> None:
        """Freeze the bot now, unless it has an open request; the next request thaws it."""
        if self._freezer.take(self):
            self.frozen = True
            self.process.freeze()

    def leave(self) -> None:
        """Thaw the bot so that it can exit, and freeze it no more."""
        self._freezer.leaves(self)
        self._thaw()

    def _thaw(self) -> None:
        if self.frozen:
            self.frozen = False
            self.process.thaw()


# CPU time in pauses


class OffTurn:
    """The CPU time of a bot outside of its turns, as a share of sampled pauses."""

    def __init__(self) -> None:
        self.cpu_us = 0
        self.wall_us = 0
        self._next_us = 0
        self._since: tuple[int, int] | None = None

    @property
    def share(self) -> float | None:
        """The CPU seconds per second of the sampled pauses; None if there were none."""
        return self.cpu_us / self.wall_us if self.wall_us else None

    def add(self, other: OffTurn) -> None:
        """Add the samples of another process of the same bot."""
        self.cpu_us += other.cpu_us
        self.wall_us += other.wall_us

    def begin(self, now_us: int, read_us: Callable[[], int]) -> None:
        """Begin to sample a pause, unless the last sample is too recent."""
        if now_us >= self._next_us:
            self._next_us = now_us + SAMPLES_US
            self._since = (now_us, read_us())

    def end(self, now_us: int, read_us: Callable[[], int]) -> None:
        """End the sample, if there is one: the bot gets a new request."""
        if self._since is None:
            return
        (since_us, cpu_us), self._since = self._since, None
        self.wall_us += now_us - since_us
        self.cpu_us += read_us() - cpu_us
