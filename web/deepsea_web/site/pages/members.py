"""Pages of an account: bots, submissions, tokens, logins; joining, logging in, submitting."""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.types import ASGIApp

from deepsea_arena.api.declarations import Flow
from deepsea_arena.api.errors import ApiError
from deepsea_arena.api.ladder_api import METHODS
from deepsea_arena.bots import VerdictLine
from deepsea_arena.documents import json_text
from deepsea_ladder.errors import NameNeeded
from deepsea_ladder.model import Submission, utc_time
from deepsea_web.http import attachment
from deepsea_web.http_api import answer_stream
from deepsea_web.site.forms import (
    UNSEEN,
    Action,
    Form,
    LoggedIn,
    OneTimePage,
    OwnPage,
    Redirect,
    Seen,
    SessionAuth,
    Values,
)
from deepsea_web.site.page import Query, Refusal, Visit, refusal
from deepsea_web.site.words import SCOPES, may, name, submission

ENTRIES = 50
SUBMISSIONS = 20
JOIN = OwnPage(
    path="/join",
    template="join.html",
    title=lambda values: "Join with a code",
    read=lambda visit, query: {"code": ""},
    open=True,
)
DAY_S = 86_400
HOME = "/account"
"""The page after logging in, unless another one was asked for."""
_LOCAL = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+/?")


def _read_account(visit: Visit, query: Query) -> Values:
    account = visit.ladder.who_am_i()
    sessions = visit.ladder.sessions()
    return {
        "bots": visit.ladder.bots(),
        "submissions": visit.ladder.submissions(limit=SUBMISSIONS),
        "tokens": visit.ladder.tokens(),
        "sessions": sessions,
        "own_session": visit.caller.secret_id,
        "audit": visit.ladder.audit(limit=ENTRIES),
        "scopes": [(scope, SCOPES.get(scope, scope)) for scope in account.scopes],
        "refused": _refused(visit),
    }


ACCOUNT = OwnPage(
    path="/account",
    template="account.html",
    title=lambda values: "Account",
    read=_read_account,
    done={
        "revoked": "The token has ended.",
        "ended": "The login has ended.",
        "withdrawn": "The bot is withdrawn: it plays no more games.",
    },
)


def _create(visit: Visit, form: Form) -> OneTimePage:
    made = visit.ladder.create_token(
        label=form.text("label"),
        scopes=tuple(form.list("scopes")),
        days=form.number("days"),
    )
    return OneTimePage(
        template="token.html",
        title="A new token",
        values={
            "token": made.secret,
            "author": visit.author,
            "means": may(made.token.scopes),
            "began": False,
        },
    )


def _revoke(visit: Visit, form: Form) -> Redirect:
    visit.ladder.revoke_token(id=form.number("id"))
    return Redirect(path=ACCOUNT.path, done="revoked")


def _end(visit: Visit, form: Form) -> Redirect:
    visit.ladder.end_session(id=form.number("id"))
    return Redirect(path=ACCOUNT.path, done="ended")


def _withdraw(visit: Visit, form: Form) -> Redirect:
    visit.ladder.withdraw(bot=form.text("bot"))
    return Redirect(path=ACCOUNT.path, done="withdrawn")


async def bot_zip(sessions: SessionAuth, seen: Seen, request: Request) -> ASGIApp:
    """The files of a bot of one's own, of its newest version or of the one that is named."""
    bot = request.path_params["bot"]
    version = Query(given=dict(request.query_params)).number("version")
    gateway, wanted = sessions.gateway, {"bot": bot, "version": version}
    parts = gateway.stream(seen.visit.caller, METHODS["download_bot"], wanted)
    answer = await answer_stream(gateway, parts, Flow.FILE, bytes)
    file = f"{bot}-v{version}.zip" if version else f"{bot}.zip"
    answer.headers |= {**UNSEEN, **attachment(file)}
    return answer


def _join(visit: Visit, form: Form) -> LoggedIn | OneTimePage:
    code, label = form.text("code"), form.text("label")
    try:
        made = visit.ladder.redeem(code=code, author=form.text("author"), label=label)
    except ApiError as refused:
        if not isinstance(refused.__cause__, NameNeeded):
            raise
        return OneTimePage(
            template="join.html",
            title="Choose a name",
            values={"code": code, "typed": {"label": [label]}},
        )
    login = visit.service.log_in(made.token, visit.caller.address)
    return LoggedIn(
        secret=login.session,
        caller=login.caller,
        answer=OneTimePage(
            template="token.html",
            title=f"Welcome, {made.account.author}",
            values={
                "token": made.token,
                "author": made.account.author,
                "means": may(made.account.scopes),
                "began": True,
            },
        ),
    )


def local(path: str) -> str:
    """A path within this site as it is, and HOME for everything else."""
    return path if len(path) <= 100 and _LOCAL.fullmatch(path) else HOME


LOGIN = OwnPage(
    path="/login",
    template="login.html",
    title=lambda values: "Log in",
    read=lambda visit, query: {"next": local(query.text("next") or "")},
    parameters=("next",),
    done={"out": "You are logged out."},
    open=True,
)


def _enter(visit: Visit, form: Form) -> LoggedIn:
    login = visit.service.log_in(form.text("token"), visit.caller.address)
    return LoggedIn(
        secret=login.session,
        caller=login.caller,
        answer=Redirect(path=local(form.text("next"))),
        seconds=DAY_S * visit.service.limits.session_days if form.text("stay") else None,
    )


def _leave(visit: Visit, form: Form) -> Redirect:
    visit.service.log_out(visit.caller)
    return Redirect(path=LOGIN.path, done="out", ends_session=True)


def _refused(visit: Visit) -> Refusal | None:
    """The refusal that every upload of the reader would get now."""
    refused = visit.ladder.submission_refusal()
    return None if refused is None else refusal(refused)


def _read_form(visit: Visit, query: Query) -> Values:
    limits = visit.service.limits
    submissions = visit.ladder.submissions(limit=SUBMISSIONS)
    of_hour, of_day = visit.ladder.submissions_left()
    return {
        "bots": visit.ladder.bots(),
        "submissions": submissions,
        "left_of_hour": (of_hour, limits.submissions_per_hour),
        "left_of_day": (of_day, limits.submissions_per_day),
        "server": visit.ladder.server(),
        "refused": _refused(visit),
        "most_bytes": limits.archive_bytes,
        # So that a form that is sent twice is one submission.
        "key": visit.service.entropy().hex()[:32],
    }


SUBMIT = OwnPage(
    path="/submit",
    template="submit.html",
    title=lambda values: "Submit a bot",
    read=_read_form,
)


def _submit(visit: Visit, form: Form) -> Redirect:
    assert form.archive is not None, "the form comes with a file"
    received = next(filter(None, visit.ladder.submit(form.archive)))
    return Redirect(path=f"/submissions/{received.id}")


def _read_submission(visit: Visit, query: Query) -> Values:
    number = query.number("id")
    one = next(filter(None, visit.ladder.watch_submission(id=number)))
    verdicts: tuple[VerdictLine, ...] = ()
    season = visit.ladder.season_name
    if one.version is not None and season:
        verdicts = visit.ladder.verdicts(bot=one.bot, version=one.version, season=season).verdicts
    now = utc_time(visit.service.store.now())
    return {"one": one, "now": now, "verdicts": verdicts, "season": season}


def _submission_title(one: Submission) -> str:
    return f"Submission {one.id}: {name(one.bot, 40)}" if one.bot else f"Submission {one.id}"


SUBMISSION = OwnPage(
    path="/submissions/{id}",
    template="submission.html",
    title=lambda values: _submission_title(values["one"]),
    read=_read_submission,
)


async def submission_events(sessions: SessionAuth, seen: Seen, request: Request) -> ASGIApp:
    """The steps of a submission as server-sent events, until it has ended."""
    gateway, caller = sessions.gateway, seen.visit.caller
    number = Query(dict(request.path_params)).number("id")
    steps = gateway.stream(caller, METHODS["watch_submission"], {"id": number})
    return await answer_stream(gateway, steps, Flow.EVENTS, _event)


def _event(one: Submission) -> str:
    data = {
        "state": one.state,
        "words": submission(one),
        "games": one.games,
        "of_games": one.of_games,
    }
    return f"event: step\ndata: {json_text(data)}\n"


PAGES = (LOGIN, JOIN, ACCOUNT, SUBMIT, SUBMISSION)
ACTIONS = (
    Action(
        path="/login",
        page=LOGIN,
        act=_enter,
        fields=("token", "next", "stay"),
        secrets=("token",),
    ),
    Action(path="/logout", page=LOGIN, act=_leave),
    Action(
        path="/join",
        page=JOIN,
        act=_join,
        fields=("code", "author", "label"),
        secrets=("code",),
    ),
    Action(path="/account/tokens", page=ACCOUNT, act=_create, fields=("label", "scopes", "days")),
    Action(path="/account/tokens/revoke", page=ACCOUNT, act=_revoke, fields=("id",)),
    Action(path="/account/sessions/end", page=ACCOUNT, act=_end, fields=("id",)),
    Action(path="/account/bots/withdraw", page=ACCOUNT, act=_withdraw, fields=("bot",)),
    Action(
        path="/submit",
        page=SUBMIT,
        act=_submit,
        has_file=True,
        fields=("bot", "key"),
        secrets=("key",),
    ),
)
