"""Names of bots and authors.

Invariants: a name is ASCII without spaces, safe in a terminal, a page, a file name and a URL; two
names that differ only in case are one name; no name can be taken for a version of another, which
is labelled "greedy v3".
"""

from __future__ import annotations

import re

from deepsea_bundle.errors import BundleError

LONGEST = 40
RULE = f"1 to {LONGEST} of A-Z a-z 0-9 . _ -, the first a letter or digit"

_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST - 1}}}")
_VERSION = re.compile(r"[._-]+(v[0-9]+)\Z", re.IGNORECASE)


def checked(what: str, name: str) -> str:
    """The name, if it is one; `what` says whose. Raises `BundleError`."""
    if not _NAME.fullmatch(name):
        raise BundleError(f"{what} {name[:60]!a} is not allowed: {RULE}")
    if _VERSION.search(name):
        raise BundleError(
            f"{what} {name!a} ends like a version; the ladder numbers versions by itself"
        )
    return name


def name_from(text: str) -> str:
    """A valid name made of any text, such as "my-bot" of the file "my bot.py".

    Other characters become "-", which does not stand at either end; what is too long is cut; the
    mark before what looks like a version goes ("greedy-v3": "greedyv3"); of nothing comes "bot".
    """
    name = re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("._-")[:LONGEST].rstrip("._-")
    return _VERSION.sub(r"\1", name) or "bot"


def key(name: str) -> str:
    """What two names have in common that count as one."""
    return name.lower()
