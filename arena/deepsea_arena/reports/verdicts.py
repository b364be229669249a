"""Verdicts of versions: how they do against former ones and against the panel, on common luck.

Invariant: a line follows from one comparison, so that it does not depend on who else takes part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct, structs

from deepsea_arena.seasons import find_season
from deepsea_ladder.errors import NotOnLadder
from deepsea_ladder.model import StoredComparison, TaskState, Time, Verdict, utc_time

if TYPE_CHECKING:
    from deepsea_ladder.model import StoredSeason
    from deepsea_ladder.store import Store


class VerdictLine(Struct, frozen=True, kw_only=True):
    """A version against its bot's former version, or against a bot of the panel."""

    author: str
    bot: str
    version: int
    against: str
    """Such as "version 2", or the name in the panel."""
    is_panel: bool
    beats: Literal["yes", "no", "open"]
    decided_at: Time | None
    verdict: Verdict | None
    lead: float
    """In placement score, less the luck in it."""
    low: float
    high: float
    """The interval of the lead, with 95 %, whenever one looks."""
    margin: float
    """The largest difference that is called level."""
    blocks: int
    blocks_to_go: int | None
    """A guess; None if there is none, or a verdict."""
    faults: int
    """Faults of the version in these games."""
    cpu_seconds: float
    state: TaskState
    seed: str
    """Text: `compare --seed` plays the same luck."""
    words: str
    """The line in words."""


class Verdicts(Struct, frozen=True, kw_only=True):
    """The verdicts of a season."""

    season: str
    verdicts: tuple[VerdictLine, ...]


CSV_COLUMNS = VerdictLine.__struct_fields__


def show_verdicts(
    store: Store, season_name: str | None = None, bot: str = "", version: int = 0
) -> Verdicts:
    """The verdicts of a season: of all bots, of one, or of one of its versions."""
    season, wanted = find_season(store, season_name), None
    if bot:
        versions = store.bots.versions(bot)
        wanted = [one.id for one in versions if version in (0, one.number)]
        if not wanted:
            raise NotOnLadder(f"{bot} has the versions 1 to {len(versions)}, not {version}")
    return Verdicts(season=season.name, verdicts=verdict_lines(store, season, wanted))


def verdict_lines(
    store: Store, season: StoredSeason, versions: list[int] | None
) -> tuple[VerdictLine, ...]:
    """The lines of these versions, or of all."""
    closed = season.closed_at is not None
    return tuple(
        verdict_line(one, closed=closed) for one in store.comparisons.listed(season, versions)
    )


def verdict_line(found: StoredComparison, *, closed: bool = False) -> VerdictLine:
    """The line of a comparison; `closed` is whether its season is."""
    now, version = found.standing, found.version
    is_decided = found.state is TaskState.DECIDED
    left = None if closed or found.state.is_final else now.blocks_to_go
    beats: Literal["yes", "no", "open"] = "yes" if now.verdict == "better" else "no"
    return VerdictLine(
        **structs.asdict(structs.replace(now, blocks_to_go=left)),
        author=version.author,
        bot=version.bot,
        version=version.number,
        against=found.against,
        is_panel=bool(found.panel),
        beats=beats if is_decided else "open",
        decided_at=utc_time(found.changed_at) if is_decided else None,
        cpu_seconds=found.cpu_ms / 1000,
        state=found.state,
        seed=found.seed,
        words=_words(found, closed=closed),
    )


def _words(found: StoredComparison, *, closed: bool) -> str:
    now, other = found.standing, found.against
    blocks = "1 block" if now.blocks == 1 else f"{now.blocks:,} blocks"
    figures = (
        f" ({now.lead:+.2f} placement score, 95 %: {now.low:+.2f} to {now.high:+.2f}, {blocks})"
    )
    match now.verdict:
        case "better" | "worse":
            return f"{now.verdict} than {other}{figures}"
        case "level":
            return f"level with {other} within {now.margin:g}{figures}"
    if found.state.is_final:
        left = found.reason
    elif closed:
        left = "the season is closed"
    elif now.blocks_to_go is not None:
        left = f"about {float(f'{now.blocks_to_go:.1e}'):,.0f} blocks to go"
    else:
        left = "it goes on" if now.blocks else "not begun"
    return f"open against {other}: {left}{figures if now.blocks else ''}"
