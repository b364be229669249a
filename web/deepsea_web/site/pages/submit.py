"""Submitting a bot by a file, and how its check goes."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp

from deepsea_arena.api.ladder_api import METHODS
from deepsea_arena.api.types import SubmissionStep
from deepsea_arena.api.uploads import Upload
from deepsea_arena.documents import json_text
from deepsea_web.server.http_api import AnswerStream
from deepsea_web.site.accounts.desk import Seen, SessionAuth
from deepsea_web.site.accounts.own_page import Action, OwnPage, Then, Values
from deepsea_web.site.forms import Form
from deepsea_web.site.page import Query
from deepsea_web.site.visit import Visit
from deepsea_web.site.words import submission

SUBMISSIONS: Final = 20


def _read_form(visit: Visit, query: Query) -> Values:
    return {
        "bots": visit.ladder.bots().bots,
        "submissions": visit.ladder.submissions(limit=SUBMISSIONS).submissions,
        "most_bytes": visit.service.uploads.limits.archive_bytes,
        # So that a form that is sent twice is one submission.
        "key": visit.service.entropy().hex()[:32],
    }


SUBMIT = OwnPage(
    path="/submit",
    template="submit.html",
    title=lambda values: "Submit a bot",
    read=_read_form,
)


def _begin(visit: Visit) -> Upload:
    return visit.ladder.begin_upload()


def _submit(visit: Visit, form: Form) -> Then:
    step = next(filter(None, visit.ladder.submit(form.upload)))
    return Then(path=f"/submissions/{step.submission.id}")


SEND = Action(
    path="/submit", page=SUBMIT, act=_submit, begin=_begin, fields=("bot", "key"), secrets=("key",)
)


def _read(visit: Visit, query: Query) -> Values:
    number = query.number("id", 1) or 0
    step = next(filter(None, visit.ladder.watch_submission(id=number)))
    return {"one": step.submission}


SUBMISSION = OwnPage(
    path="/submissions/{id}",
    template="submission.html",
    title=lambda values: f"Submission {values['one'].id}",
    read=_read,
)


async def submission_events(sessions: SessionAuth, seen: Seen, request: Request) -> ASGIApp:
    """The steps of a submission as server-sent events, until it has ended."""
    gateway, caller = sessions.host.gateway, seen.visit.caller
    number = Query(dict(request.path_params)).number("id", 1) or 0
    steps = gateway.stream(caller, METHODS["watch_submission"], {"id": number})
    return await AnswerStream.begun(gateway, steps, write=_event)


def _event(step: SubmissionStep) -> str:
    one = step.submission
    data = {
        "state": one.state,
        "words": submission(one),
        "games": one.games,
        "of_games": one.of_games,
    }
    return f"event: step\ndata: {json_text(data)}\n"
