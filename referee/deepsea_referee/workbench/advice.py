"""What can be said of a bot's files before it is started, and what its author can do about faults.

Invariants: every command and option that is named exists where the text is shown, which a test
checks; nothing is said that needs a record where none was kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deepsea_bundle.archive import LIMITS
from deepsea_bundle.reader import BotBundle
from deepsea_rules.faults import Fault

REMEDIES = {
    Fault.START_TIMEOUT: "call run(YourBot) at once, and load large files when a game starts",
    Fault.CRASH: "fix the error; its traceback or the last lines of stderr are shown with it",
    Fault.EXCEPTION: "fix the error; its traceback is shown with it",
    Fault.TIMEOUT: "keep to self.clock.deadline(), or try a longer --clock",
    Fault.ILLEGAL_ACTION: "return one of view.legal; for orders, view.items in any order",
    Fault.PROTOCOL_ERROR: "answer each request once, with its id; see docs/protocol.md",
    Fault.RESOURCE_LIMIT: "use less memory, or fewer processes, threads and files",
}
"""As `check` tells them."""
FLUSH = "write it first and flush stdout after each line; see docs/protocol.md"
"""For a bot that speaks lines and does not start."""
MOST_PATHS = 5
"""So many paths are named in one line."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The outcome of one check."""

    name: str
    ok: bool
    needed: bool
    """False for advice."""
    found: str
    remedy: str = ""
    """What to do if it is not ok."""
    error: str = ""
    """The author's part of a traceback, or the last lines of stderr; safe to print."""


def files(bundle: BotBundle) -> CheckResult:
    """The size of a bot's files and their limits; skipped files, and links that were copied."""
    collection = bundle.collection
    mib = 1 << 20
    size = f"{-(-collection.total_bytes // 1000)} kB"
    if collection.total_bytes >= mib:
        size = f"{collection.total_bytes / mib:.1f} MiB"
    counts = f"{collection.entries:,} files and folders"
    limits = f"(limits: {LIMITS.entries:,}, {LIMITS.total_bytes // mib} MiB, {LIMITS.depth})"
    parts = [f"{counts}, {size}, {collection.depth} deep {limits}"]
    if collection.skipped:
        parts.append(f"left out {some([*collection.skipped])}")
    if collection.links:
        parts.append(f"kept as copies, being links: {some(collection.links)}")
    return CheckResult("files", True, True, "; ".join(parts))


def requirements(bundle: BotBundle) -> list[CheckResult]:
    """The required packages that this environment has; nothing if the bot requires none."""
    if bundle.requirements is None:
        return []
    # Most bots require none, and it takes a while to import.
    from deepsea_referee.workbench.requirements import (
        installed_version,
        missing_here,
        parse_requirements,
    )

    needed = parse_requirements(bundle.requirements)
    missing = missing_here(needed)
    here = [f"{need.name} {installed_version(need)}" for need in needed if str(need) not in missing]
    parts = [f"{', '.join(here)} installed"] if here else []
    if missing:
        parts = [f"{', '.join(missing)} required but not installed here", *parts]
    found = "; ".join(parts)
    remedy = "install them where deepsea-referee is; a season names those that it offers"
    return [CheckResult("requirements", not missing, False, found, remedy)]


def some(paths: Sequence[str]) -> str:
    """The first paths, and the number of the others."""
    shown = ", ".join(paths[:MOST_PATHS])
    more = len(paths) - MOST_PATHS
    return f"{shown} and {more:,} more" if more > 0 else shown


def ladder_remedy(fault: Fault, clock: str) -> str:
    """The same on a ladder, where nobody can choose the clock."""
    if fault is Fault.TIMEOUT:
        return f"keep to self.clock.deadline(): this season's clock is {clock}"
    return REMEDIES[fault]
