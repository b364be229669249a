"""What an author may submit to the ladder while a season is open."""

from __future__ import annotations

from dataclasses import dataclass

from deepsea_ladder.errors import SeasonError


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """Limits of one author, over all of the author's bots, from the opening of the season."""

    versions: int = 200
    """Versions that are submitted."""
    mib: int = 512
    """The files of these versions as the ladder keeps them: packed, equal ones once."""

    def __post_init__(self) -> None:
        for name, value in (("versions", self.versions), ("mib", self.mib)):
            if not 1 <= value <= 1_000_000:
                raise SeasonError(f"uploads.{name} must lie between 1 and 1000000, not {value}")
