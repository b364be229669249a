"""A season's settings for the choice of opponents."""

from __future__ import annotations

from dataclasses import dataclass

from deepsea_ladder.errors import PairingError


@dataclass(frozen=True, slots=True)
class PairingSettings:
    """A season's settings for the choice of opponents."""

    same_author: bool = False
    """Whether bots of one author may meet."""
    former_versions: bool = False
    """Whether the former versions of bots go on playing."""
    exploration: float = 0.1
    """The share of opponents that are drawn from all bots, whatever their strength."""
    patience: float = 4.0
    """The longest wait of a bot, in fair intervals, plus one round of all bots."""
    provisional_games: int = 12
    """A bot with fewer games is provisional: it is always due, and leaves the order open."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.exploration <= 1.0:
            raise PairingError(
                f"pairing.exploration must lie between 0 and 1, not {self.exploration}"
            )
        if not 1.0 <= self.patience <= 1000.0:
            raise PairingError(f"pairing.patience must lie between 1 and 1000, not {self.patience}")
        if not 0 <= self.provisional_games <= 10_000:
            raise PairingError(
                "pairing.provisional_games must lie between 0 and 10000, "
                f"not {self.provisional_games}"
            )
