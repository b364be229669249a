"""A bot's pauses, in which others' turns follow: measures what it does in them, freezes it."""

from __future__ import annotations

from deepsea_referee.timing.freezing import BotTurns
from deepsea_referee.timing.off_turn import CpuGauge, OffTurn


class Pauses:
    """The pauses of one bot between its requests, as its session reports them.

    gauge  measures it; None where the clock is not the host's
    turns  freezes it; None where it is never frozen
    """

    def __init__(self, gauge: CpuGauge | None = None, turns: BotTurns | None = None) -> None:
        self._gauge = gauge
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
        if self._gauge is not None:
            self.off_turn.begin(now_us, self._gauge)

    def rest(self, now_us: int) -> None:
        """The bot has nothing to answer, but no answer came: after Hello and timeouts."""
        if self._turns is not None:
            self._turns.rest(now_us)

    def resume(self, now_us: int) -> None:
        """The bot gets a message with requests, or goodbye."""
        if self._gauge is not None:
            self.off_turn.end(now_us, self._gauge)
        if self._turns is not None:
            self._turns.ask(now_us)
