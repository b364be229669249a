"""Refusal of texts that no argument may be: blank, not UTF-8, or with control characters.

All arguments are checked before any of them is interpreted, so no command checks its own.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import click

_REASONS = {
    "Cc": "it has a control character",
    "Cs": "it is not UTF-8",
    "Zl": "it has a line separator",
    "Zp": "it has a paragraph separator",
}
"""Reasons by the category of a character, as Unicode names it."""
_HAS_PASSWORD = re.compile(r":.*@|password", re.IGNORECASE | re.DOTALL)
"""The form of a database's URL with a password, which is not shown."""


def refuse_odd_arguments(arguments: Sequence[str]) -> None:
    """Raise UsageError for the first argument, or value after `--OPTION=`, that is an odd text."""
    before = ""
    for number, argument in enumerate(arguments, 1):
        option, equals, value = argument.partition("=")
        if option.startswith("--") and equals:
            refuse_odd_text(option, value)
        else:
            after = f" (after {before})" if before.strip("-") != before != "" else ""
            refuse_odd_text(f"argument {number}{after}", argument)
        before = argument


def refuse_odd_text(where: str, text: str) -> None:
    """Raise UsageError for an odd text; `where` names it in the message."""
    if not text.strip():
        raise click.UsageError(f"{where} is empty: write a value, or omit it")
    if text.isprintable():  # most are, and this is the fastest check
        return
    from deepsea_rules.printable import quoted  # rarely needed

    for character in text:
        if reason := _REASONS.get(unicodedata.category(character)):
            shown = "" if _HAS_PASSWORD.search(text) else f"{quoted(text)}: "
            raise click.UsageError(f"{where}: {shown}{reason}")
