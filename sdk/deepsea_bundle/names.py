"""Names of bots and authors.

Invariants: a bot's name is ASCII without spaces, safe in a terminal, a page, a file name and a URL.
An author's name may be of any script, with spaces. Two names that differ only in case, or in the
Unicode encoding of the same letters, are one name. No name can be taken for a version of another,
which is labelled "greedy v3".
"""

from __future__ import annotations

import re
import unicodedata

from deepsea_bundle.errors import BundleError

LONGEST = 40
RULE = f"1 to {LONGEST} of A-Z a-z 0-9 . _ -, the first a letter or digit"

_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{LONGEST - 1}}}")
_VERSION = re.compile(r"[._-]+(v[0-9]+)\Z", re.IGNORECASE)


def valid_bot_name(description: str, name: str) -> str:
    """Return a bot's name if it is valid. Raise `BundleError` otherwise.

    description  beginning of the message, such as "the bot's name"
    """
    if not _NAME.fullmatch(name):
        raise BundleError(f"{description} {name[:60]!a} is not allowed: {RULE}")
    if _VERSION.search(name):
        raise BundleError(
            f"{description} {name!a} ends like a version; the ladder numbers versions by itself"
        )
    return name


PERSON = f"1 to {LONGEST} letters and digits of any script, spaces and . ' _ - between them"
_BETWEEN = frozenset(" .'’·_-")
_ODD = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Letters and marks that are invisible."""
_MOST_MARKS = 3
"""Accents on one letter; more of them cover the lines above and below."""
_ALIKE = frozenset(
    {"ARMENIAN", "CHEROKEE", "COPTIC", "CYRILLIC", "GREEK", "LATIN", "LISU", "TIFINAGH"}
)
"""Scripts with letters that look the same; a name may have letters of only one of them."""


def valid_author_name(name: str) -> str:
    """Return an author's name as it is stored: accents composed, with single spaces.

    Raise `BundleError` for a name that no author may have.
    """
    stored = re.sub(" +", " ", unicodedata.normalize("NFC", name)).strip(" ")
    categories = [unicodedata.category(letter)[0] for letter in stored]
    # The key may be longer than the name. A name begins with a letter or a number (L, N).
    has_valid_length = (
        1 <= len(stored) <= LONGEST and len(key(stored)) <= LONGEST and categories[0] in "LN"
    )
    has_allowed_letters = all(
        category in "LMN" or letter in _BETWEEN
        for category, letter in zip(categories, stored, strict=True)
    )
    has_piled_marks = "M" * (_MOST_MARKS + 1) in "".join(categories)
    if not has_valid_length or not has_allowed_letters or has_piled_marks or _ODD.search(stored):
        raise BundleError(f"the author's name {name[:60]!a} is not allowed: {PERSON}")
    scripts = {unicodedata.name(letter, "").partition(" ")[0] for letter in stored}
    if len(scripts & _ALIKE) > 1:
        raise BundleError(
            f"the author's name {name!a} mixes scripts with letters that look alike: use one"
        )
    if _VERSION.search(stored):
        raise BundleError(f"the author's name {name!a} ends like a version of a bot")
    return stored


def name_from(text: str) -> str:
    """Return a valid name for any text, such as "my-bot" for the file "my bot.py".

    Other characters become "-", except at the ends, and long names are cut. The separator before an
    ending like a version is removed ("greedy-v3" becomes "greedyv3"). The name of an empty text is
    "bot".
    """
    name = re.sub(r"[^A-Za-z0-9._]+", "-", text).strip("._-")[:LONGEST].rstrip("._-")
    return _VERSION.sub(r"\1", name) or "bot"


def key(name: str) -> str:
    """Return the form of a name in which two names that count as one are equal."""
    # Folding the case may leave letters that can be normalised again.
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def same(name: str, other: str) -> bool:
    """Return True if two names count as one."""
    return key(name) == key(other)
