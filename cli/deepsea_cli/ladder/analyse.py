"""`ladder analyse`: what each decision of a game of the ladder was worth."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import click

from deepsea_arena.play.run_report import RunWatcher
from deepsea_arena.play.shutdown import Stop
from deepsea_cli.errors import NEGATIVE, Interrupted
from deepsea_cli.ladder.options import Place, open_store, place_option
from deepsea_cli.options import needs_linux
from deepsea_cli.output import echo, print_document, print_error
from deepsea_referee.errors import UserError
from deepsea_rules.record import GameRecord

if TYPE_CHECKING:
    from deepsea_arena.coach.ladder_analyses import AnalysisFound
    from deepsea_ladder.model import LadderAnalysis
    from deepsea_ladder.store import Store


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
    from deepsea_arena.coach.ladder_analyses import found_of, plan

    asked = store.analyses.request(game_id, None, plan(), store.settings.limits())
    if wait and not asked.state.is_final:
        needs_linux("ladder analyse --wait with a ladder here")
        from deepsea_arena.play.background_work import do_now
        from deepsea_arena.play.handlers import ANALYSES

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
        from deepsea_arena.coach.document import read_analysis
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
