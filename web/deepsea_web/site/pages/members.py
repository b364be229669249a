"""One's own account: bots, submissions, tokens, logins, and what was done."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp

from deepsea_arena.api.declarations import Flow
from deepsea_arena.api.ladder_api import METHODS
from deepsea_rules.printable import quoted
from deepsea_web.server.http_api import AnswerStream
from deepsea_web.site.accounts.desk import UNSEEN, Seen, SessionAuth
from deepsea_web.site.accounts.own_page import Action, OwnPage, Shown, Then, Values
from deepsea_web.site.forms import Form
from deepsea_web.site.page import Query
from deepsea_web.site.visit import Visit
from deepsea_web.site.words import SCOPES, may

ENTRIES: Final = 50
SUBMISSIONS: Final = 20


def _read(visit: Visit, query: Query) -> Values:
    account = visit.ladder.who_am_i().account
    sessions = visit.ladder.sessions().sessions
    return {
        "bots": visit.ladder.bots().bots,
        "submissions": visit.ladder.submissions(limit=SUBMISSIONS).submissions,
        "tokens": visit.ladder.tokens().tokens,
        "sessions": sessions,
        "own_session": visit.caller.session_id,
        "audit": visit.ladder.audit(limit=ENTRIES).entries,
        "scopes": [(scope, SCOPES.get(scope, scope)) for scope in account.scopes],
    }


ACCOUNT = OwnPage(
    path="/account",
    template="account.html",
    title=lambda values: "Account",
    read=_read,
    done={
        "revoked": "The token has ended.",
        "ended": "The login has ended.",
        "withdrawn": "The bot is withdrawn: it plays no more games.",
    },
)


def _create(visit: Visit, form: Form) -> Shown:
    made = visit.ladder.create_token(
        label=form.text("label"),
        scopes=tuple(form.list("scopes")),
        days=form.number("days"),
    )
    return Shown(
        template="token.html",
        title="A new token",
        values={
            "token": made.secret,
            "author": visit.author,
            "means": may(made.token.scopes),
            "began": False,
        },
    )


def _revoke(visit: Visit, form: Form) -> Then:
    visit.ladder.revoke_token(id=form.number("id"))
    return Then(path=ACCOUNT.path, done="revoked")


def _end(visit: Visit, form: Form) -> Then:
    visit.ladder.end_session(id=form.number("id"))
    return Then(path=ACCOUNT.path, done="ended")


def _withdraw(visit: Visit, form: Form) -> Then:
    visit.ladder.withdraw(bot=form.text("bot"))
    return Then(path=ACCOUNT.path, done="withdrawn")


CREATE_TOKEN = Action(
    path="/account/tokens", page=ACCOUNT, act=_create, fields=("label", "scopes", "days")
)
REVOKE_TOKEN = Action(path="/account/tokens/revoke", page=ACCOUNT, act=_revoke, fields=("id",))
END_SESSION = Action(path="/account/sessions/end", page=ACCOUNT, act=_end, fields=("id",))
WITHDRAW = Action(path="/account/bots/withdraw", page=ACCOUNT, act=_withdraw, fields=("bot",))


async def bot_zip(sessions: SessionAuth, seen: Seen, request: Request) -> ASGIApp:
    """The files of a bot of one's own, of its newest version or of the one that is named."""
    bot = request.path_params["bot"]
    version = Query(given=dict(request.query_params)).number("version", 1, 10**6) or 0
    gateway, wanted = sessions.host.gateway, {"bot": bot, "version": version}
    parts = gateway.stream(seen.visit.caller, METHODS["download_bot"], wanted)
    answer = await AnswerStream.begun(gateway, parts, Flow.FILE)
    named = f'attachment; filename="{_file(bot, version)}"'
    return answer.with_headers({**UNSEEN, "Content-Disposition": named})


def _file(bot: str, version: int) -> str:
    """The name of the file that is saved; names of bots need no quoting, and others get none."""
    plain = bot if quoted(bot, 80) == f"'{bot}'" and '"' not in bot and "\\" not in bot else "bot"
    return f"{plain}-v{version}.zip" if version else f"{plain}.zip"
