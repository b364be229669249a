"""Names of bots and authors.

Invariants: a bot's name is ASCII without spaces, safe in a terminal, a page, a file name and a URL;
an author's may be of any script, with spaces; two names that differ only in case, or in how Unicode
writes the same, are one name; no name can be taken for a version of another, which is labelled
"greedy v3".
"""

from __future__ import annotations

import re
import unicodedata

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


PERSON = f"1 to {LONGEST} letters and digits of any script, spaces and . ' _ - between them"
_BETWEEN = frozenset(" .'’·_-")
_ODD = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters and marks that nobody sees."""
_MOST_MARKS = 3
"""Accents on one letter: more of them cover the lines above and below."""
_ALIKE = frozenset(
    {"ARMENIAN", "CHEROKEE", "COPTIC", "CYRILLIC", "GREEK", "LATIN", "LISU", "TIFINAGH"}
)
"""Scripts with letters that look the same; a name has letters of one of them."""


def person(name: str) -> str:
    """An author's name as it is stored: composed, with single spaces. Raises `BundleError`."""
    found = re.sub(" +", " ", unicodedata.normalize("NFC", name)).strip(" ")
    kinds = [unicodedata.category(letter)[0] for letter in found]
    fits = 1 <= len(found) <= LONGEST and len(key(found)) <= LONGEST and kinds[0] in "LN"
    known = all(
        kind in "LMN" or letter in _BETWEEN for kind, letter in zip(kinds, found, strict=True)
    )
    piled = "M" * (_MOST_MARKS + 1) in "".join(kinds)
    if not fits or not known or piled or _ODD.search(found):
        raise BundleError(f"the author's name {name[:60]!a} is not allowed: {PERSON}")
    scripts = {unicodedata.name(letter, "").partition(" ")[0] for letter in found}
    if len(scripts & _ALIKE) > 1:
        raise BundleError(
            f"the author's name {name!a} mixes scripts with letters that look alike: use one"
        )
    if _VERSION.search(found):
        raise BundleError(f"the author's name {name!a} ends like a version of a bot")
    return found


def name_from(text: str) -> str:
    """A valid name made of any text, such as "my-bot" of the file "my bot.py".

    Other characters become "-", which does not stand at either end; what is too long is cut; the
    mark before what looks like a version goes ("greedy-v3": "greedyv3"); of nothing comes "bot".
    """
    name = re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("._-")[:LONGEST].rstrip("._-")
    return _VERSION.sub(r"\1", name) or "bot"


def key(name: str) -> str:
    """What two names have in common that count as one."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def same(one: str, other: str) -> bool:
    """Whether two names count as one."""
    return key(one) == key(other)
