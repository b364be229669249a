"""Features in `Hello` and `Welcome`: abilities that not every peer has."""

from __future__ import annotations

from typing import Final

CONCURRENT_GAMES: Final = "concurrent_games"
"""The bot keeps games apart, so that several may run at once over its stream."""

NO_EVENTS: Final = "no_events"
"""The bot reads no events: its requests and results come without them."""

OF_REFEREE: Final[tuple[str, ...]] = ()
"""The features of this version's referee."""
