"""`deepsea-referee verify --chain`: follows the chain in an export of a ladder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from deepsea_cli.errors import DONE, NEGATIVE
from deepsea_cli.ladder.tables import count
from deepsea_cli.output import echo
from deepsea_referee.errors import UserError

if TYPE_CHECKING:
    from deepsea_ladder.chain import Link


def verify_chain(export: Path, head: str) -> int:
    """Print whether the export is whole and has the head; returns the exit status."""
    from deepsea_ladder.chain import follow
    from deepsea_ladder.errors import ChainBroken, NotAChain

    last: dict[str, Link] = {}
    games: dict[str, int] = {}
    found: Link | None = None
    try:
        with export.open(encoding="utf-8") as lines:
            for link in follow(lines):
                last[link.season] = link
                games[link.season] = games.get(link.season, 0) + link.is_game
                if link.head == head.lower():
                    found = link
    except ChainBroken as broken:
        echo(f"altered {export}: {broken}")
        return NEGATIVE
    except (NotAChain, UnicodeDecodeError) as error:
        raise UserError(f"{export}: {error}") from None
    for season, link in last.items():
        lost = count(link.place - games[season], "attempt")
        echo(f"season {season}: {count(games[season], 'game')}, {lost} without a result")
    if found is None:
        echo(f"altered {export}: the head {head} is not in it")
        return NEGATIVE
    end = last[found.season].place
    echo(f"ok {export}: the head is that of place {found.place} of {end} in season {found.season}")
    return DONE
