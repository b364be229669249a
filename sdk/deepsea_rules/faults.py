"""Faults: what a bot can do wrong, its cost, and the remedy.

Invariants: a fault is always the bot's. An error of the referee is not a fault and voids the game.
After a fault the default action is played, so that the game of the others stays complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from .actions import Kind
from .time_control import duration_text


class Fault(StrEnum):
    """Kind of fault at one decision."""

    START_TIMEOUT = "start_timeout"
    """The bot did not connect within the start-up limit."""
    CRASH = "crash"
    """The bot's process ended or its connection broke."""
    TIMEOUT = "timeout"
    """The bot used up the decision's budget and the game's bank."""
    EXCEPTION = "exception"
    """The bot's code raised an exception instead of deciding; its process goes on."""
    ILLEGAL_ACTION = "illegal_action"
    """The bot answered with an action that is not legal in the position."""
    PROTOCOL_ERROR = "protocol_error"
    """The bot sent something that the protocol does not allow."""
    RESOURCE_LIMIT = "resource_limit"
    """The bot used more memory or processes than it may."""


FAULTS_TO_FORFEIT = 3
"""Number of faults in a game with which the seat forfeits."""

FATAL = frozenset({Fault.START_TIMEOUT, Fault.CRASH, Fault.PROTOCOL_ERROR, Fault.RESOURCE_LIMIT})
"""Faults that end the stream: the bot cannot answer any more, so they forfeit at once."""

OF_ONE_GAME = frozenset({Fault.EXCEPTION, Fault.ILLEGAL_ACTION})
"""Faults in which the other games of the bot's process have no part."""

REMEDIES = {
    Fault.START_TIMEOUT: "call run(YourBot) at once, and load large files when a game starts",
    Fault.CRASH: "fix the error; its traceback or the last lines of stderr are shown with it",
    Fault.EXCEPTION: "fix the error; its traceback is shown with it",
    Fault.TIMEOUT: "keep to self.clock.deadline(), or try a longer --clock",
    Fault.ILLEGAL_ACTION: "return one of view.legal; for orders, view.items in any order",
    Fault.PROTOCOL_ERROR: "answer each request once, with its id; see docs/protocol.md",
    Fault.RESOURCE_LIMIT: "use less memory, or fewer processes, threads and files",
}
"""Advice of the `check` command to the author, by the kind of fault."""

_LEGAL_SHOWN = 6


def is_forfeit(faults: Sequence[Fault]) -> bool:
    """Return True if a seat with these faults in a game has forfeited it."""
    return len(faults) >= FAULTS_TO_FORFEIT or any(fault in FATAL for fault in faults)


@dataclass(frozen=True, slots=True)
class FaultReport:
    """One fault, explained to the bot's author."""

    seat: int
    decision: int
    """Index of the decision in the game's record."""
    fault: Fault
    kind: Kind
    """Kind of the decision."""
    legal: tuple[str, ...]
    """Legal actions that the bot could have answered."""
    came: str
    """Description in a few words of what the bot did instead."""
    us: int
    """Time that it took, in microseconds."""
    played: str
    """The default action that was played."""
    forfeit: bool
    """True if the seat forfeited the game with this fault."""
    error: str = ""
    """The bot's traceback, or another text of many lines about the fault."""
    when: Literal["decision", "start", "absent"] = "decision"
    """The moment of the fault: "decision", "start" or "absent".

    It is "start" if the process was started for this game then, and "absent" if the bot was not
    started again after faults in earlier games.
    """

    def explanation(self) -> str:
        """Return one line: the fault, what was asked, what the bot did, and what was played."""
        consequence = "; the seat forfeits" if self.forfeit else ""
        if self.when != "decision":  # the bot was not running, so it was not asked
            return f"{self.fault}: {self.came}{consequence}"
        legal = ", ".join(self.legal[:_LEGAL_SHOWN])
        if len(self.legal) > _LEGAL_SHOWN:
            legal += ", ..."
        return (
            f"{self.fault} after {duration_text(self.us)}: asked to {self.kind} ({legal}), "
            f"{self.came}; played {self.played}{consequence}"
        )
