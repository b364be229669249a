"""`ladder bot`: everything about one bot in one season."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from deepsea_cli.ladder.options import season_option
from deepsea_cli.ladder.place import Place, place_option
from deepsea_cli.ladder.tables import count, minute, number, percent, standing_columns
from deepsea_cli.output import echo, echo_lines, print_json
from deepsea_cli.plot_file import refuse_plot, write_plot
from deepsea_cli.text_table import Column, grid
from deepsea_rules.ruleset import SEAT_LETTERS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from deepsea_arena.bot_profiles import BotProfile
    from deepsea_arena.reports.bots import CoursePoint, FaultLine

POINTS: Final = 8
"""Points of a rating's history that are shown."""
ERROR_LINES: Final = 12
"""How much of the newest error is shown."""
FAULTY: Final = 10
"""Games with faults that are listed, the newest first; JSON has more."""


@click.command("bot")
@click.argument("name", metavar="NAME")
@click.option("--version", "version_number", metavar="N", type=int, help="A former version.")
@season_option
@click.option(
    "--plot",
    metavar="FILE.svg|FILE.html",
    type=click.Path(path_type=Path),
    help="Draw the rating's course, of all versions, to this file.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@place_option
def bot(
    *,
    place: Place,
    name: str,
    version_number: int | None,
    season_name: str | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Show the bot NAME: versions, rating and its history, opponents, seats, faults."""
    from deepsea_arena.documents import to_json

    if plot is not None:
        refuse_plot(plot)
    with place.opened() as ladder:
        page = ladder.bot(bot=name, version=version_number or 0, season=season_name or "")
    if plot is not None:
        _draw(page, plot)
    if as_json:
        print_json(to_json(page))
    else:
        _show(page)
        if plot is not None:
            echo(f"plots: {plot}")


def _draw(page: BotProfile, plot: Path) -> None:
    from deepsea_web.charts.course import course

    season = page.season
    facts = f"season {season.name}, rules {season.rules!r}, clock {season.clock}"
    write_plot(plot, page.bot, facts, [course(page.bot, page.course)])


def _show(page: BotProfile) -> None:
    state = f": {page.reason}" if page.reason else ""
    echo(f"{page.bot} by {page.author} is {page.state}{state}")
    for one in page.versions:
        echo(f"version {one.version} of {minute(one.submitted_at)}, digest {one.digest[:16]}")
    click.echo()
    echo(f"version {page.version} in season {page.season.name}")
    columns = standing_columns([page.standing] if page.standing else [])
    grid([column for column in columns if column.head not in ("rank", "bot", "author")])
    courses = [one.points for one in page.course if one.version == page.version]
    if not courses:
        echo("it has not played yet")
        return
    _show_course(*courses)
    _show_opponents(page)
    _show_seats(page)
    _show_faults(page)


def _show_course(course: Sequence[CoursePoint]) -> None:
    from deepsea_arena.reports.bots import spread

    points = spread(course, POINTS)
    click.echo()
    grid(
        [
            Column("after game", [str(point.games) for point in points]),
            Column("rating", [number(point.rating) for point in points]),
            Column("skill", [number(point.mu) for point in points]),
            Column("±", [number(2 * point.sigma) for point in points]),
        ]
    )


def _show_opponents(page: BotProfile) -> None:
    lines = page.opponents
    click.echo()
    grid(
        [
            Column("against", [f"{line.bot} v{line.version}" for line in lines], text=True),
            Column("games", [str(line.games) for line in lines]),
            Column("better", [str(line.better) for line in lines]),
            Column("level", [str(line.level) for line in lines]),
            Column("worse", [str(line.worse) for line in lines]),
            Column("share", [percent(line.share) for line in lines]),
        ]
    )


def _show_seats(page: BotProfile) -> None:
    lines = page.seats
    click.echo()
    grid(
        [
            Column("players", [str(line.players) for line in lines]),
            Column("seat", ["all" if s.seat is None else SEAT_LETTERS[s.seat] for s in lines]),
            Column("games", [str(line.games) for line in lines]),
            Column("wins", [str(line.wins) for line in lines]),
            Column("placement", [number(line.mean_placement, 2) for line in lines]),
            Column("points", [number(line.mean_points) for line in lines]),
            Column("faults", [str(line.faults) for line in lines]),
        ]
    )


def _show_faults(page: BotProfile) -> None:
    click.echo()
    if not page.faults:
        echo("no faults")
        return
    shown, games = page.faults[:FAULTY], page.faulty_games
    newest = f", the newest {len(shown)} of them" if games > len(shown) else ""
    echo(f"faults in {count(games, 'game')}{newest}; `ladder record GAME` has the whole game:")
    for fault in shown:
        end = "; it forfeited" if fault.forfeit else ""
        detail = f": {fault.detail}" if fault.detail else ""
        echo(
            f"  {fault.game_id} seat {SEAT_LETTERS[fault.seat]}, decision "
            f"{fault.decision}: {fault.fault}{detail}{end}"
        )
    _show_errors(shown)


def _show_errors(faults: Sequence[FaultLine]) -> None:
    """The error of the newest game with one, and how to see the others."""
    logged = [fault for fault in faults if fault.error is not None]
    if not logged:
        return
    newest = logged[0]
    echo(f"the error in {newest.game_id}; `ladder log GAME` has it with the output of the bot:")
    echo_lines("\n".join((newest.error or "").splitlines()[-ERROR_LINES:]), "    ")
