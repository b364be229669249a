"""Constants of every rule set."""

from __future__ import annotations

from typing import Final

DIVES: Final = 3
"""Dives in a game."""
FULL_AIR: Final = 25
"""Air at the start of a dive."""
FACES: Final = (1, 2, 3)
"""What a die can show, each on two of its six faces."""
MIN_PLAYERS: Final = 2
MAX_PLAYERS: Final = 6
PILE_ITEMS: Final = 3
"""How many items stranded divers lay on one pile."""
SEAT_LETTERS: Final = "ABCDEF"
"""How seats are written; in data they count from 0."""
ABOARD: Final = 0
"""The place of a diver in the submarine that has not left it, or cannot."""
HOME: Final = -1
"""The place of a diver that came back in this dive."""
