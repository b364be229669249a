"""docs/rating.md tells the defaults that the code has."""

import re
from dataclasses import asdict
from pathlib import Path

from deepsea_ladder.season import Season

PAGE = Path(__file__).resolve().parents[2] / "docs" / "rating.md"


def test_the_table_of_parameters_is_true() -> None:
    rows = re.findall(r"^\| `(\w+\.\w+)` \| (\S+) \|", PAGE.read_text(encoding="utf-8"), re.M)
    season = Season("any")
    settings = {
        f"{table}.{key}": str(value).lower()
        for table, part in (("rating", season.rating), ("pairing", season.pairing))
        for key, value in asdict(part).items()
    }
    assert dict(rows) == settings
