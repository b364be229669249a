"""The pauses of a bot between its requests, as its session reports them."""

from __future__ import annotations

from typing import Protocol


class Pauses(Protocol):
    """Receives the beginning and the end of each pause, in which others' turns follow."""

    @property
    def frozen(self) -> bool:
        """Whether the bot is frozen now: it can read nothing."""

    def pause(self, now_us: int) -> None:
        """The bot has answered everything."""

    def rest(self, now_us: int) -> None:
        """The bot has nothing to answer, but no answer came: after Hello and timeouts."""

    def resume(self, now_us: int) -> None:
        """The bot gets a message with requests, or goodbye."""


class NoPauses:
    """Ignores them, for a bot that is never frozen."""

    frozen = False

    def pause(self, now_us: int) -> None:
        pass

    rest = resume = pause
