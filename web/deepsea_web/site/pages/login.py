"""Logging in with a token, and out."""

from __future__ import annotations

import re
from typing import Final

from deepsea_web.site.accounts.own_page import Action, Entered, Left, OwnPage, Then, Values
from deepsea_web.site.forms import Form
from deepsea_web.site.page import Query
from deepsea_web.site.visit import Visit

DAY_S: Final = 86_400
HOME: Final = "/account"
"""Where one is after logging in, unless another page was asked for."""
_LOCAL: Final = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+/?")


def local(path: str) -> str:
    """A path within this site as it is, and HOME for everything else."""
    return path if len(path) <= 100 and _LOCAL.fullmatch(path) else HOME


def _read(visit: Visit, query: Query) -> Values:
    return {"next": local(query.text("next") or "")}


LOGIN = OwnPage(
    path="/login",
    template="login.html",
    title=lambda values: "Log in",
    read=_read,
    parameters=("next",),
    done={"out": "You are logged out."},
    open=True,
)


def _enter(visit: Visit, form: Form) -> Entered:
    login = visit.service.log_in(form.text("token"), visit.caller.address)
    return Entered(
        secret=login.session,
        caller=login.caller,
        then=Then(path=local(form.text("next"))),
        seconds=DAY_S * visit.service.limits.session_days if form.text("stay") else None,
    )


def _leave(visit: Visit, form: Form) -> Left:
    visit.service.log_out(visit.caller)
    return Left(then=Then(path=LOGIN.path, done="out"))


ENTER = Action(
    path="/login",
    page=LOGIN,
    act=_enter,
    fields=("token", "next", "stay"),
    secrets=("token",),
)
LEAVE = Action(path="/logout", page=LOGIN, act=_leave)
