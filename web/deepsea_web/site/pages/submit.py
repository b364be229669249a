"""Submitting a bot by a file, and how its check goes."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.types import ASGIApp

from deepsea_arena.service.submissions import begin_upload
from deepsea_arena.service.upload import Upload
from deepsea_arena.wire.json import json_text
from deepsea_web.event_stream import EventStream
from deepsea_web.site.accounts.desk import Desk, Seen
from deepsea_web.site.accounts.follow import Followed
from deepsea_web.site.accounts.forms import Form
from deepsea_web.site.accounts.own_page import Action, OwnPage, Then, Values
from deepsea_web.site.page import Query
from deepsea_web.site.visit import Visit
from deepsea_web.site.words import submission

SUBMISSIONS: Final = 20


def _read_form(visit: Visit, query: Query) -> Values:
    return {
        "bots": visit.call("ListBots").bots,
        "submissions": visit.call("ListSubmissions", limit=SUBMISSIONS).submissions,
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
    return begin_upload(visit.service, visit.caller)


def _submit(visit: Visit, form: Form) -> Then:
    step = next(iter(visit.call("Submit", upload=form.upload)))
    return Then(path=f"/submissions/{step.submission.id}")


SEND = Action(
    path="/submit", page=SUBMIT, act=_submit, begin=_begin, fields=("bot", "key"), secrets=("key",)
)


def _read(visit: Visit, query: Query) -> Values:
    number = query.number("id", 1) or 0
    step = next(iter(visit.call("WatchSubmission", id=number)))
    return {"one": step.submission}


SUBMISSION = OwnPage(
    path="/submissions/{id}",
    template="submission.html",
    title=lambda values: f"Submission {values['one'].id}",
    read=_read,
)


async def submission_events(desk: Desk, seen: Seen, request: Request) -> ASGIApp:
    """The steps of a submission as server-sent events, until it has ended."""
    address = seen.visit.caller.address
    desk.check_room(address)
    number = Query(dict(request.path_params)).number("id", 1) or 0
    steps = await desk.in_thread(lambda: iter(seen.visit.call("WatchSubmission", id=number)))
    first = await desk.in_thread(lambda: next(steps))
    return EventStream(Followed(desk, address, first, steps, _event), 0)


def _event(step: Any) -> str:
    one = step.submission
    data = {
        "state": one.state,
        "words": submission(one),
        "games": one.games,
        "of_games": one.of_games,
    }
    return f"event: step\ndata: {json_text(data)}\n"
