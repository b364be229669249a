"""Commands about a ladder's results: standings, bots, games, records, logs and analyses.

`withdraw` and `disable`, which take a bot out, are here, too. JSON and CSV have the numbers without
rounding.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deepsea_arena.run_report import RunWatcher, Stop
from deepsea_cli.errors import NEGATIVE, Interrupted
from deepsea_cli.ladder.options import (
    Location,
    location_option,
    open_store,
    season_option,
    store_option,
)
from deepsea_cli.options import SEAT, number_option, require_linux
from deepsea_cli.output import (
    Column,
    count,
    echo,
    echo_lines,
    grid,
    minute,
    number,
    percent,
    print_document,
    print_error,
    print_json,
    print_table,
    standing_columns,
)
from deepsea_cli.pages import plot_option, write_plot
from deepsea_ladder.accounts import MACHINE
from deepsea_referee.errors import UserError
from deepsea_rules.game import GameRecord
from deepsea_rules.ruleset import SEAT_LETTERS

if TYPE_CHECKING:
    from deepsea_arena.bots import BotProfile
    from deepsea_arena.games import GamesPage
    from deepsea_arena.ladder_analyses import AnalysisFound
    from deepsea_ladder.model import GameLine, LadderAnalysis, SeatLog
    from deepsea_ladder.standings import CoursePoint
    from deepsea_ladder.store import Store


POINTS = 8
"""Number of points of a rating's history in its table."""
ERROR_LINES = 12
"""Number of lines of the newest error that are printed, its last ones."""
FAULTY = 10
"""Number of games with faults in the list, the newest first; JSON has more."""


@click.command("standings")
@season_option
@click.option(
    "--all", "everybody", is_flag=True, help="Include former versions, and bots taken out."
)
@click.option("--best-of-author", is_flag=True, help="Only the best bot of each author.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@location_option
def standings(
    *,
    location: Location,
    season_name: str | None,
    everybody: bool,
    best_of_author: bool,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Show the standings of a season, sorted by mu - 3 sigma."""
    if as_json and as_csv:
        raise UserError("--json and --csv exclude each other")
    from deepsea_arena.documents import csv_lines
    from deepsea_arena.standings import CSV_COLUMNS, csv_rows

    with location.open_ladder() as ladder:
        page = ladder.standings(
            season=season_name or "", everybody=everybody, best_of_author=best_of_author
        )
    if as_json:
        print_document(page)
    elif as_csv:
        for line in csv_lines(csv_rows(page), CSV_COLUMNS):
            click.echo(line, nl=False)
    else:
        print_table(page)


@click.command("bot")
@click.argument("name", metavar="NAME")
@number_option("--version", "version_number", show_default="the newest", help="This version.")
@season_option
@plot_option("the rating's course, of all versions,")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@location_option
def bot(
    *,
    location: Location,
    name: str,
    version_number: int | None,
    season_name: str | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Show the bot NAME: versions, rating and its history, opponents, seats, faults."""
    with location.open_ladder() as ladder:
        page = ladder.bot(bot=name, version=version_number or 0, season=season_name or "")
    if plot is not None:
        _write_plot(page, plot)
    if as_json:
        print_document(page)
    else:
        _print_profile(page)
        if plot is not None:
            echo(f"plots: {plot}")


def _write_plot(page: BotProfile, file: Path) -> None:
    """Draw the rating history of a bot, and write it to a file."""
    from deepsea_web.plots import course

    season = page.season
    facts = f"season {season.name}, rules {season.rules!r}, clock {season.clock}"
    write_plot(file, page.bot, facts, [course(page.bot, page.course)])


def _print_profile(page: BotProfile) -> None:
    """Print everything about a bot: its state, and how its version does in the season."""
    reason = f": {page.reason}" if page.reason else ""
    echo(f"{page.bot} by {page.author} is {page.state}{reason}")
    for line in page.versions:
        echo(f"version {line.version} of {minute(line.submitted_at)}, digest {line.digest[:16]}")
    click.echo()
    echo(f"version {page.version} in season {page.season.name}")
    for verdict in page.verdicts:
        echo(verdict.words)
    # The bot and its author are named above, and a rank says little without the other bots.
    columns = standing_columns([page.standing] if page.standing else [])
    grid(*(column for column in columns if column.head not in ("rank", "bot", "author")))
    rating_histories = {line.version: line.points for line in page.course}
    if page.version not in rating_histories:
        echo("it has not played yet")
        return
    click.echo()
    _print_history(rating_histories[page.version])
    click.echo()
    _print_opponents(page)
    click.echo()
    _print_seats(page)
    click.echo()
    _print_faults(page)


def _print_history(history: Sequence[CoursePoint]) -> None:
    """Print a table of a bot's rating in the course of its games.

    history  the rating after each game; a few points are printed, evenly spread over the games
    """
    from deepsea_arena.bots import evenly_spaced
    from deepsea_ladder.rating import Rating

    points = evenly_spaced(history, POINTS)
    grid(
        Column("after game", [str(point.games) for point in points]),
        Column("rating", [number(point.rating) for point in points]),
        Column("skill", [number(point.mu) for point in points]),
        Column("±", [number(Rating(point.mu, point.sigma).margin) for point in points]),
    )


def _print_opponents(page: BotProfile) -> None:
    """Print the bot's results against the opponents that it met most often."""
    opponents = page.opponents
    grid(
        Column("against", [f"{other.bot} v{other.version}" for other in opponents], text=True),
        Column("games", [str(other.games) for other in opponents]),
        Column("better", [str(other.better) for other in opponents]),
        Column("level", [str(other.level) for other in opponents]),
        Column("worse", [str(other.worse) for other in opponents]),
        Column("share", [percent(other.share) for other in opponents]),
    )
    if page.opponents_of > len(opponents):
        echo(f"these are the {len(opponents)} that it met most often, of {page.opponents_of}")


def _print_seats(page: BotProfile) -> None:
    """Print the bot's results in each seat, by the number of players; "all" are all seats."""
    lines = page.seats
    letters = ["all" if line.seat is None else SEAT_LETTERS[line.seat] for line in lines]
    grid(
        Column("players", [str(line.players) for line in lines]),
        Column("seat", letters),
        Column("games", [str(line.games) for line in lines]),
        Column("wins", [str(line.wins) for line in lines]),
        Column("placement", [number(line.mean_placement, 2) for line in lines]),
        Column("points", [number(line.mean_points) for line in lines]),
        Column("faults", [str(line.faults) for line in lines]),
    )


def _print_faults(page: BotProfile) -> None:
    """Print the bot's newest faults, and the end of the newest error that its own code raised."""
    if not page.faults:
        echo("no faults")
        return
    newest_faults, games = page.faults[:FAULTY], page.faulty_games
    part = f", the newest {len(newest_faults)} of them" if games > len(newest_faults) else ""
    echo(f"faults in {count(games, 'game')}{part}; `ladder record GAME` has the whole game:")
    for fault in newest_faults:
        seat = SEAT_LETTERS[fault.seat]
        detail = f": {fault.detail}" if fault.detail else ""
        forfeit = "; it forfeited" if fault.forfeit else ""
        echo(
            f"  {fault.game_id} seat {seat}, decision {fault.decision}: "
            f"{fault.fault}{detail}{forfeit}"
        )
    for fault in newest_faults:
        if fault.error is not None:
            game_id = fault.game_id
            echo(f"the error in {game_id}; `ladder log GAME` has it with the output of the bot:")
            last_lines = fault.error.splitlines()[-ERROR_LINES:]
            echo_lines("\n".join(last_lines), "    ")
            return


@click.command("verdicts")
@click.argument("name", metavar="[BOT]", required=False)
@season_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@location_option
def verdicts(
    *,
    location: Location,
    name: str | None,
    season_name: str | None,
    as_json: bool,
    as_csv: bool,
) -> None:
    """Say how each version does against its former one and against the season's panel.

    They play on the same luck, in games that are not rated; runners begin by themselves.
    """
    if as_json and as_csv:
        raise UserError("--json and --csv exclude each other")
    from deepsea_arena.bots import VERDICT_COLUMNS
    from deepsea_arena.documents import csv_lines, to_json, to_object

    with location.open_ladder() as ladder:
        page = ladder.verdicts(bot=name or "", season=season_name or "")
    if as_json:
        print_json(to_json(page))
    elif as_csv:
        for text in csv_lines(map(to_object, page.verdicts), VERDICT_COLUMNS):
            click.echo(text, nl=False)
    else:
        for verdict in page.verdicts:
            echo(f"{verdict.bot} v{verdict.version} of {verdict.author}: {verdict.words}")
        if not page.verdicts:
            echo(f"season {page.season}: nothing is compared yet")


@click.command("withdraw")
@click.argument("name", metavar="NAME")
@click.option("--reason", metavar="TEXT", help="The reason that is shown.")
@location_option
def withdraw(*, location: Location, name: str, reason: str | None) -> None:
    """Schedule no more games for the bot NAME, for its author.

    Its games and rating stay. Games that are being played are finished.
    """
    location.refuse_options(reason=reason)
    if location.remote is not None:
        # The ladder itself gives the reason, and checks that the user is the author.
        with location.open_ladder(needs_token=True) as ladder:
            withdrawn = ladder.withdraw(bot=name)
        echo(f"{withdrawn.bot} is {withdrawn.state}: {withdrawn.reason}")
        return
    with open_store(location.store_text) as store:
        bot = store.bots.withdraw(name, reason or "withdrawn by its author", MACHINE)
    echo(f"{bot.name} is {bot.state}: {bot.reason}")


@click.command("disable")
@click.argument("name", metavar="NAME")
@click.option("--reason", metavar="TEXT", default="", help="The reason, for its author.")
@click.option("--undo", is_flag=True, help="Schedule games for it again.")
@location_option
def disable(*, location: Location, name: str, reason: str, undo: bool) -> None:
    """Schedule no more games for the bot NAME, for the ladder's operator.

    Its author cannot change that, and submits no more versions of it. With --undo games are
    scheduled again, also for a bot that its author withdrew or that was suspended for its faults;
    its count of failures is reset.
    """
    if undo and reason:
        raise UserError("--reason and --undo exclude each other")
    if not undo and not reason:
        raise UserError("say why: --reason")
    state = "active" if undo else "disabled"
    with location.open_ladder(needs_token=True) as ladder:
        bot = ladder.set_bot_state(bot=name, state=state, reason=reason)
    if undo:
        echo(f"{bot.bot} is active with version {bot.version}")
    else:
        echo(f"{bot.bot} is disabled: {bot.reason}")


@click.command("games")
@click.option(
    "--season", metavar="NAME", default="", show_default="all", help="Games of one season."
)
@click.option("--bot", metavar="NAME", default="", show_default="all", help="Games of this bot.")
@click.option("--against", metavar="NAME", default="", help="Games of the bot with this one.")
@click.option("--faults", is_flag=True, help="Games in which the bot, or any, had a fault.")
@click.option(
    "--lost",
    is_flag=True,
    help="Games in which the bot was not first, or behind that of --against.",
)
@number_option("--limit", most=1_000_000, default=20, help="Number of games.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@location_option
def games(
    *,
    location: Location,
    season: str,
    bot: str,
    against: str,
    faults: bool,
    lost: bool,
    limit: int,
    as_json: bool,
) -> None:
    """List the newest games, newest first, with placements and points."""
    with location.open_ladder() as ladder:
        read_page = partial(
            ladder.games, season=season, bot=bot, against=against, faults=faults, lost=lost
        )
        page = _read_newest(read_page, limit)
    if as_json:
        print_document(page)
        return
    grid(
        Column("game", [game.game_id for game in page.games]),
        Column("played", [minute(game.played_at) for game in page.games], spare=1),
        Column("result", [_result(game) for game in page.games], text=True),
    )


def _read_newest(read_page: Callable[..., GamesPage], limit: int) -> GamesPage:
    """Return the newest games of a ladder, at most `limit`, as one page.

    It is joined from as many pages as it takes. Its field `older` says where older games begin, and
    is None if there are none.

    read_page  reads a page: at most `limit` games that are older than `before`, a field `older`
    """
    from msgspec import structs

    from deepsea_arena.games import MOST_GAMES

    joined = read_page(limit=min(limit, MOST_GAMES))
    while joined.older is not None and len(joined.games) < limit:
        missing = limit - len(joined.games)
        page = read_page(limit=min(missing, MOST_GAMES), before=joined.older)
        joined = structs.replace(page, games=joined.games + page.games)
    return joined


def _result(game: GameLine) -> str:
    """Return the result of a game: placement, bot and points of each seat, the best first.

    `!` marks a seat that was forfeited. Bots have their version if one plays in several versions.
    """
    seats = game.by_placement()
    has_versions = len({seat.bot for seat in seats}) < len(seats)
    parts: list[str] = []
    for seat in seats:
        version = f" v{seat.version}" if has_versions else ""
        forfeit = "!" if seat.forfeit else ""
        parts.append(f"{seat.placement} {seat.bot}{version} {seat.points}{forfeit}")
    return ", ".join(parts)


@click.command("record")
@click.argument("game_id", metavar="GAME")
@location_option
def record(*, location: Location, game_id: str) -> None:
    """Print the record of GAME, to be shown and verified like any other."""
    with location.open_ladder() as ladder:
        click.echo(ladder.record(game_id=game_id), nl=False)


@click.command("export")
@click.option(
    "--season", "season_name", metavar="NAME", show_default="all", help="Games of one season."
)
@click.option("--csv", "as_csv", is_flag=True, help="A line for each seat, not JSON for each game.")
@store_option
def export(*, store_text: str, season_name: str | None, as_csv: bool) -> None:
    """Print every game of all seasons, or of one, as JSON Lines; docs/ladder.md has the keys."""
    from deepsea_arena.games import csv_lines, json_lines

    lines_of_games = csv_lines if as_csv else json_lines
    with open_store(store_text) as store:
        for line in lines_of_games(store, season_name):
            click.echo(line, nl=False)


@click.command("log")
@click.argument("game_id", metavar="GAME")
@click.option("--seat", metavar="A", type=SEAT, show_default="all", help="One seat.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@location_option
@click.pass_context
def log(
    ctx: click.Context, *, location: Location, game_id: str, seat: str | None, as_json: bool
) -> None:
    """Print what bots left of GAME: faults and last output of those at fault, and all notes.

    Of each bot the newest 20 games with faults are kept, and the newest 100 others with notes.

    Exit status: 0 printed, 1 nothing is kept of that game or seat.
    """
    with location.open_ladder() as ladder:
        all_logs = ladder.log(game_id=game_id)
    logs = [log for log in all_logs if seat is None or SEAT_LETTERS[log.seat] == seat]
    if as_json:
        print_document({"logs": logs})
    elif logs:
        for log_of_seat in logs:
            _print_log(log_of_seat)
    else:
        where = f" for seat {seat}" if seat else ""
        echo(
            f"nothing of game {game_id} is kept{where}: no fault and no note there, or an older one"
        )
    if not logs:
        ctx.exit(NEGATIVE)


def _print_log(log: SeatLog) -> None:
    """Print the error, the output and the notes that a bot left of a game in one seat."""
    from deepsea_sdk.bot import Note

    echo(f"seat {SEAT_LETTERS[log.seat]}, {log.bot}:")
    if log.error:
        echo_lines(log.error, "  ")
        echo_lines(log.output or "(it printed nothing)", "  ")
    for note in log.notes:
        echo(f"  decision {note.decision}: {Note(note.text, note.numbers).line()}")


@click.command("analyse")
@click.argument("game_id", metavar="GAME")
@click.option("--wait", is_flag=True, help="Wait until it is done; a ladder here does it at once.")
@click.option("--all", "show_all", is_flag=True, help="Show every decision, not only marked ones.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@location_option
@click.pass_context
def analyse(
    ctx: click.Context,
    *,
    game_id: str,
    wait: bool,
    show_all: bool,
    as_json: bool,
    location: Location,
) -> None:
    """Ask for the analysis of GAME, or print what was found.

    It is that of `deepsea-referee analyse --luck`, made once and kept for everybody: `ladder run`
    and `ladder serve` make those that wait, while games leave CPU time for it.

    Exit status: 0 asked for or printed, 1 it could not be made.
    """
    if location.remote is not None:
        analyses, record = _analyse_remotely(location, game_id, wait=wait)
    else:
        with open_store(location.store_text) as store:
            analyses = _analyse_here(store, game_id, wait=wait)
            record = store.games.record(game_id)
    if as_json:
        newest_result = json.loads(analyses.document) if analyses.document else None
        print_document({"done": analyses.done, "last": analyses.last, "document": newest_result})
    else:
        _print_analyses(analyses, game_id, record, show_all=show_all)
    if analyses.last is not None and analyses.last.state == "failed":
        ctx.exit(NEGATIVE)


def _analyse_here(store: Store, game_id: str, *, wait: bool) -> AnalysisFound:
    """Request the analysis of a game of a ladder on this machine; return the game's analyses.

    Without `wait` a run of the ladder makes it later. With `wait` it is made at once, before others
    that were requested earlier. Raises Interrupted if the user stops that.
    """
    from deepsea_arena.ladder_analyses import analyses_and_document, plan

    requested = store.analyses.request(game_id, None, plan(), store.settings.limits())
    if wait and not requested.state.is_final:
        _make_analysis_now(store, requested.id)
    return analyses_and_document(store, game_id)


def _make_analysis_now(store: Store, analysis_id: int) -> None:
    """Make a requested analysis on this machine; raises Interrupted if the user stops it."""
    require_linux("ladder analyse --wait with a ladder here")
    from deepsea_arena.background_work import do_now
    from deepsea_arena.handlers import ANALYSES

    with closing(Stop()) as stop:
        has_ended = do_now(ANALYSES, store, analysis_id, _ProblemPrinter(), stop)
    if not has_ended:
        raise Interrupted("; the analysis waits for `ladder run`")


class _ProblemPrinter(RunWatcher):
    """Prints problems to stderr while an analysis is made."""

    def trouble(self, message: str) -> None:
        print_error(message)


def _analyse_remotely(location: Location, game_id: str, *, wait: bool) -> tuple[AnalysisFound, str]:
    """Request the analysis of a game at a ladder on another machine.

    Return the game's analyses and its record. With `wait` the analysis has a result then, or it has
    failed. A login is needed only if the analysis has not been requested yet: everybody may read.
    """
    with location.open_ladder() as ladder:
        if ladder.analysis(game_id=game_id).may_be_asked:
            with location.open_ladder(needs_token=True) as ladder_with_token:
                ladder_with_token.request_analysis(game_id=game_id)
        if wait:
            # The stream ends with the analysis; None only shows that the ladder is still there.
            for step in ladder.watch_analysis(game_id=game_id):
                if step is not None:
                    ahead = f", {step.ahead} before it" if step.ahead else ""
                    location.note(f"analysis of {game_id}: {step.state}{ahead}")
        return ladder.analysis(game_id=game_id), ladder.record(game_id=game_id)


def _print_analyses(analyses: AnalysisFound, game_id: str, record: str, *, show_all: bool) -> None:
    """Print the newest result of a game's analyses, and the state of one that has no result yet.

    record    record of the game, as JSON
    show_all  True to print every decision, not only marked ones
    """
    if analyses.document:
        _print_result(analyses.document, game_id, record, show_all=show_all)
    last = analyses.last
    if last is not None and last.state != "done":
        if analyses.document:
            click.echo()
        echo(f"analysis of {game_id}: {_progress_words(last)}")


def _print_result(document: str, game_id: str, record: str, *, show_all: bool) -> None:
    """Print the result of an analysis of a game, as `deepsea-referee analyse` does.

    document  the result as the ladder has it, as JSON
    record    record of the game, as JSON
    show_all  True to print every decision, not only marked ones
    """
    from deepsea_arena.analysis_document import read_analysis
    from deepsea_arena.documents import DocumentError
    from deepsea_cli.analysis_report import report_game

    try:
        result = read_analysis(document)
        game_analysis = result.analysis(GameRecord.from_json(record))
    except DocumentError as error:
        raise UserError(f"the analysis of {game_id} cannot be read: {error}") from None
    report_game(game_analysis, result.settings, show_all=show_all, policy=result.policy)


def _progress_words(analysis: LadderAnalysis) -> str:
    """Return how far an analysis without a result has come, in words."""
    if analysis.state == "queued":
        return f"queued, {analysis.ahead} before it" if analysis.ahead else "queued, it is next"
    if analysis.state == "failed":
        return f"failed: {analysis.reason}"
    return str(analysis.state)
