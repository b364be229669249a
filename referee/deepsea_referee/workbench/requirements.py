"""The packages that a bot needs: read from its requirements.txt, and compared with what is there.

Invariants: nothing is installed, downloaded or imported here; a line that pip alone could follow is
refused, since a season's packages are compared by name and version.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import metadata

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from deepsea_bundle.errors import BundleError

ALWAYS_THERE = frozenset({"deepsea-sdk", "deepsea-referee", "grpcio", "protobuf"})
"""What a bot may count on everywhere, since the referee does."""
LONGEST_LINE = 1000


def parse_requirements(text: str) -> list[Requirement]:
    """The requirements that apply to this Python; raises `BundleError` with the line."""
    found = []
    for number, line in _lines(text):
        where = f"the requirements, line {number}"
        try:
            requirement = _requirement(line)
            applies = requirement.marker is None or requirement.marker.evaluate()
        except ValueError as error:
            why = str(error).partition("\n")[0]
            raise BundleError(
                f"{where}: {line[:60]!a} is no package such as numpy>=2: {why}"
            ) from None
        if requirement.url is not None:
            raise BundleError(f"{where}: {requirement.name} comes from a URL; name a version")
        if applies:
            found.append(requirement)
    return found


def _requirement(line: str) -> Requirement:
    # Numbers of thousands of digits would pass here, and fail where versions are compared.
    if len(line) > LONGEST_LINE:
        raise InvalidRequirement(f"it is longer than {LONGEST_LINE} characters")
    return Requirement(line)


def installed_version(requirement: Requirement) -> str | None:
    """The version of a package in this environment; None if it is not there."""
    try:
        return metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return None


def missing_here(requirements: Sequence[Requirement]) -> list[str]:
    """Those that this environment does not have, or has in another version, in words."""
    missing = []
    for requirement in requirements:
        version = installed_version(requirement)
        if version is None:
            missing.append(str(requirement))
        elif not requirement.specifier.contains(version, prereleases=True):
            missing.append(f"{requirement} (here is {version})")
    return missing


def not_offered(requirements: Sequence[Requirement], offered: Sequence[str]) -> list[str]:
    """Those that are not among the packages of a season, each `name` or `name==version`."""
    there = {canonicalize_name(one.name): one for one in map(Requirement, offered)}
    lacking = []
    for requirement in requirements:
        name = canonicalize_name(requirement.name)
        if name in ALWAYS_THERE:
            continue
        package = there.get(name)
        versions = [pin.version for pin in package.specifier] if package else []
        if package is None or not all(
            requirement.specifier.contains(version, prereleases=True) for version in versions
        ):
            lacking.append(str(requirement))
    return lacking


def checked_package(text: str) -> str:
    """A package of a season as it is stored; raises `BundleError` unless it is a name or pinned."""
    with suppress(InvalidRequirement):
        package = _requirement(text)
        pins = list(package.specifier)
        exact = all(pin.operator == "==" and not pin.version.endswith("*") for pin in pins)
        plain = not (package.extras or package.marker or package.url)
        if plain and exact and len(pins) < 2:
            return canonicalize_name(package.name) + str(package.specifier)
    raise BundleError(f"package {text!a}: write a name, or a name and version as numpy==2.1.0")


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """The lines that say something, with their numbers."""
    for number, line in enumerate(text.splitlines(), 1):
        said = "" if line.lstrip().startswith("#") else line.partition(" #")[0].strip()
        if said:
            yield number, said
