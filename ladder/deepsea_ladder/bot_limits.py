"""What a season's bots may take of the machine that plays them."""

from __future__ import annotations

from dataclasses import dataclass

from deepsea_ladder.errors import SeasonError


@dataclass(frozen=True, slots=True)
class BotLimits:
    """Limits of one bot, with all the processes that it makes."""

    memory_mib: int = 512
    """Memory of all its processes together."""
    processes: int = 64
    """Processes and threads together."""
    require_cgroups: bool = False
    """Refuse to play where no control groups enforce this and count CPU time."""

    def __post_init__(self) -> None:
        if not 16 <= self.memory_mib <= 1_048_576:
            raise SeasonError(
                f"limits.memory_mib must lie between 16 and 1048576, not {self.memory_mib}"
            )
        if not 1 <= self.processes <= 10_000:
            raise SeasonError(
                f"limits.processes must lie between 1 and 10000, not {self.processes}"
            )
