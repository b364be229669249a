"""Pages of admins: the overview of all authors, the season, codes, authors, bots, the audit log."""

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
    PERSONAL_HEADERS,
    Action,
    Form,
    OneTimePage,
    PersonalPage,
    Redirect,
    SessionAuth,
    Values,
)
from deepsea_web.site.page import KINDS, Query, Visit, csv_file

ENTRIES = 200
"""Entries of the audit log that its page shows, the newest."""
SUBMISSIONS = 50
"""Submissions that the page of an author shows, the newest."""


def _read_season(visit: Visit, query: Query) -> Values:
    control = visit.ladder.season_control(season=visit.ladder.server().season)
    return {"season": control.season, "extensions": control.extensions}


def _read_author(visit: Visit, query: Query) -> Values:
    """Read an author by the name in the address, in any case, with the newest submissions."""
    key = names.key(query.text("author") or "")
    for author in visit.ladder.authors():
        if names.key(author.author) == key:
            submissions = visit.ladder.submissions(author=author.author, limit=SUBMISSIONS)
            return {"author": author, "submissions": submissions}
    raise NotOnLadder("there is no such author")


def _read_overview(visit: Visit, query: Query) -> Values:
    """Read all authors with their standing, submissions that wait, and games in quarantine."""
    return {
        "overview": visit.ladder.overview(season=visit.ladder.season_name),
        "columns": OVERVIEW_COLUMNS,
        "queue": visit.ladder.queue(),
        "jobs": visit.ladder.quarantine(),
    }


async def overview_csv(sessions: SessionAuth, visit: Visit, request: Request) -> Response:
    """Answer with the overview of all authors as a CSV file."""
    ladder = visit.ladder

    def read() -> Overview:
        return ladder.overview(season=ladder.season_name)

    overview = await sessions.in_thread(read)
    text = "".join(csv_lines(map(to_object, overview.authors), CSV_COLUMNS))
    file = csv_file(f"overview-{overview.season}", sessions.service.store.now())
    headers = {**PERSONAL_HEADERS, **attachment(file)}
    return Response(text, headers=headers, media_type=KINDS["csv"])


ADMIN = PersonalPage(
    path="/admin",
    template="admin.html",
    title=lambda values: "Overview",
    read=_read_overview,
    done={"requeued": "The game waits for a worker again."},
)
SEASON = PersonalPage(
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
CODES = PersonalPage(
    path="/admin/codes",
    template="admin_codes.html",
    title=lambda values: "Codes",
    read=lambda visit, query: {"codes": visit.ladder.codes()},
    done={"revoked": "The code has ended."},
)
AUTHORS = PersonalPage(
    path="/admin/authors",
    template="admin_authors.html",
    title=lambda values: "Authors",
    read=lambda visit, query: {"authors": visit.ladder.authors()},
)
AUTHOR = PersonalPage(
    path="/admin/authors/{author}",
    template="admin_author.html",
    title=lambda values: values["author"].author,
    read=_read_author,
    done={
        "renamed": "The author has this name now.",
        "blocked": "The author is blocked: tokens and logins have ended.",
        "lifted": "The block is lifted. Tokens that have ended stay so: reset gives a new code.",
        "anonymised": "The name is gone.",
    },
)
BOTS = PersonalPage(
    path="/admin/bots",
    template="admin_bots.html",
    title=lambda values: "Bots",
    read=lambda visit, query: {"bots": visit.ladder.bots(everybody=True)},
    done={"disabled": "The bot is disabled.", "active": "The bot plays again."},
)
AUDIT = PersonalPage(
    path="/admin/audit",
    template="admin_audit.html",
    title=lambda values: "Audit log",
    read=lambda visit, query: {"entries": visit.ladder.audit(limit=ENTRIES, everybody=True)},
)


def _codes_page(codes: object) -> OneTimePage:
    return OneTimePage(template="admin_codes_made.html", title="New codes", values={"codes": codes})


def _set_deadline(visit: Visit, form: Form) -> Redirect:
    """Set the time until which bots may be submitted to a season.

    With an author in the form, set the later time of that author alone. Without a time in it, the
    deadline, or the author's later time, is removed.
    """
    author, until = form.text("author"), form.text("until")
    if not until:
        until_text = "none"
    elif parse_time(until) is None:
        # Browsers send a time without an offset from UTC, and the page says that it is in UTC.
        until_text = f"{until}Z"
    else:
        until_text = until
    visit.ladder.set_deadline(season=form.text("season"), until=until_text, author=author)
    if author:
        return Redirect(path=SEASON.path, done="extended")
    return Redirect(path=SEASON.path, done="until" if until else "always")


def _pause(visit: Visit, form: Form) -> Redirect:
    """Pause a season, or end its pause."""
    paused = form.text("paused") == "1"
    visit.ladder.pause_season(season=form.text("season"), paused=paused)
    return Redirect(path=SEASON.path, done="paused" if paused else "resumed")


def _make_codes(visit: Visit, form: Form) -> OneTimePage:
    """Create codes: `count` of them for new authors, and one for each author on a line of its own.

    The page with their secrets is shown this once.
    """
    lines = [line.strip() for line in form.text("authors").splitlines()]
    codes = visit.ladder.create_codes(
        count=form.number("count"),
        authors=tuple(line for line in lines if line),
        days=form.number("days"),
    )
    return _codes_page(codes)


def _revoke_code(visit: Visit, form: Form) -> Redirect:
    visit.ladder.revoke_code(id=form.number("id"))
    return Redirect(path=CODES.path, done="revoked")


def _reset(visit: Visit, form: Form) -> OneTimePage:
    """End all tokens and sessions of an author, and show a code for a new token."""
    return _codes_page((visit.ladder.reset_author(author=form.text("author")),))


def _rename(visit: Visit, form: Form) -> Redirect:
    author, name = form.text("author"), form.text("new_name")
    line = visit.ladder.rename_author(author=author, to=name)
    return _to_author(line.author, "renamed")


def _block(visit: Visit, form: Form) -> Redirect:
    """Block an author, or lift the block."""
    blocked = form.text("blocked") == "1"
    line = visit.ladder.block_author(author=form.text("author"), blocked=blocked)
    return _to_author(line.author, "blocked" if blocked else "lifted")


def _anonymise(visit: Visit, form: Form) -> Redirect:
    """Remove an author's name and rights for good.

    Raises UserError unless the admin has written the name once more, to confirm it.
    """
    author = form.text("author")
    if not names.same(form.text("confirm"), author):
        raise UserError("write the author's name once more to confirm that it shall go")
    line = visit.ladder.anonymise_author(author=author)
    return _to_author(line.author, "anonymised")


def _set_bot_state(visit: Visit, form: Form) -> Redirect:
    """Disable a bot, or let it play again, with a reason for its author."""
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
    Action(
        path="/admin/bots/state", page=BOTS, act=_set_bot_state, fields=("bot", "state", "reason")
    ),
    Action(path="/admin/quarantine/requeue", page=ADMIN, act=_requeue, fields=("game_id",)),
)
