"""`ladder status` and `requeue`: how the ladder works at the moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from deepsea_cli.ladder.options import count, day, open_store, store_option
from deepsea_cli.output import print_json, say

if TYPE_CHECKING:
    from deepsea_ladder.model import JobInfo, StoredSeason
    from deepsea_ladder.store import Store

LATELY: Final = 100
"""Over how many games the rate of games is counted."""
LISTED: Final = 10


@click.command("status")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@store_option
def status(*, store_text: str, as_json: bool) -> None:
    """Show each season's queue and leases, the rate of games, and what somebody should look at."""
    from deepsea_ladder.model import BotState

    with open_store(store_text) as store:
        where = str(store.database)
        seasons = [_season(store, season) for season in store.seasons.all()]
        bots = store.bots.all()
        audit = store.audit.latest(LISTED)
    out = [bot for bot in bots if bot.state is not BotState.ACTIVE]
    if as_json:
        print_json(
            {
                "store": where,
                "bots": len(bots),
                "taken_out": [
                    {"bot": bot.name, "state": str(bot.state), "reason": bot.reason} for bot in out
                ],
                "seasons": seasons,
                "audit": [entry._asdict() for entry in audit],
            }
        )
        return
    say(f"{where}: {count(len(bots), 'bot')}, {count(len(out), 'bot')} taken out")
    for bot in out:
        say(f"  {bot.name} is {bot.state}: {bot.reason}")
    for season in seasons:
        _show(season)
    click.echo()
    say("lately:")
    for entry in audit:
        say(f"  {day(entry.at)} {entry.kind} {entry.subject}: {entry.note}")


def _season(store: Store, season: StoredSeason) -> dict[str, Any]:
    from deepsea_ladder.model import JobStatus

    counts = store.queue.counts(season)
    latest = store.history.latest(LATELY, season)
    span = latest[0].played_at - latest[-1].played_at if latest else 0
    return {
        "season": season.name,
        "closed": season.closed_at is not None,
        "waiting": counts.todo,
        "leased": counts.leased,
        "expired": counts.expired,
        "done": counts.done,
        "cancelled": counts.cancelled,
        "oldest_wait_ms": counts.oldest_wait_ms,
        "games_per_second": (len(latest) - 1) * 1000 / span if span else None,
        "last_game_at": latest[0].played_at if latest else None,
        "leases": [_job(job) for job in store.queue.listed(season, JobStatus.LEASED)],
        "quarantined": [_job(job) for job in store.queue.listed(season, JobStatus.QUARANTINED)],
    }


def _job(job: JobInfo) -> dict[str, Any]:
    return {
        "game_id": job.game_id,
        "lineup": list(job.lineup),
        "attempt": job.attempt,
        "failures": job.failures,
        "owner": job.owner,
        "note": job.note,
    }


def _show(season: dict[str, Any]) -> None:
    click.echo()
    closed = ", closed" if season["closed"] else ""
    rate = season["games_per_second"]
    say(f"season {season['season']}{closed}: {count(season['done'], 'game')} played")
    if rate is not None:
        say(f"  {rate:.2g} games a second lately, the last at {day(season['last_game_at'])}")
    say(
        f"  waiting {season['waiting']}, the oldest for {season['oldest_wait_ms'] / 1000:.0f} s; "
        f"leased {season['leased']}, run out {season['expired']}, cancelled {season['cancelled']}"
    )
    for job in season["leases"][:LISTED]:
        say(f"  {job['game_id']} is played by {job['owner']}, attempt {job['attempt']}")
    if stuck := season["quarantined"]:
        say(f"  {count(len(stuck), 'game')} set aside; `ladder requeue GAME` tries one again:")
        for job in stuck[:LISTED]:
            say(f"  {job['game_id']} {job['note']}")


@click.command("requeue")
@click.argument("game_id", metavar="GAME")
@store_option
def requeue(*, store_text: str, game_id: str) -> None:
    """Let GAME wait again; it was set aside because it failed too often."""
    with open_store(store_text) as store:
        state = store.jobs.requeue(game_id)
    say(f"{game_id} is {state} again" if state == "todo" else f"{game_id} is {state}")
