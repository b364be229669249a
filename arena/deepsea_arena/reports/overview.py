"""The overview of a class: who has joined, what each author has submitted, and where they stand.

Invariants: every author has one line, also before the first bot; the columns of the table in the
terminal and on the page are `COLUMNS`, and CSV has every field of a line; versions have the same
files if these are equal to the last byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from deepsea_arena.documents import TableColumn
from deepsea_arena.reports.standings import eligible, listed
from deepsea_arena.seasons import find_season
from deepsea_ladder.accounts import AuthorLine, AuthorState
from deepsea_ladder.model import BotState, BotVersion, RatedVersion, Time
from deepsea_ladder.standings import standings

if TYPE_CHECKING:
    from deepsea_ladder.store import Store

NAMED = 3
"""Versions with the same files that a sentence names."""


class AuthorOverview(Struct, frozen=True, kw_only=True):
    """An author in the overview, with the bot that stands best in the season."""

    author: str
    state: AuthorState
    joined_at: Time | None
    """The first token; None before a code was redeemed."""
    submissions: int = 0
    submitted_at: Time | None = None
    """The newest submission."""
    refused_at: Time | None = None
    """The newest submission that was not accepted."""
    refusal: str = ""
    """The reason of that."""
    bots: int
    bot: str = ""
    """Of several bots one with the best rank, else one that plays; "" for none."""
    version: int | None = None
    bot_state: BotState | None = None
    games: int = 0
    """Of that version in the season."""
    rating: float | None = None
    """None before the first game."""
    rank: int | None = None
    same_files: tuple[str, ...]
    """Versions of other authors that have the files of one of this author's versions."""


class Overview(Struct, frozen=True, kw_only=True):
    """All authors, by name, and a season."""

    season: str
    authors: tuple[AuthorOverview, ...]


COLUMNS = (
    TableColumn(
        "author",
        "author",
        "text",
        beside=("state",),
        meaning="all authors, by name; on the page with the state",
    ),
    TableColumn(
        "joined", "joined_at", spare=2, meaning="when a code was redeemed for the first token"
    ),
    TableColumn("tries", "submissions", spare=6, meaning="the number of submissions"),
    TableColumn("submitted", "submitted_at", meaning="the newest submission"),
    TableColumn("rank", "rank", meaning="the rank of that version in the season"),
    TableColumn(
        "bot",
        "bot",
        "text",
        beside=("bots",),
        meaning="the author's bot that stands best, on the page with the number of all",
    ),
    TableColumn("version", "version", spare=3, meaning="the version of that bot in the season"),
    TableColumn("state", "bot_state", "text", spare=5, meaning="the state of that bot"),
    TableColumn("games", "games", meaning="games of that version in the season"),
    TableColumn("rating", "rating", spare=4, meaning="mu − 3 sigma; none before the first game"),
    TableColumn(
        "refused", "refused_at", spare=7, meaning="the newest submission that was not accepted"
    ),
    TableColumn("last refusal", "refusal", "note", meaning="the reason why that was not accepted"),
    TableColumn(
        "same files as",
        "same_files",
        "note",
        meaning="versions of other authors that have the same files to the last byte",
    ),
)
CSV_COLUMNS = AuthorOverview.__struct_fields__
SharedFiles = Sequence[tuple[BotVersion, ...]]
"""Versions of several authors with the same files, by their files."""


def overview(store: Store, season_name: str | None = None) -> Overview:
    """All authors, and where they stand in a season; by default the open one."""
    season = find_season(store, season_name)
    entries = eligible(store, season)
    lines = standings(listed(store, season, entries), pairing=season.settings.pairing)
    ranks = {(line.bot, line.version): line.rank for line in lines}

    def rank(entry: RatedVersion) -> int | None:
        return ranks.get((entry.version.bot, entry.version.number))

    def is_behind(entry: RatedVersion) -> tuple[float, bool]:
        return rank(entry) or inf, entry.state is not BotState.ACTIVE

    best: dict[str, RatedVersion] = {}
    for entry in sorted(entries, key=is_behind):
        best.setdefault(entry.version.author, entry)
    submissions, joined = store.submissions.by_author(), store.audit.first_tokens()
    shared = store.bots.shared_files()

    def line(author: AuthorLine) -> AuthorOverview:
        name = author.author
        overview = AuthorOverview(
            author=name,
            state=author.state,
            joined_at=joined.get(name),
            bots=author.bots,
            same_files=copies(shared, name),
        )
        if (sent := submissions.get(name)) is not None:
            overview = replace(
                overview,
                submissions=sent.number,
                submitted_at=sent.newest.created_at,
                refused_at=sent.refused.created_at if sent.refused else None,
                refusal=sent.refused.found if sent.refused else "",
            )
        if (entry := best.get(name)) is not None:
            tally = entry.tally
            overview = replace(
                overview,
                bot=entry.version.bot,
                version=entry.version.number,
                bot_state=entry.state,
                games=tally.games,
                rating=tally.rating.conservative if tally.games else None,
                rank=rank(entry),
            )
        return overview

    return Overview(season=season.name, authors=tuple(map(line, store.authors.all())))


def copies(
    shared: SharedFiles, author: str, bot: str | None = None, number: int | None = None
) -> tuple[str, ...]:
    """Versions of other authors that have the files of one of an author's versions: of any, of one
    of this bot, or of the one with this number."""
    labels: dict[str, None] = {}
    for versions in shared:
        own = [one for one in versions if one.author == author]
        if any(bot in (None, one.bot) and number in (None, one.number) for one in own):
            labels |= {one.signed_label: None for one in versions if one not in own}
    return tuple(labels)


def same_files_as(labels: Iterable[str]) -> str:
    """`same files as ann v1 by anna and 2 others`; "" for none."""
    names = list(labels)
    if not names:
        return ""
    more = len(names) - NAMED
    return f"same files as {', '.join(names[:NAMED])}{f' and {more} more' if more > 0 else ''}"
