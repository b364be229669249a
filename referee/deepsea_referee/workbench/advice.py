"""Checks of a bot's files and required packages before it is started, and advice about faults.

Invariants: every command and option that is named exists where the text is shown, which a test
checks; nothing is said that needs a record where none was stored. Required packages are the lines
of requirements.txt, compared with the installed and offered packages by name and version. Nothing
is installed, downloaded or imported here; so a line that only pip understands is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from deepsea_bundle.archive import LIMITS
from deepsea_bundle.errors import BundleError
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
    """Instruction for the author if the check has failed."""
    error: str = ""
    """The author's part of a traceback, or the last lines of stderr; safe to print."""


def files(bundle: BotBundle) -> CheckResult:
    """Report the number, the size and the depth of a bot's files, with their limits.

    The report also names files that were left out, and links that were stored as copies. It is
    always ok: files above a limit are refused earlier, when the bundle is read.
    """
    collection = bundle.collection
    mib = 1 << 20
    if collection.total_bytes >= mib:
        size = f"{collection.total_bytes / mib:.1f} MiB"
    else:
        size = f"{math.ceil(collection.total_bytes / 1000)} kB"
    counts = f"{collection.entries:,} files and folders"
    limits = f"(limits: {LIMITS.entries:,}, {LIMITS.total_bytes // mib} MiB, {LIMITS.depth})"
    sentences = [f"{counts}, {size}, {collection.depth} deep {limits}"]
    if collection.skipped:
        sentences.append(f"left out {first_paths([*collection.skipped])}")
    if collection.links:
        sentences.append(f"kept as copies, being links: {first_paths(collection.links)}")
    return CheckResult("files", ok=True, needed=True, found="; ".join(sentences))


def requirements(bundle: BotBundle) -> list[CheckResult]:
    """Check that the packages of a bot's requirements.txt are installed in this environment.

    Returns a list with one result, which is advice, or an empty list if the bot requires nothing.
    """
    if bundle.requirements is None:
        return []
    required = parse_requirements(bundle.requirements)
    missing = missing_here(required)
    installed = [
        f"{requirement.name} {installed_version(requirement)}"
        for requirement in required
        if str(requirement) not in missing
    ]
    sentences = []
    if missing:
        sentences.append(f"{', '.join(missing)} required but not installed here")
    if installed:
        sentences.append(f"{', '.join(installed)} installed")
    found = "; ".join(sentences)
    remedy = "install them where deepsea-referee is; a season names those that it offers"
    return [CheckResult("requirements", ok=not missing, needed=False, found=found, remedy=remedy)]


def first_paths(paths: Sequence[str]) -> str:
    """Return the first `MOST_PATHS` paths as text, followed by the number of the others."""
    shown = ", ".join(paths[:MOST_PATHS])
    more = len(paths) - MOST_PATHS
    return f"{shown} and {more:,} more" if more > 0 else shown


def ladder_remedy(fault: Fault, clock: str) -> str:
    """Return advice for the author of a bot that was at fault in a ladder game.

    It is that of `REMEDIES`, except after a timeout: the usual advice names the option `--clock`,
    but on a ladder the season sets the clock.

    clock  the season's clock, such as "100ms+2s"
    """
    if fault is Fault.TIMEOUT:
        return f"keep to self.clock.deadline(): this season's clock is {clock}"
    return REMEDIES[fault]


# ----- Required packages

ALWAYS_THERE = frozenset({"deepsea-sdk", "deepsea-referee", "grpcio", "protobuf"})
"""Packages that every bot may use, because the referee needs them."""
LONGEST_LINE = 1000
"""The largest number of characters of a requirement."""


def parse_requirements(text: str) -> list[Requirement]:
    """Return the requirements in the text of a requirements.txt that apply to this Python.

    Requirements whose marker (`; python_version < "3.12"`) excludes this Python or system are left
    out. Raises BundleError with the number of the line for a line that is no package with versions.
    """
    requirements = []
    for number, line in _lines(text):
        where = f"the requirements, line {number}"
        try:
            requirement = _requirement(line)
            applies = requirement.marker is None or requirement.marker.evaluate()
        except ValueError as error:  # InvalidRequirement is one
            reason = str(error).partition("\n")[0]
            raise BundleError(
                f"{where}: {line[:60]!a} is no package such as numpy>=2: {reason}"
            ) from None
        if requirement.url is not None:
            raise BundleError(f"{where}: {requirement.name} comes from a URL; name a version")
        if applies:
            requirements.append(requirement)
    return requirements


def _requirement(line: str) -> Requirement:
    """Parse one requirement. Raises InvalidRequirement if it is not valid or too long."""
    # A version with thousands of digits can be parsed, but fails when versions are compared.
    if len(line) > LONGEST_LINE:
        raise InvalidRequirement(f"it is longer than {LONGEST_LINE} characters")
    return Requirement(line)


def installed_version(requirement: Requirement) -> str | None:
    """Return the version of a package in this environment, or None if it is not installed."""
    try:
        return metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return None


def missing_here(requirements: Sequence[Requirement]) -> list[str]:
    """Return the requirements that this environment does not meet, as text.

    If a package is installed in a version that does not fit, the text names that version.
    """
    missing = []
    for requirement in requirements:
        version = installed_version(requirement)
        if version is None:
            missing.append(str(requirement))
        elif not requirement.specifier.contains(version, prereleases=True):
            missing.append(f"{requirement} (here is {version})")
    return missing


def not_offered(requirements: Sequence[Requirement], offered: Sequence[str]) -> list[str]:
    """Return the requirements that the packages of a season do not meet, as text.

    offered  the season's packages, each `name`, which meets any version, or `name==version`
    """
    offered_packages: dict[str, Requirement] = {}
    for text in offered:
        package = Requirement(text)
        offered_packages[canonicalize_name(package.name)] = package
    return [
        str(requirement)
        for requirement in requirements
        if not _is_offered(requirement, offered_packages)
    ]


def _is_offered(requirement: Requirement, offered_packages: Mapping[str, Requirement]) -> bool:
    """Return True if the packages that a season offers, by their names, meet a requirement."""
    name = canonicalize_name(requirement.name)
    if name in ALWAYS_THERE:
        return True
    package = offered_packages.get(name)
    if package is None:
        return False
    # A package has at most one version; without any, it meets every requirement.
    return all(
        requirement.specifier.contains(pin.version, prereleases=True) for pin in package.specifier
    )


def checked_package(text: str) -> str:
    """Check a package that a season offers, and return it in the form in which it is stored.

    Raises BundleError unless it is a name such as `numpy`, or one with an exact version such as
    `numpy==2.1.0`.
    """
    with suppress(InvalidRequirement):
        package = _requirement(text)
        conditions = list(package.specifier)  # such as ==2.1.0, ==2.* or >=2
        is_exact = all(
            condition.operator == "==" and not condition.version.endswith("*")
            for condition in conditions
        )
        is_plain = not (package.extras or package.marker or package.url)
        if is_plain and is_exact and len(conditions) < 2:
            return canonicalize_name(package.name) + str(package.specifier)
    raise BundleError(f"package {text!a}: write a name, or a name and version as numpy==2.1.0")


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers from 1, without comments and empty lines."""
    for number, line in enumerate(text.splitlines(), 1):
        content = "" if line.lstrip().startswith("#") else line.partition(" #")[0].strip()
        if content:
            yield number, content
