"""`ladder bot`: everything about one bot in one season."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from deepsea_cli.ladder.options import (
    chosen_season,
    count,
    day,
    number,
    open_store,
    season_option,
    store_option,
)
from deepsea_cli.ladder.standings import columns, ranked
from deepsea_cli.output import print_json, say
from deepsea_cli.text_table import Column, grid
from deepsea_rules.constants import SEAT_LETTERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deepsea_ladder.model import BotVersion, LadderBot, StoredGame, StoredSeason
    from deepsea_ladder.rating.trueskill_fold import Rating
    from deepsea_ladder.standings import HeadToHead, SeatLine

POINTS: Final = 8
"""How many points of a rating's course are shown."""
FAULTY: Final = 10
"""How many games with faults are listed, the newest first,"""
FAULTY_JSON: Final = 100
"""and how many for programs."""


@click.command("bot")
@click.argument("name", metavar="NAME")
@click.option("--version", "version_number", metavar="N", type=int, help="A former version.")
@season_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@store_option
def bot(
    *,
    store_text: str,
    name: str,
    version_number: int | None,
    season_name: str | None,
    as_json: bool,
) -> None:
    """Show the bot NAME: versions, rating and its course, opponents, seats, and its faults."""
    from deepsea_ladder.model import RatedVersion
    from deepsea_ladder.standings import by_seat, head_to_head

    with open_store(store_text) as store:
        season = chosen_season(store, season_name)
        found = store.bots.get(name)
        versions = store.bots.versions(name)
        version = _version(versions, version_number) if version_number else found.current
        entries = {entry.version.id: entry for entry in store.ratings.entries(season)}
        entry: RatedVersion | None = entries.get(version.id)
        lines = ranked(store, season, [entry] if entry else [])
        games = list(store.history.results_of(season, version.id))
        course = store.ratings.course(season, version.id)
        shown = FAULTY_JSON if as_json else FAULTY
        faulty_games, newest = store.history.faulty(season, version.id, shown)
        faults = [_fault(game, version) for game in newest]
    rivals = head_to_head(version.id, games)
    labels = {key: entries[key].version.label for key in rivals}
    seats = by_seat(version.id, games)
    if as_json:
        standing = lines[0]._asdict() if lines else None
        if standing:
            del standing["rank"]  # it has one among others only
        print_json(
            _document(found, versions, season, version, standing, course)
            | {
                "opponents": [
                    {"bot": labels[key], **line._asdict(), "share": line.share}
                    for key, line in rivals.items()
                ],
                "seats": [line._asdict() for line in seats],
                "faulty_games": faulty_games,
                "faults": faults,
            }
        )
        return
    state = f": {found.reason}" if found.reason else ""
    say(f"{found.name} by {found.author} is {found.state}{state}")
    for one in versions:
        say(f"version {one.number} of {day(one.created_at)}, digest {one.digest[:16]}")
    click.echo()
    say(f"version {version.number} in season {season.name}")
    grid([column for column in columns(lines) if column.head not in ("rank", "bot", "author")])
    if not games:
        say("it has not played yet")
        return
    _show_course(course)
    _show_rivals({labels[key]: line for key, line in rivals.items()})
    _show_seats(seats)
    _show_faults(faulty_games, faults)


def _version(versions: Sequence[BotVersion], wanted: int) -> BotVersion:
    from deepsea_ladder.errors import StoreError

    for version in versions:
        if version.number == wanted:
            return version
    raise StoreError(f"{versions[0].bot} has the versions 1 to {len(versions)}, not {wanted}")


def _show_course(course: Sequence[tuple[int, Rating]]) -> None:
    points = _points(len(course))
    click.echo()
    grid(
        [
            Column("after game", [str(point) for point in points]),
            Column("rating", [number(course[point - 1][1].conservative) for point in points]),
            Column("skill", [number(course[point - 1][1].mu) for point in points]),
            Column("±", [number(2 * course[point - 1][1].sigma) for point in points]),
        ]
    )


def _points(games: int) -> list[int]:
    """Some of the games, evenly spread, and the last one."""
    return sorted({max(1, games * step // POINTS) for step in range(1, POINTS + 1)})


def _show_rivals(rivals: dict[str, HeadToHead]) -> None:
    ordered = sorted(rivals.items(), key=lambda item: (-item[1].games, item[0]))
    click.echo()
    grid(
        [
            Column("against", [name for name, _ in ordered], text=True),
            Column("games", [str(line.games) for _, line in ordered]),
            Column("better", [str(line.better) for _, line in ordered]),
            Column("level", [str(line.level) for _, line in ordered]),
            Column("worse", [str(line.worse) for _, line in ordered]),
            Column("share", [f"{100 * line.share:.0f} %" for _, line in ordered]),
        ]
    )


def _show_seats(seats: Sequence[SeatLine]) -> None:
    click.echo()
    grid(
        [
            Column("players", [str(line.players) for line in seats]),
            Column("seat", ["all" if s.seat is None else SEAT_LETTERS[s.seat] for s in seats]),
            Column("games", [str(line.games) for line in seats]),
            Column("wins", [str(line.wins) for line in seats]),
            Column("place", [number(line.mean_placement, 2) for line in seats]),
            Column("points", [number(line.mean_points) for line in seats]),
            Column("faults", [str(line.faults) for line in seats]),
        ]
    )


def _show_faults(faulty_games: int, faults: Sequence[dict[str, Any]]) -> None:
    click.echo()
    if not faults:
        say("no faults")
        return
    newest = f", the newest {len(faults)} of them" if faulty_games > len(faults) else ""
    say(
        f"faults in {count(faulty_games, 'game')}{newest}; `ladder record GAME` has the whole game:"
    )
    for fault in faults:
        end = "; it forfeited" if fault["forfeit"] else ""
        came = f": {fault['came']}" if fault["came"] else ""
        say(
            f"  {fault['game_id']} seat {SEAT_LETTERS[fault['seat']]}, decision "
            f"{fault['decision']}: {fault['fault']}{came}{end}"
        )


def _fault(game: StoredGame, version: BotVersion) -> dict[str, Any]:
    """The first fault of a version in a game in which it had one."""
    from deepsea_rules.record import GameRecord

    (seat,) = (seat for seat, played in enumerate(game.seats) if played.version.id == version.id)
    index, first = next(
        (index, decision)
        for index, decision in enumerate(GameRecord.from_json(game.record).decisions)
        if decision.seat == seat and decision.fault is not None
    )
    result = game.seats[seat].result
    return {
        "game_id": game.game_id,
        "seat": seat,
        "decision": index,
        "fault": str(first.fault),
        "came": first.came,
        "faults": result.faults,
        "forfeit": result.forfeit,
    }


def _document(
    found: LadderBot,
    versions: Sequence[BotVersion],
    season: StoredSeason,
    version: BotVersion,
    standing: dict[str, Any] | None,
    course: Sequence[tuple[int, Rating]],
) -> dict[str, Any]:
    return {
        "bot": found.name,
        "author": found.author,
        "state": str(found.state),
        "reason": found.reason,
        "versions": [
            {"version": one.number, "digest": one.digest, "submitted_at": one.created_at}
            for one in versions
        ],
        "season": season.name,
        "version": version.number,
        "standing": standing,
        "course": [{"seq": seq, "mu": r.mu, "sigma": r.sigma} for seq, r in course],
    }
