"""Names of bots and authors, and other words that end up in tables and terminals.

Laws: a name has letters and digits of left-to-right scripts, single spaces and a few marks,
nothing that a terminal, a page or a spreadsheet would take for an order; two names that differ
only in case or in how a letter is encoded are one name.
"""

from __future__ import annotations

import unicodedata
from typing import Final

from deepsea_bundle.errors import BundleError

LONGEST: Final = 40
_MARKS: Final = frozenset(" ._'+-")


def checked(what: str, name: str) -> str:
    """The name, if it is one; `what` says whose. Raises `BundleError`."""
    if not name or len(name) > LONGEST:
        raise BundleError(f"{what} {name[:60]!a} has {len(name)} characters, not 1 to {LONGEST}")
    if unicodedata.normalize("NFKC", name) != name:
        raise BundleError(f"{what} {name!a} is written with look-alikes of plain characters")
    for char in name:
        if not (_is_plain_letter(char) or char in _MARKS):
            raise BundleError(
                f"{what} {name!a} has the character {char!a}; letters, digits, spaces and ._'+- "
                "make a name"
            )
    if not (name[0].isalnum() and name[-1] != " " and "  " not in name):
        raise BundleError(
            f"{what} {name!a} must begin with a letter or digit, and spaces stand alone inside"
        )
    return name


def key(name: str) -> str:
    """What two names have in common that count as one."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def plain(text: str, longest: int = 2000) -> str:
    """Somebody's words as one line that does nothing to a terminal or a database."""
    shown = "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )
    return shown if len(shown) <= longest else shown[: longest - 3] + "..."


def _is_plain_letter(char: str) -> bool:
    return char.isalnum() and unicodedata.bidirectional(char) in ("L", "EN")
