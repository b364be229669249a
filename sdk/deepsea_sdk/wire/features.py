"""What `Hello` and `Welcome` may name in `features`, beyond what every peer can do."""

from __future__ import annotations

from typing import Final

CONCURRENT_GAMES: Final = "concurrent_games"
"""The bot keeps games apart, so that several may run at once over its stream."""

OF_REFEREE: Final[tuple[str, ...]] = ()
"""What this version's referee can do beyond the first one's."""
