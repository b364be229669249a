"""Joining with a code, which comes in the fragment of the address: no log has it."""

from __future__ import annotations

from deepsea_web.site.accounts.own_page import Action, Entered, OwnPage, Shown
from deepsea_web.site.forms import Form
from deepsea_web.site.visit import Visit
from deepsea_web.site.words import may

JOIN = OwnPage(
    path="/join", template="join.html", title=lambda values: "Join with a code", open=True
)


def _join(visit: Visit, form: Form) -> Entered:
    made = visit.ladder.redeem(
        code=form.text("code"), author=form.text("author"), label=form.text("label")
    )
    login = visit.service.log_in(made.token, visit.caller.address)
    return Entered(
        secret=login.session,
        caller=login.caller,
        then=Shown(
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


REDEEM = Action(
    path="/join",
    page=JOIN,
    act=_join,
    fields=("code", "author", "label"),
    secrets=("code",),
)
