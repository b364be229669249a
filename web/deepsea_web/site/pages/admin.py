"""Administration: the overview of the class with what waits, the season, codes, authors, bots, the
audit log."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from deepsea_arena.documents import csv_lines, to_object
from deepsea_arena.status import CSV_COLUMNS, OVERVIEW_COLUMNS, Overview
from deepsea_bundle import names
from deepsea_ladder.errors import NotOnLadder
from deepsea_ladder.model import parse_time
from deepsea_referee.errors import UserError
from deepsea_web.http import attachment
from deepsea_web.site.forms import (
    UNSEEN,
    Action,
    Form,
    OneTimePage,
    OwnPage,
    Redirect,
    Seen,
    SessionAuth,
    Values,
)
from deepsea_web.site.page import KINDS, Query, Visit, csv_file

ENTRIES = 200
SUBMISSIONS = 50


def _read_season(visit: Visit, query: Query) -> Values:
    control = visit.ladder.season_control(season=visit.ladder.server().season)
    return {"season": control.season, "extensions": control.extensions}


def _read_author(visit: Visit, query: Query) -> Values:
    wanted = names.key(query.text("author") or "")
    for one in visit.ladder.authors():
        if names.key(one.author) == wanted:
            submissions = visit.ladder.submissions(author=one.author, limit=SUBMISSIONS)
            return {"one": one, "submissions": submissions}
    raise NotOnLadder("there is no such author")


def _read_overview(visit: Visit, query: Query) -> Values:
    return {
        "overview": visit.ladder.overview(season=visit.ladder.season_name),
        "columns": OVERVIEW_COLUMNS,
        "queue": visit.ladder.queue(),
        "jobs": visit.ladder.quarantine(),
    }


async def overview_csv(sessions: SessionAuth, seen: Seen, request: Request) -> Response:
    """The overview as CSV."""
    ladder = seen.visit.ladder

    def read() -> Overview:
        return ladder.overview(season=ladder.season_name)

    page = await sessions.in_thread(read)
    text = "".join(csv_lines(map(to_object, page.authors), CSV_COLUMNS))
    file = csv_file(f"overview-{page.season}", sessions.service.store.now())
    headers = {**UNSEEN, **attachment(file)}
    return Response(text, headers=headers, media_type=KINDS["csv"])


ADMIN = OwnPage(
    path="/admin",
    template="admin.html",
    title=lambda values: "Overview",
    read=_read_overview,
    done={"requeued": "The game waits for a worker again."},
)
SEASON = OwnPage(
    path="/admin/season",
    template="admin_season.html",
    title=lambda values: f"Season {values['season'].name}",
    read=_read_season,
    done={
        "until": "The season takes in bots until this time.",
        "always": "The season takes in bots until it is closed.",
        "extended": "The author has this time.",
        "paused": "No more games are started.",
        "resumed": "Games are started again.",
    },
)
CODES = OwnPage(
    path="/admin/codes",
    template="admin_codes.html",
    title=lambda values: "Codes",
    read=lambda visit, query: {"codes": visit.ladder.codes()},
    done={"revoked": "The code has ended."},
)
AUTHORS = OwnPage(
    path="/admin/authors",
    template="admin_authors.html",
    title=lambda values: "Authors",
    read=lambda visit, query: {"authors": visit.ladder.authors()},
)
AUTHOR = OwnPage(
    path="/admin/authors/{author}",
    template="admin_author.html",
    title=lambda values: values["one"].author,
    read=_read_author,
    done={
        "renamed": "The author has this name now.",
        "blocked": "The author is blocked: tokens and logins have ended.",
        "lifted": "The block is lifted. Tokens that have ended stay so: reset gives a new code.",
        "anonymised": "The name is gone.",
    },
)
BOTS = OwnPage(
    path="/admin/bots",
    template="admin_bots.html",
    title=lambda values: "Bots",
    read=lambda visit, query: {"bots": visit.ladder.bots(everybody=True)},
    done={"disabled": "The bot is disabled.", "active": "The bot plays again."},
)
AUDIT = OwnPage(
    path="/admin/audit",
    template="admin_audit.html",
    title=lambda values: "Audit log",
    read=lambda visit, query: {"entries": visit.ladder.audit(limit=ENTRIES, everybody=True)},
)


def _shown(codes: object) -> OneTimePage:
    return OneTimePage(template="admin_codes_made.html", title="New codes", values={"codes": codes})


def _set_deadline(visit: Visit, form: Form) -> Redirect:
    author, until = form.text("author"), form.text("until")
    # What browsers give for a time has no offset, and pages say UTC.
    wanted = f"{until}Z" if until and parse_time(until) is None else until or "none"
    visit.ladder.set_deadline(season=form.text("season"), until=wanted, author=author)
    return Redirect(path=SEASON.path, done="extended" if author else "until" if until else "always")


def _pause(visit: Visit, form: Form) -> Redirect:
    paused = form.text("paused") == "1"
    visit.ladder.pause_season(season=form.text("season"), paused=paused)
    return Redirect(path=SEASON.path, done="paused" if paused else "resumed")


def _make_codes(visit: Visit, form: Form) -> OneTimePage:
    authors = [line.strip() for line in form.text("authors").splitlines()]
    codes = visit.ladder.create_codes(
        count=form.number("count"),
        authors=tuple(filter(None, authors)),
        days=form.number("days"),
    )
    return _shown(codes)


def _revoke_code(visit: Visit, form: Form) -> Redirect:
    visit.ladder.revoke_code(id=form.number("id"))
    return Redirect(path=CODES.path, done="revoked")


def _reset(visit: Visit, form: Form) -> OneTimePage:
    return _shown((visit.ladder.reset_author(author=form.text("author")),))


def _rename(visit: Visit, form: Form) -> Redirect:
    author, name = form.text("author"), form.text("new_name")
    line = visit.ladder.rename_author(author=author, to=name)
    return _to_author(line.author, "renamed")


def _block(visit: Visit, form: Form) -> Redirect:
    blocked = form.text("blocked") == "1"
    line = visit.ladder.block_author(author=form.text("author"), blocked=blocked)
    return _to_author(line.author, "blocked" if blocked else "lifted")


def _anonymise(visit: Visit, form: Form) -> Redirect:
    author = form.text("author")
    if not names.same(form.text("confirm"), author):
        raise UserError("write the author's name once more to confirm that it shall go")
    line = visit.ladder.anonymise_author(author=author)
    return _to_author(line.author, "anonymised")


def _set_state(visit: Visit, form: Form) -> Redirect:
    state = form.text("state")
    visit.ladder.set_bot_state(bot=form.text("bot"), state=state, reason=form.text("reason"))
    return Redirect(path=BOTS.path, done=state)


def _requeue(visit: Visit, form: Form) -> Redirect:
    visit.ladder.requeue(game_id=form.text("game_id"))
    return Redirect(path=ADMIN.path, done="requeued")


def _to_author(name: str, done: str) -> Redirect:
    return Redirect(path=AUTHOR.path.format(author=name), done=done)


PAGES = (ADMIN, SEASON, CODES, AUTHORS, AUTHOR, BOTS, AUDIT)
ACTIONS = (
    Action(
        path="/admin/season/deadline",
        page=SEASON,
        act=_set_deadline,
        fields=("season", "until", "author"),
    ),
    Action(path="/admin/season/paused", page=SEASON, act=_pause, fields=("season", "paused")),
    Action(path="/admin/codes", page=CODES, act=_make_codes, fields=("count", "authors", "days")),
    Action(path="/admin/codes/revoke", page=CODES, act=_revoke_code, fields=("id",)),
    Action(path="/admin/author/reset", page=AUTHOR, act=_reset, fields=("author",)),
    Action(path="/admin/author/rename", page=AUTHOR, act=_rename, fields=("author", "new_name")),
    Action(path="/admin/author/block", page=AUTHOR, act=_block, fields=("author", "blocked")),
    Action(
        path="/admin/author/anonymise",
        page=AUTHOR,
        act=_anonymise,
        fields=("author", "confirm"),
    ),
    Action(path="/admin/bots/state", page=BOTS, act=_set_state, fields=("bot", "state", "reason")),
    Action(path="/admin/quarantine/requeue", page=ADMIN, act=_requeue, fields=("game_id",)),
)
