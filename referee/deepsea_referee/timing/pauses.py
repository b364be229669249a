"""A bot's pauses between its turns: it is frozen in them, and what it computes in them is measured.

Invariants: a bot that is asked is never frozen; one that rests (it has sent Hello and has nothing
to answer) is frozen once another's decision or start has lasted LAZY_US, or when nobody was asked
for so long. So bots that answer at once are never frozen, which would cost 0.2 to 0.4 ms for each
decision, and a bot that burns the CPU while others are asked has it for LAZY_US at most.

A bot that only waits has a share near 0; pauses are sampled at most every SAMPLES_US, since reading
takes time. A pause includes the end of the bot's last answer and what its runtime does after it
(garbage collection, compilation). So a small share says nothing where all bots answer at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from deepsea_referee.timing.clock import Alarm, Clock

LAZY_US = 2_000
"""How long another's decision lasts before the bots that rest are frozen."""
SAMPLES_US = 100_000
"""Shortest interval between two samples of a bot's CPU time outside of its turns."""


class Pauses:
    """The pauses of one bot between its requests, as its session reports them.

    read_us  reads its CPU time; None where the clock is not the host's
    turns    freezes it; None where it is never frozen
    """

    def __init__(
        self, read_us: Callable[[], int] | None = None, turns: BotTurns | None = None
    ) -> None:
        self._read_us = read_us
        self._turns = turns
        self.off_turn = OffTurn()
        """CPU time in the pauses."""

    @property
    def frozen(self) -> bool:
        """Whether the bot is frozen now: it can read nothing."""
        return self._turns is not None and self._turns.frozen

    def pause(self, now_us: int) -> None:
        """The bot has answered everything."""
        self.rest(now_us)
        if self._read_us is not None:
            self.off_turn.begin(now_us, self._read_us)

    def rest(self, now_us: int) -> None:
        """The bot has nothing to answer, but no answer came: after Hello and timeouts."""
        if self._turns is not None:
            self._turns.rest(now_us)

    def resume(self, now_us: int) -> None:
        """The bot gets a message with requests, or goodbye."""
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
    """Freezes the resting ones among the bots that share it: those of a match, or of a worker."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked: dict[BotTurns, int] = {}
        """The bots that are asked or start, with the time since when."""
        self._resting: set[BotTurns] = set()
        """Those that are not asked and not yet frozen."""
        self._changed_us = 0
        self._alarm: Alarm | None = None

    def join(self, process: Freezable) -> BotTurns:
        """Add a bot that starts now: until it rests, others do not compute on its time."""
        turns = BotTurns(self, process)
        turns.ask(self._clock.now_us())
        return turns

    def freeze_all(self) -> None:
        """Freeze every bot that rests, at once: for when no event loop runs that would.

        A bot is thawed when it is asked; there is nothing to undo.
        """
        for turns in [*self._resting]:
            turns.freeze()

    def asks(self, turns: BotTurns, now_us: int) -> None:
        """Note that a bot is asked or starts."""
        self._resting.discard(turns)
        self._asked[turns] = now_us
        self._ring_by(now_us + LAZY_US)

    def rests(self, turns: BotTurns, now_us: int) -> None:
        """Note that a bot has nothing to answer."""
        self._asked.pop(turns, None)
        if not turns.frozen:
            self._resting.add(turns)
            self._changed_us = now_us
            self._ring_by(now_us + LAZY_US)

    def leaves(self, turns: BotTurns) -> None:
        """Note that a bot ends."""
        self._asked.pop(turns, None)
        self._resting.discard(turns)

    def take(self, turns: BotTurns) -> bool:
        """Whether a bot may be frozen now; it counts as frozen then."""
        may = turns in self._resting
        self._resting.discard(turns)
        return may

    def _ring_by(self, when_us: int) -> None:
        # An alarm that is set is not moved: it looks once in LAZY_US who is asked by then, which
        # costs less than another alarm for each decision.
        if self._alarm is None and self._resting:
            self._alarm = self._clock.at(when_us, self._ring)

    def _ring(self) -> None:
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
        """It is about to be asked: thaw it."""
        self._freezer.asks(self, now_us)
        self._thaw()

    def rest(self, now_us: int) -> None:
        """It has nothing to answer any more."""
        self._freezer.rests(self, now_us)

    def freeze(self) -> None:
        """Freeze it at once, unless it is asked; it is thawed when it is."""
        if self._freezer.take(self):
            self.frozen = True
            self.process.freeze()

    def leave(self) -> None:
        """It ends: thaw it so that it can, and leave it alone."""
        self._freezer.leaves(self)
        self._thaw()

    def _thaw(self) -> None:
        if self.frozen:
            self.frozen = False
            self.process.thaw()


# What is computed in pauses


class OffTurn:
    """CPU time of a bot outside of its turns, as a share of sampled pauses."""

    def __init__(self) -> None:
        self.cpu_us = 0
        self.wall_us = 0
        self._next_us = 0
        self._since: tuple[int, int] | None = None

    @property
    def share(self) -> float | None:
        """CPU time for each second of the sampled pauses; None if there were none."""
        return self.cpu_us / self.wall_us if self.wall_us else None

    def add(self, other: OffTurn) -> None:
        """Add the samples of another process of the same bot."""
        self.cpu_us += other.cpu_us
        self.wall_us += other.wall_us

    def begin(self, now_us: int, read_us: Callable[[], int]) -> None:
        """Start a pause: the bot has answered all requests."""
        if now_us >= self._next_us:
            self._next_us = now_us + SAMPLES_US
            self._since = (now_us, read_us())

    def end(self, now_us: int, read_us: Callable[[], int]) -> None:
        """End the pause: the bot gets a new request."""
        if self._since is None:
            return
        (since_us, cpu_us), self._since = self._since, None
        self.wall_us += now_us - since_us
        self.cpu_us += read_us() - cpu_us
