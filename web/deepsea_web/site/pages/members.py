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
    PERSONAL_HEADERS,
    Action,
    Form,
    OneTimePage,
    PersonalPage,
    Redirect,
    SessionAuth,
    SessionStart,
    Values,
)
from deepsea_web.site.page import Query, Refusal, Visit, refusal
from deepsea_web.site.words import SCOPES, name, rights, submission

ENTRIES = 50
"""Entries of the audit log that the account shows, the newest."""
SUBMISSIONS = 20
"""Submissions that the account and the form of uploads show, the newest."""
JOIN = PersonalPage(
    path="/join",
    template="join.html",
    title=lambda values: "Join with a code",
    read=lambda visit, query: {"code": ""},
    open=True,
)
DAY_S = 86_400
HOME = "/account"
"""Path of the page after logging in, unless the reader asked for another one before."""
_LOCAL_PATH = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+/?")


def _read_account(visit: Visit, query: Query) -> Values:
    """Read all that a member's account has: bots, submissions, tokens, logins, and their audit."""
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
        "refused": _upload_refusal(visit),
    }


ACCOUNT = PersonalPage(
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


def _create_token(visit: Visit, form: Form) -> OneTimePage:
    """Make a token with the scopes that were chosen in the form, and show its secret this once."""
    new_token = visit.ladder.create_token(
        label=form.text("label"),
        scopes=tuple(form.list("scopes")),
        days=form.number("days"),
    )
    return OneTimePage(
        template="token.html",
        title="A new token",
        values={
            "token": new_token.secret,
            "author": visit.author,
            "means": rights(new_token.token.scopes),
            "began": False,  # the page is also shown when a session has begun, by a code
        },
    )


def _revoke_token(visit: Visit, form: Form) -> Redirect:
    visit.ladder.revoke_token(id=form.number("id"))
    return Redirect(path=ACCOUNT.path, done="revoked")


def _end_session(visit: Visit, form: Form) -> Redirect:
    visit.ladder.end_session(id=form.number("id"))
    return Redirect(path=ACCOUNT.path, done="ended")


def _withdraw(visit: Visit, form: Form) -> Redirect:
    visit.ladder.withdraw(bot=form.text("bot"))
    return Redirect(path=ACCOUNT.path, done="withdrawn")


async def bot_zip(sessions: SessionAuth, visit: Visit, request: Request) -> ASGIApp:
    """Answer with the files of a member's bot as a zip.

    The parameter `version` chooses a version; without it, the newest one is sent.
    """
    bot = request.path_params["bot"]
    version = Query(parameters=dict(request.query_params)).number("version")
    gateway, fields = sessions.gateway, {"bot": bot, "version": version}
    parts = gateway.stream(visit.caller, METHODS["download_bot"], fields)
    answer = await answer_stream(gateway, parts, Flow.FILE, bytes)
    file = f"{bot}-v{version}.zip" if version else f"{bot}.zip"
    answer.headers |= {**PERSONAL_HEADERS, **attachment(file)}
    return answer


def _join(visit: Visit, form: Form) -> SessionStart | OneTimePage:
    """Redeem a code: begin a session, and show the new token this one time.

    A code for a new author needs a name: without one, the form is shown again with a field for it.
    """
    code, label = form.text("code"), form.text("label")
    try:
        redeemed = visit.ladder.redeem(code=code, author=form.text("author"), label=label)
    except ApiError as error:
        if not isinstance(error.__cause__, NameNeeded):
            raise
        return OneTimePage(
            template="join.html",
            title="Choose a name",
            values={"code": code, "typed": {"label": [label]}},
        )
    login = visit.service.log_in(redeemed.token, visit.caller.address)
    return SessionStart(
        secret=login.session,
        caller=login.caller,
        answer=OneTimePage(
            template="token.html",
            title=f"Welcome, {redeemed.account.author}",
            values={
                "token": redeemed.token,
                "author": redeemed.account.author,
                "means": rights(redeemed.account.scopes),
                "began": True,
            },
        ),
    )


def local_path(text: str) -> str:
    """Return the text if it is a path within this site, and else HOME.

    So a link to the login cannot lead on to another site.
    """
    return text if len(text) <= 100 and _LOCAL_PATH.fullmatch(text) else HOME


LOGIN = PersonalPage(
    path="/login",
    template="login.html",
    title=lambda values: "Log in",
    read=lambda visit, query: {"next": local_path(query.text("next") or "")},
    parameters=("next",),
    done={"out": "You are logged out."},
    open=True,
)


def _log_in(visit: Visit, form: Form) -> SessionStart:
    """Begin a session for the author who holds the token of the form.

    The browser keeps the session's cookie after it is closed only if the form's box `stay` is
    ticked. The field `next` is the path of the page to show afterwards.
    """
    login = visit.service.log_in(form.text("token"), visit.caller.address)
    session_s = DAY_S * visit.service.limits.session_days
    return SessionStart(
        secret=login.session,
        caller=login.caller,
        answer=Redirect(path=local_path(form.text("next"))),
        seconds=session_s if form.text("stay") else None,
    )


def _log_out(visit: Visit, form: Form) -> Redirect:
    visit.service.log_out(visit.caller)
    return Redirect(path=LOGIN.path, done="out", ends_session=True)


def _upload_refusal(visit: Visit) -> Refusal | None:
    """Return the refusal that every upload of the member would get now; None if there is none."""
    error = visit.ladder.submission_refusal()
    return None if error is None else refusal(error)


def _read_upload_form(visit: Visit, query: Query) -> Values:
    """Read the member's bots and submissions, and the limits of uploads.

    The form gets a random key: if the browser sends it twice, it is one submission.
    """
    limits = visit.service.limits
    submissions = visit.ladder.submissions(limit=SUBMISSIONS)
    left_of_hour, left_of_day = visit.ladder.submissions_left()
    return {
        "bots": visit.ladder.bots(),
        "submissions": submissions,
        "left_of_hour": (left_of_hour, limits.submissions_per_hour),
        "left_of_day": (left_of_day, limits.submissions_per_day),
        "server": visit.ladder.server(),
        "refused": _upload_refusal(visit),
        "most_bytes": limits.archive_bytes,
        "key": visit.service.entropy().hex()[:32],
    }


SUBMIT = PersonalPage(
    path="/submit",
    template="submit.html",
    title=lambda values: "Submit a bot",
    read=_read_upload_form,
)


def _submit(visit: Visit, form: Form) -> Redirect:
    """Submit the bot of a form, and show its submission without waiting for the check."""
    assert form.archive is not None, "the form comes with a file"
    # The stream of its steps begins with the queued submission; None says that nothing is new.
    new_submission = next(filter(None, visit.ladder.submit(form.archive)))
    return Redirect(path=f"/submissions/{new_submission.id}")


def _read_submission(visit: Visit, query: Query) -> Values:
    """Read the present state of a submission, and the verdicts on its version if it has one."""
    # The stream of its states begins with the present one; None in it says that nothing is new.
    states = visit.ladder.watch_submission(id=query.number("id"))
    submission = next(filter(None, states))
    season = visit.ladder.season_name
    verdicts: tuple[VerdictLine, ...] = ()
    if submission.version is not None and season:
        verdicts = visit.ladder.verdicts(
            bot=submission.bot, version=submission.version, season=season
        ).verdicts
    now = utc_time(visit.service.store.now())
    return {"submission": submission, "now": now, "verdicts": verdicts, "season": season}


def _submission_title(line: Submission) -> str:
    return f"Submission {line.id}: {name(line.bot, 40)}" if line.bot else f"Submission {line.id}"


SUBMISSION = PersonalPage(
    path="/submissions/{id}",
    template="submission.html",
    title=lambda values: _submission_title(values["submission"]),
    read=_read_submission,
)


async def submission_events(sessions: SessionAuth, visit: Visit, request: Request) -> ASGIApp:
    """Answer with the steps of a submission as server-sent events, until it has ended."""
    submission_id = Query(dict(request.path_params)).number("id")
    gateway, fields = sessions.gateway, {"id": submission_id}
    steps = gateway.stream(visit.caller, METHODS["watch_submission"], fields)
    return await answer_stream(gateway, steps, Flow.EVENTS, _step_event)


def _step_event(step: Submission) -> str:
    """Return a step of a submission as a server-sent event, with its progress in words."""
    data = {
        "state": step.state,
        "words": submission(step),
        "games": step.games,
        "of_games": step.of_games,
    }
    return f"event: step\ndata: {json_text(data)}\n"


PAGES = (LOGIN, JOIN, ACCOUNT, SUBMIT, SUBMISSION)
ACTIONS = (
    Action(
        path="/login",
        page=LOGIN,
        act=_log_in,
        fields=("token", "next", "stay"),
        secrets=("token",),
    ),
    Action(path="/logout", page=LOGIN, act=_log_out),
    Action(
        path="/join",
        page=JOIN,
        act=_join,
        fields=("code", "author", "label"),
        secrets=("code",),
    ),
    Action(
        path="/account/tokens",
        page=ACCOUNT,
        act=_create_token,
        fields=("label", "scopes", "days"),
    ),
    Action(path="/account/tokens/revoke", page=ACCOUNT, act=_revoke_token, fields=("id",)),
    Action(path="/account/sessions/end", page=ACCOUNT, act=_end_session, fields=("id",)),
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
