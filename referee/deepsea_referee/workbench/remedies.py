"""What a bot's author can do about each fault.

Invariants: every command and option that is named exists where the text is shown, which a test
checks; nothing is said that needs a record where none was kept.
"""

from __future__ import annotations

from typing import Final

from deepsea_rules.faults import Fault

REMEDIES: Final = {
    Fault.START_TIMEOUT: "call run(YourBot) at once, and load large files when a game starts",
    Fault.CRASH: "fix the error; its traceback or the last lines of stderr are shown with it",
    Fault.EXCEPTION: "fix the error; its traceback is shown with it",
    Fault.TIMEOUT: "keep to self.clock.deadline(), or try a longer --clock",
    Fault.ILLEGAL_ACTION: "return one of view.legal; for orders, view.items in any order",
    Fault.PROTOCOL_ERROR: "answer each request once, with its id; see docs/protocol.md",
    Fault.RESOURCE_LIMIT: "use less memory, or fewer processes, threads and files",
}
"""As `check` tells them."""


def ladder_remedy(fault: Fault, clock: str) -> str:
    """The same on a ladder, where nobody can choose the clock."""
    if fault is Fault.TIMEOUT:
        return f"keep to self.clock.deadline(): this season's clock is {clock}"
    return REMEDIES[fault]
