"""Results of a ladder: standings, bots, games, records, logs; and bots taken out or back in.

JSON and CSV have the numbers without rounding.

`ladder analyse`: what each decision of a game of the ladder was worth.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deepsea_arena.run_report import RunWatcher, Stop
from deepsea_cli.errors import NEGATIVE, Interrupted
from deepsea_cli.ladder.options import (
    Place,
    open_store,
    place_option,
    season_option,
    store_option,
)
from deepsea_cli.options import SEAT, needs_linux, number_option
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
    from deepsea_ladder.store import Store


POINTS = 8
"""Points of a rating's history that are shown."""
ERROR_LINES = 12
"""How much of the newest error is shown."""
FAULTY = 10
"""Games with faults that are listed, the newest first; JSON has more."""


@click.command("standings")
@season_option
@click.option(
    "--all", "everybody", is_flag=True, help="Include former versions, and bots taken out."
)
@click.option("--best-of-author", is_flag=True, help="Only the best bot of each author.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@place_option
def standings(
    *,
    place: Place,
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

    with place.opened() as ladder:
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
    with place.opened() as ladder:
        page = ladder.bot(bot=name, version=version_number or 0, season=season_name or "")
    if plot is not None:
        _draw(page, plot)
    if as_json:
        print_document(page)
    else:
        _show(page)
        if plot is not None:
            echo(f"plots: {plot}")


def _draw(page: BotProfile, plot: Path) -> None:
    from deepsea_web.plots import course

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
    for line in page.verdicts:
        echo(line.words)
    columns = standing_columns([page.standing] if page.standing else [])
    grid(*(column for column in columns if column.head not in ("rank", "bot", "author")))
    courses = [one.points for one in page.course if one.version == page.version]
    if not courses:
        echo("it has not played yet")
        return
    from deepsea_arena.bots import spread
    from deepsea_ladder.rating import Rating

    points = spread(courses[0], POINTS)
    click.echo()
    grid(
        Column("after game", [str(point.games) for point in points]),
        Column("rating", [number(point.rating) for point in points]),
        Column("skill", [number(point.mu) for point in points]),
        Column("±", [number(Rating(point.mu, point.sigma).margin) for point in points]),
    )
    lines = page.opponents
    click.echo()
    grid(
        Column("against", [f"{line.bot} v{line.version}" for line in lines], text=True),
        Column("games", [str(line.games) for line in lines]),
        Column("better", [str(line.better) for line in lines]),
        Column("level", [str(line.level) for line in lines]),
        Column("worse", [str(line.worse) for line in lines]),
        Column("share", [percent(line.share) for line in lines]),
    )
    if page.opponents_of > len(lines):
        echo(f"these are the {len(lines)} that it met most often, of {page.opponents_of}")
    seats = page.seats
    click.echo()
    grid(
        Column("players", [str(one.players) for one in seats]),
        Column("seat", ["all" if s.seat is None else SEAT_LETTERS[s.seat] for s in seats]),
        Column("games", [str(one.games) for one in seats]),
        Column("wins", [str(one.wins) for one in seats]),
        Column("placement", [number(one.mean_placement, 2) for one in seats]),
        Column("points", [number(one.mean_points) for one in seats]),
        Column("faults", [str(one.faults) for one in seats]),
    )
    click.echo()
    _show_faults(page)


def _show_faults(page: BotProfile) -> None:
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
    for fault in shown:
        if fault.error is not None:  # that of the newest one
            where = f"the error in {fault.game_id}; `ladder log GAME` has it with the output"
            echo(f"{where} of the bot:")
            echo_lines("\n".join(fault.error.splitlines()[-ERROR_LINES:]), "    ")
            return


@click.command("verdicts")
@click.argument("name", metavar="[BOT]", required=False)
@season_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@place_option
def verdicts(
    *, place: Place, name: str | None, season_name: str | None, as_json: bool, as_csv: bool
) -> None:
    """Say how each version does against its former one and against the season's panel.

    They play on the same luck, in games that are not rated; runners begin by themselves.
    """
    if as_json and as_csv:
        raise UserError("--json and --csv exclude each other")
    from deepsea_arena.bots import VERDICT_COLUMNS
    from deepsea_arena.documents import csv_lines, to_json, to_object

    with place.opened() as ladder:
        page = ladder.verdicts(bot=name or "", season=season_name or "")
    if as_json:
        print_json(to_json(page))
    elif as_csv:
        for text in csv_lines(map(to_object, page.verdicts), VERDICT_COLUMNS):
            click.echo(text, nl=False)
    else:
        for line in page.verdicts:
            echo(f"{line.bot} v{line.version} of {line.author}: {line.words}")
        if not page.verdicts:
            echo(f"season {page.season}: nothing is compared yet")


@click.command("withdraw")
@click.argument("name", metavar="NAME")
@click.option("--reason", metavar="TEXT", help="The reason that is shown.")
@place_option
def withdraw(*, place: Place, name: str, reason: str | None) -> None:
    """Schedule no more games for the bot NAME, for its author.

    Its games and rating stay. Games that are being played are finished.
    """
    place.refuse_options(reason=reason)
    if place.remote is not None:
        with place.opened(own=True) as ladder:
            gone = ladder.withdraw(bot=name)
        echo(f"{gone.bot} is {gone.state}: {gone.reason}")
        return
    with open_store(place.store_text) as store:
        bot = store.bots.withdraw(name, reason or "withdrawn by its author", MACHINE)
    echo(f"{bot.name} is {bot.state}: {bot.reason}")


@click.command("disable")
@click.argument("name", metavar="NAME")
@click.option("--reason", metavar="TEXT", default="", help="The reason, for its author.")
@click.option("--undo", is_flag=True, help="Schedule games for it again.")
@place_option
def disable(*, place: Place, name: str, reason: str, undo: bool) -> None:
    """Schedule no more games for the bot NAME, for the ladder's operator.

    Its author cannot change that, and submits no more versions of it. With --undo games are
    scheduled again, also for a bot that its author withdrew or that was suspended for its faults;
    its count of failures is reset.
    """
    if undo is (reason != ""):
        raise UserError("--reason and --undo exclude each other" if undo else "say why: --reason")
    state = "active" if undo else "disabled"
    with place.opened(own=True) as ladder:
        bot = ladder.set_bot_state(bot=name, state=state, reason=reason)
    now = f"active with version {bot.version}" if undo else f"disabled: {bot.reason}"
    echo(f"{bot.bot} is {now}")


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
@place_option
def games(
    *,
    place: Place,
    season: str,
    bot: str,
    against: str,
    faults: bool,
    lost: bool,
    limit: int,
    as_json: bool,
) -> None:
    """List the newest games, newest first, with placements and points."""
    with place.opened() as ladder:
        ask = partial(ladder.games, season=season, bot=bot, against=against)
        page = _newest(partial(ask, faults=faults, lost=lost), limit)
    if as_json:
        print_document(page)
        return
    grid(
        Column("game", [game.game_id for game in page.games]),
        Column("played", [minute(game.played_at) for game in page.games], spare=1),
        Column("result", [_result(game) for game in page.games], text=True),
    )


def _newest(ask: Callable[..., GamesPage], limit: int) -> GamesPage:
    """The newest games, asked for page by page."""
    from msgspec import structs

    from deepsea_arena.games import MOST_GAMES

    page = ask(limit=min(limit, MOST_GAMES))
    while page.older is not None and len(page.games) < limit:
        more = ask(limit=min(MOST_GAMES, limit - len(page.games)), before=page.older)
        page = structs.replace(more, games=page.games + more.games)
    return page


def _result(game: GameLine) -> str:
    """The placements of a game, the best first; `!` marks forfeits."""
    seats = game.by_placement()
    several = len({seat.bot for seat in seats}) < len(seats)  # versions of a bot
    return ", ".join(
        f"{seat.placement} {seat.bot}{f' v{seat.version}' if several else ''} "
        f"{seat.points}{'!' if seat.forfeit else ''}"
        for seat in seats
    )


@click.command("record")
@click.argument("game_id", metavar="GAME")
@place_option
def record(*, place: Place, game_id: str) -> None:
    """Print the record of GAME, to be shown and verified like any other."""
    with place.opened() as ladder:
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

    with open_store(store_text) as store:
        for line in (csv_lines if as_csv else json_lines)(store, season_name):
            click.echo(line, nl=False)


@click.command("log")
@click.argument("game_id", metavar="GAME")
@click.option("--seat", metavar="A", type=SEAT, show_default="all", help="One seat.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@place_option
@click.pass_context
def log(ctx: click.Context, *, place: Place, game_id: str, seat: str | None, as_json: bool) -> None:
    """Print what bots left of GAME: faults and last output of those at fault, and all notes.

    Of each bot the newest 20 games with faults are kept, and the newest 100 others with notes.

    Exit status: 0 printed, 1 nothing is kept of that game or seat.
    """
    with place.opened() as ladder:
        logs = ladder.log(game_id=game_id)
    shown = [one for one in logs if seat in (None, SEAT_LETTERS[one.seat])]
    if as_json:
        print_document({"logs": shown})
    elif not shown:
        where = f" for seat {seat}" if seat else ""
        echo(
            f"nothing of game {game_id} is kept{where}: no fault and no note there, or an older one"
        )
    else:
        for one in shown:
            _show_log(one)
    if not shown:
        ctx.exit(NEGATIVE)


def _show_log(log: SeatLog) -> None:
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
@place_option
@click.pass_context
def analyse(
    ctx: click.Context, *, game_id: str, wait: bool, show_all: bool, as_json: bool, place: Place
) -> None:
    """Ask for the analysis of GAME, or print what was found.

    It is that of `deepsea-referee analyse --luck`, made once and kept for everybody: `ladder run`
    and `ladder serve` make those that wait, while games leave CPU time for it.

    Exit status: 0 asked for or printed, 1 it could not be made.
    """
    if place.remote is not None:
        found, record = _from_afar(place, game_id, wait=wait)
    else:
        with open_store(place.store_text) as store:
            found, record = _here(store, game_id, wait=wait), store.games.record(game_id)
    if as_json:
        document = json.loads(found.document) if found.document else None
        print_document({"done": found.done, "last": found.last, "document": document})
    else:
        _print(found, game_id, record, show_all=show_all)
    if found.last is not None and found.last.state == "failed":
        ctx.exit(NEGATIVE)


def _here(store: Store, game_id: str, *, wait: bool) -> AnalysisFound:
    from deepsea_arena.ladder_analyses import found_of, plan

    asked = store.analyses.request(game_id, None, plan(), store.settings.limits())
    if wait and not asked.state.is_final:
        needs_linux("ladder analyse --wait with a ladder here")
        from deepsea_arena.background_work import do_now
        from deepsea_arena.handlers import ANALYSES

        with closing(Stop()) as stop:
            ended = do_now(ANALYSES, store, asked.id, _Said(), stop)
        if not ended:
            raise Interrupted("; the analysis waits for `ladder run`")
    return found_of(store, game_id)


class _Said(RunWatcher):
    """Says what goes wrong while an analysis is made."""

    def trouble(self, message: str) -> None:
        print_error(message)


def _from_afar(place: Place, game_id: str, *, wait: bool) -> tuple[AnalysisFound, str]:
    with place.opened() as ladder:
        if ladder.analysis(game_id=game_id).may_be_asked:
            with place.opened(own=True) as own:  # only this needs a token
                own.request_analysis(game_id=game_id)
        if wait:
            for step in filter(None, ladder.watch_analysis(game_id=game_id)):
                ahead = f", {step.ahead} before it" if step.ahead else ""
                place.note(f"analysis of {game_id}: {step.state}{ahead}")
        return ladder.analysis(game_id=game_id), ladder.record(game_id=game_id)


def _print(found: AnalysisFound, game_id: str, record: str, *, show_all: bool) -> None:
    if found.document:
        from deepsea_arena.analysis_document import read_analysis
        from deepsea_arena.documents import DocumentError
        from deepsea_cli.analysis_report import report_game

        try:
            document = read_analysis(found.document)
            analysis = document.analysis(GameRecord.from_json(record))
        except DocumentError as error:
            raise UserError(f"the analysis of {game_id} cannot be read: {error}") from None
        report_game(analysis, document.settings, show_all=show_all, policy=document.policy)
    last = found.last
    if last is not None and last.state != "done":
        if found.document:
            click.echo()
        echo(f"analysis of {game_id}: {_words(last)}")


def _words(last: LadderAnalysis) -> str:
    """How far an analysis is that has no result."""
    if last.state == "queued":
        return f"queued, {last.ahead} before it" if last.ahead else "queued, it is next"
    return f"{last.state}: {last.reason}" if last.state == "failed" else str(last.state)
