"""Whole numbers as visitors write them in addresses, forms and headers.

Invariant: no text makes it fail; `int` does, beyond 4,300 digits.
"""

from __future__ import annotations

from typing import Final

MOST_DIGITS: Final = 20
LARGEST: Final = 2**53 - 1
"""What every JSON reader has exactly."""


def whole_number(text: str, least: int = 0, most: int = LARGEST) -> int | None:
    """The number of these decimal digits; None for any other text, and beyond the bounds."""
    if len(text) > MOST_DIGITS or not (text.isascii() and text.isdecimal()):
        return None
    number = int(text)
    return number if least <= number <= most else None
