"""Whether a ladder can be trusted: what was stored follows from the games, and nothing is damaged.

Invariant: every difference is one line that names what is wrong; damage of any kind is a
difference, never an exception.
"""

from __future__ import annotations

from collections import deque

from deepsea_bundle.bot_cache import stored_files
from deepsea_bundle.errors import BundleDamaged
from deepsea_ladder.chain import follow
from deepsea_ladder.errors import ChainBroken, LadderError
from deepsea_ladder.export import export_lines
from deepsea_ladder.model.seasons import StoredSeason
from deepsea_ladder.proof import Prove, prove
from deepsea_ladder.store import Store
from deepsea_ladder.store.damage import UNREADABLE, damages


def differences(store: Store, *, records: bool = False) -> list[str]:
    """What is wrong with a ladder: damaged or senseless values, broken references, ratings that do
    not follow from the games; `records` as for `season_differences`."""
    found = damages(store.database)
    for season in store.seasons.all() if not found else ():
        found += [
            f"season {season.name}: {line}"
            for line in season_differences(store, season, records=records)
        ]
    return found


def season_differences(
    store: Store, season: StoredSeason, *, records: bool = False, proof: Prove = prove
) -> list[str]:
    """What is wrong with a season.

    records  also re-run every record, which takes a millisecond or two for each, compare it with
             the season's seed, the versions and their files, and follow the season's chain
    proof    how records are re-run
    """
    try:
        found = store.ratings.differences(season, records=records, proof=proof)
        if records and not found:
            found = _archive_differences(store, season) + _chain_differences(store, season)
    except (LadderError, *UNREADABLE) as error:
        return damages(store.database) or [f"it cannot be read: {error}"]
    return found


def _archive_differences(store: Store, season: StoredSeason) -> list[str]:
    found = []
    for version in store.history.players(season):
        try:
            stored_files(store.bots.archive(version.digest), version.digest)
        except (BundleDamaged, LadderError) as error:
            found.append(f"{version.label}: {error}")
    return found


def _chain_differences(store: Store, season: StoredSeason) -> list[str]:
    try:
        (link,) = deque(follow(export_lines(store, season)), maxlen=1)
    except ChainBroken as broken:
        return [f"its chain is broken: {broken}"]
    if link.place < season.place:
        return [f"its chain ends at place {link.place}, not {season.place}"]
    if link.place == season.place and link.head != season.head:
        return [f"its chain's head is {season.head}, not {link.head}"]
    return []
