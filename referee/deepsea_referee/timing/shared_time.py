"""Divides the time that passes among the decisions that a bot has open at once."""

from __future__ import annotations


class SharedTime:
    """Divides a bot's time among its open decisions.

    While n decisions are open each is charged one nth of the time that passes: a message with n
    requests has n times the budget, and the charges add up to the time that has passed.
    """

    __slots__ = ("_at_us", "_open", "_share_us")

    def __init__(self) -> None:
        self._open = 0
        self._share_us = 0.0
        self._at_us = 0

    def at(self, now_us: int) -> float:
        """The charge of a decision that was open from the beginning until now.

        The difference between two moments is the charge of a decision that is open in between.
        """
        if self._open:
            self._share_us += (now_us - self._at_us) / self._open
        self._at_us = now_us
        return self._share_us

    def open(self, count: int, now_us: int) -> float:
        """Add open decisions from now on; returns `at(now_us)`."""
        share_us = self.at(now_us)
        self._open += count
        return share_us

    def close(self, now_us: int) -> float:
        """Remove one open decision; returns `at(now_us)`."""
        if now_us != self._at_us:  # the answers of one message have come at one time
            self.at(now_us)
        self._open -= 1
        return self._share_us
