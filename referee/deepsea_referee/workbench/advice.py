"""What can be said of a bot's files before it is started: their size, and the packages it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from deepsea_bundle.archive import LIMITS
from deepsea_bundle.reader import BundleFacts

MOST_PATHS: Final = 5
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


def files(facts: BundleFacts) -> CheckResult:
    """The size of a bot's files and their limits; skipped files, and links that were copied."""
    mib = 1 << 20
    counts = f"{facts.entries:,} of {LIMITS.entries:,}"
    sizes = f"{facts.total_bytes / mib:.1f} of {LIMITS.total_bytes // mib} MiB"
    parts = [f"{counts}, {sizes}, deepest {facts.deepest} of {LIMITS.depth}"]
    if facts.skipped:
        parts.append(f"left out {some(facts.skipped)}")
    if facts.links:
        parts.append(f"kept as copies, being links: {some(facts.links)}")
    return CheckResult("files", True, True, "; ".join(parts))


def requirements(facts: BundleFacts) -> list[CheckResult]:
    """The required packages that this environment has; nothing if the bot requires none."""
    if facts.requirements is None:
        return []
    # Most bots require none, and it takes a while to import.
    from deepsea_referee.workbench.requirements import (
        installed_version,
        missing_here,
        parse_requirements,
    )

    needed = parse_requirements(facts.requirements)
    missing = missing_here(needed)
    here = [f"{need.name} {installed_version(need)}" for need in needed if str(need) not in missing]
    found = f"here are {', '.join(here) or 'none of them'}"
    if missing:
        found = f"not here: {', '.join(missing)}; {found}"
    remedy = "install them where deepsea-referee is; a season names those that it offers"
    return [CheckResult("requirements", not missing, False, found, remedy)]


def some(paths: Sequence[str]) -> str:
    """The first paths, and the number of the others."""
    shown = ", ".join(paths[:MOST_PATHS])
    more = len(paths) - MOST_PATHS
    return f"{shown} and {more:,} more" if more > 0 else shown
