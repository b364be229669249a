"""Faults: what a bot can do wrong, the cost, and the remedy.

Invariants: a fault is always the bot's; an error of the referee is not a fault and voids the game.
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
    """One thing that a bot did wrong at one decision."""

    START_TIMEOUT = "start_timeout"
    """It did not connect within the start-up limit."""
    CRASH = "crash"
    """Its process ended or its connection broke."""
    TIMEOUT = "timeout"
    """It used up the decision's budget and the game's bank."""
    EXCEPTION = "exception"
    """Its code raised instead of deciding; its process goes on."""
    ILLEGAL_ACTION = "illegal_action"
    """It answered with something that is not legal in the position."""
    PROTOCOL_ERROR = "protocol_error"
    """It sent something that the protocol does not allow."""
    RESOURCE_LIMIT = "resource_limit"
    """It used more memory or processes than it may."""


FAULTS_TO_FORFEIT = 3
"""The fault that forfeits the seat, counted per game."""

FATAL = frozenset({Fault.START_TIMEOUT, Fault.CRASH, Fault.PROTOCOL_ERROR, Fault.RESOURCE_LIMIT})
"""Faults that end the stream: nobody is left to answer, so they forfeit at once."""

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
    """Whether a seat with these faults in a game has forfeited it."""
    return len(faults) >= FAULTS_TO_FORFEIT or any(fault in FATAL for fault in faults)


@dataclass(frozen=True, slots=True)
class FaultReport:
    """One fault, explained to the bot's author."""

    seat: int
    decision: int
    """The index of the decision in the game's record."""
    fault: Fault
    kind: Kind
    """What was asked."""
    legal: tuple[str, ...]
    """What could have been answered."""
    came: str
    """What the bot did instead, in a few words."""
    us: int
    """How long it took."""
    played: str
    """The default action that was played."""
    forfeit: bool
    """Whether the seat forfeited the game with it."""
    error: str = ""
    """The traceback, or another text of many lines, that the bot left about it."""
    when: Literal["decision", "start", "absent"] = "decision"
    """Whether it happened at the decision or when the process was started for this game; absent: it
    happened in earlier games, after which the bot was not started again."""

    def explanation(self) -> str:
        """What was asked, what came, how long it took, and what was played, in one line."""
        legal = ", ".join(self.legal[:_LEGAL_SHOWN])
        if len(self.legal) > _LEGAL_SHOWN:
            legal += ", ..."
        end = "; the seat forfeits" if self.forfeit else ""
        if self.when != "decision":
            return f"{self.fault}: {self.came}{end}"
        return (
            f"{self.fault} after {duration_text(self.us)}: asked to {self.kind} ({legal}), "
            f"{self.came}; played {self.played}{end}"
        )
