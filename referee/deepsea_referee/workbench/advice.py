"""Checks of a bot's files before it is started, and advice to its author about faults.

Invariants: every command and option that is named exists where the text is shown, which a test
checks; nothing is said that needs a record where none was kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deepsea_bundle.archive import LIMITS
from deepsea_bundle.reader import BotBundle
from deepsea_rules.faults import REMEDIES, Fault

FLUSH = "write it first and flush stdout after each line; see docs/protocol.md"
"""Advice for a bot of the lines protocol that does not start."""
MOST_PATHS = 5
"""The largest number of paths that one line of output names."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The outcome of one check."""

    name: str
    ok: bool
    needed: bool
    """True if a bot that fails this check cannot play; False if the check only gives advice."""
    found: str
    remedy: str = ""
    """What to do if it is not ok."""
    error: str = ""
    """The author's part of a traceback, or the last lines of stderr; safe to print."""


def files(bundle: BotBundle) -> CheckResult:
    """Report the size of a bot's files, the limits, skipped files, and links stored as copies.

    The result is always ok: files above a limit are refused when the bundle is read.
    """
    collection = bundle.collection
    mib = 1 << 20
    size = f"{-(-collection.total_bytes // 1000)} kB"  # rounded up
    if collection.total_bytes >= mib:
        size = f"{collection.total_bytes / mib:.1f} MiB"
    counts = f"{collection.entries:,} files and folders"
    limits = f"(limits: {LIMITS.entries:,}, {LIMITS.total_bytes // mib} MiB, {LIMITS.depth})"
    parts = [f"{counts}, {size}, {collection.depth} deep {limits}"]
    if collection.skipped:
        parts.append(f"left out {first_paths([*collection.skipped])}")
    if collection.links:
        parts.append(f"kept as copies, being links: {first_paths(collection.links)}")
    return CheckResult("files", ok=True, needed=True, found="; ".join(parts))


def requirements(bundle: BotBundle) -> list[CheckResult]:
    """Check that the packages of a bot's requirements.txt are installed in this environment.

    Returns a list with one result, which is advice, or an empty list if the bot requires nothing.
    """
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
    installed = [
        f"{need.name} {installed_version(need)}" for need in needed if str(need) not in missing
    ]
    parts = [f"{', '.join(installed)} installed"] if installed else []
    if missing:
        parts = [f"{', '.join(missing)} required but not installed here", *parts]
    remedy = "install them where deepsea-referee is; a season names those that it offers"
    return [
        CheckResult(
            "requirements", ok=not missing, needed=False, found="; ".join(parts), remedy=remedy
        )
    ]


def first_paths(paths: Sequence[str]) -> str:
    """Return the first `MOST_PATHS` paths as text, followed by the number of the others."""
    shown = ", ".join(paths[:MOST_PATHS])
    more = len(paths) - MOST_PATHS
    return f"{shown} and {more:,} more" if more > 0 else shown


def ladder_remedy(fault: Fault, clock: str) -> str:
    """Return advice about a fault in a ladder game, where the season sets the clock.

    Only the advice about timeouts differs from `REMEDIES`: it names the clock of the season
    instead of the option `--clock`.
    """
    if fault is Fault.TIMEOUT:
        return f"keep to self.clock.deadline(): this season's clock is {clock}"
    return REMEDIES[fault]
