"""Whose right ends while a call is under way changes nothing, and sees nothing for long.

A new method that writes, or a new form, fails the first test until it has its row here.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import pytest
from sqlalchemy import event
from sqlalchemy import text as sql

from deepsea_arena.api.declarations import Flow
from deepsea_arena.api.errors import INVALID_TOKEN, SESSION_ENDED, ApiError, RefusalKind
from deepsea_arena.api.ladder_api import KEY, METHODS, ROOT, SHA256
from deepsea_arena.api.local import LocalLadder
from deepsea_arena.api.service import MACHINE
from deepsea_arena.seat import open_question
from deepsea_ladder.accounts import Caller, Role, SecretKind
from deepsea_ladder.limits import RemoteLimits
from deepsea_web.gateway import RECHECK_US, Gateway
from deepsea_web.http_api import http_api
from deepsea_web.serve import with_api
from deepsea_web.site.pages import ENDPOINTS, MEMBERS
from helpers import ladder, submissions
from helpers.manual_clock import ManualClock
from helpers.members import Person, a_token, an_admin_token, multipart
from helpers.people import Runner, new_game
from helpers.site import LOCAL, Answer, ask, get
from helpers.tiers import daily
from helpers.world import ANNA, HERS, Stock, World, opened

ADMIN: Final = "admin"
FORM: Final = "application/x-www-form-urlencoded"


@pytest.fixture
def world(stock: Stock, tmp_path: Path) -> Iterator[World]:
    """A ladder of one's own, with two admins, for the last one is kept, and games that wait."""
    with opened(stock, tmp_path) as world:
        store = world.service.store
        an_admin_token(world.service, "another")
        store.jobs.add(store.seasons.get("s1"), ladder.rotations(ladder.ids(store), 2))
        yield world


def api_of(world: World) -> Gateway:
    """Put the API of that ladder at the address of its site."""
    gateway = world.site.gateway
    world.site.app = with_api(world.site.app, http_api(gateway, LOCAL), LOCAL)
    return gateway


@pytest.fixture
def gateway(world: World) -> Gateway:
    """The gateway of that ladder, with its API."""
    return api_of(world)


# ---------------------------------------------------------------------------------------- writes

Fields = Callable[[World], dict[str, Any]]


class Write(NamedTuple):
    """A method that writes: what it is called with, and the form that does the same."""

    form: str
    """"" of what pages do not do."""
    fields: Fields = lambda world: {}
    named: tuple[str, str] = ("", "")
    """A field, and its other name in the form."""
    more: tuple[tuple[str, str], ...] = ()
    """What the form has besides."""


def _somebody(world: World) -> dict[str, Any]:
    """An author whom nothing else is about."""
    name = f"victim-{len(world.service.store.authors.all())}"
    world.ladder().create_codes(authors=(name,))
    return {"author": name}


def _anna_id(world: World) -> int:
    return submissions.an_author(world.service.store, ANNA)


def _new_token(world: World) -> dict[str, Any]:
    a_token(world.service, ANNA)
    return {"id": world.service.store.accounts.tokens(_anna_id(world))[-1].id}


def _new_session(world: World) -> dict[str, Any]:
    return {"id": world.service.log_in(a_token(world.service, ANNA), "").caller.secret_id}


def _new_code(world: World) -> dict[str, Any]:
    (code,) = world.ladder().create_codes(count=1)
    return {"id": code.id}


def _quarantined(world: World) -> dict[str, Any]:
    store = world.service.store
    with store.database.write() as connection:
        waiting = (
            "SELECT min(game_id) FROM jobs JOIN tasks ON kind = 'game' AND subject = jobs.id "
            "WHERE state = 'queued'"
        )
        game_id = connection.execute(sql(waiting)).scalar_one()
        of_game = "kind = 'game' AND subject = (SELECT id FROM jobs WHERE game_id = :game_id)"
        change = sql(f"UPDATE tasks SET state = 'quarantined' WHERE {of_game}")
        connection.execute(change, {"game_id": game_id})
    return {"game_id": game_id}


def _asked(world: World) -> dict[str, Any]:
    """A game of anna's that waits for her."""
    games = world.service.store.person_games
    name = f"person-{len(games.of_person(_anna_id(world), None, 99))}"
    new_game(world.service.store, author_id=_anna_id(world), game_id=name)
    Runner(world.service.store).play_on()
    number, _ = open_question(games.get(name)) or (0, None)
    return {"game_id": name, "asked": number, "action": "leave"}


NUMBERS: Final = itertools.count(2)
WRITES: Final = {
    "requeue": Write("/admin/quarantine/requeue", _quarantined),  # before bots are taken out
    "create_token": Write("/account/tokens", lambda world: {"label": "mine"}),
    "revoke_token": Write("/account/tokens/revoke", _new_token),
    "end_session": Write("/account/sessions/end", _new_session),
    "submit": Write("/submit"),
    "withdraw": Write("/account/bots/withdraw", lambda world: {"bot": "anna"}),
    "request_analysis": Write("/analyse", lambda world: {"game_id": "s1-1"}, ("game_id", "id")),
    "decide": Write("/play/{id}/deed", _asked, ("game_id", "id")),
    "leave": Write(
        "/play/{id}/deed",
        lambda world: {"game_id": _asked(world)["game_id"]},
        ("game_id", "id"),
        (("what", "play on"),),
    ),
    "play": Write("/play", lambda world: {"opponents": 2}),
    "set_setting": Write("", lambda world: {"name": "bots", "value": next(NUMBERS) + 6}),
    "set_deadline": Write(
        "/admin/season/deadline",
        lambda world: {"season": "s1", "until": "2099-01-01T00:00Z"},
    ),
    "pause_season": Write("/admin/season/paused", lambda world: {"season": "s1", "paused": True}),
    "create_codes": Write("/admin/codes", lambda world: {"count": 2}),
    "revoke_code": Write("/admin/codes/revoke", _new_code),
    "reset_author": Write("/admin/author/reset", _somebody),
    "rename_author": Write(
        "/admin/author/rename",
        lambda world: dict(_somebody(world), to=f"x{len(world.service.store.authors.all())}"),
        ("to", "new_name"),
    ),
    "block_author": Write(
        "/admin/author/block",
        lambda world: {**_somebody(world), "blocked": True},
    ),
    "anonymise_author": Write("/admin/author/anonymise", _somebody, ("author", "confirm")),
    "open_season": Write("", lambda world: {"settings": {"name": f"s{next(NUMBERS)}"}}),
    "begin_tournament": Write("", lambda world: {"name": "cup", "season": "s1"}),
    "close_season": Write("", lambda world: {"season": "s1", "at_once": True}),
    "set_bot_state": Write(
        "/admin/bots/state",
        lambda world: {"bot": "ben", "state": "disabled", "reason": "rude"},
    ),
}


def test_every_write_has_a_row() -> None:
    entries = {"/login", "/logout", "/join"}  # they have tests of their own
    assert {*WRITES, "redeem"} == {name for name, one in METHODS.items() if one.verb != "GET"}
    assert {one.form for one in WRITES.values() if one.form} == {
        one.path for one in MEMBERS.actions
    } - entries


def _demoted(world: World, author: str) -> None:
    with world.service.store.database.write() as connection:
        connection.execute(
            sql("UPDATE authors SET role = 'author' WHERE name = :name"), {"name": author}
        )


def _revoked(world: World, author: str) -> None:
    accounts = world.service.store.accounts
    author_id = submissions.an_author(world.service.store, author)
    for token in accounts.tokens(author_id):
        accounts.revoke(SecretKind.TOKEN, token.id, MACHINE.by, author_id)


ENDS: Final[dict[str, Callable[[World, str], object]]] = {
    "nothing": lambda world, author: None,
    "a reset": lambda world, author: world.ladder().reset_author(author=author),
    "the end of the token": _revoked,
    "a block": lambda world, author: world.ladder().block_author(author=author, blocked=True),
    "a demotion": _demoted,
}
"""What happens to the right of an author; in every run tests/arena/test_api_accounts.py has those
that are for a release here."""


def _enter(world: World, name: str) -> tuple[str, str]:
    """An author who may call a method, and a new token of theirs."""
    author = ADMIN if METHODS[name].role is Role.ADMIN else ANNA
    world.ladder().block_author(author=author, blocked=False)
    return author, (an_admin_token if author == ADMIN else a_token)(world.service, author)


def _writes(how: str) -> list[str]:
    """The methods that need the right that ends so."""
    return [name for name in WRITES if how != "a demotion" or METHODS[name].role is Role.ADMIN]


class Held:
    """A body whose last byte comes after something has happened."""

    def __init__(self, world: World, body: bytes, happens: Callable[[], object]) -> None:
        self._world = world
        self._body = body
        self._happens = happens
        self.before: tuple[object, ...] = ()
        """The state of the ladder when the last byte came."""

    def __iter__(self) -> Iterator[bytes]:
        yield self._body[:-1]
        self._happens()
        self.before = self._world.state()
        yield self._body[-1:]


@pytest.mark.parametrize("how", daily(ENDS, ["nothing", "a block"]))
def test_a_call_whose_last_byte_comes_after_its_right_has_ended(
    world: World, gateway: Gateway, how: str
) -> None:
    def noted(message: Any) -> None:
        if message.get("body"):
            gateway.closing.set()  # the first step of a submission is enough

    for number, name in enumerate(_writes(how), 2):
        method = METHODS[name]
        if method.verb == "DELETE":
            continue  # without a body
        author, token = _enter(world, name)
        fields = WRITES[name].fields(world)
        headers = {"Authorization": f"Bearer {token}"}
        body = json.dumps(
            {key: one for key, one in fields.items() if f"{{{key}}}" not in method.path}
        )
        content = body.encode()
        if name == "submit":
            content, fields = submissions.zipped(how), {"bot": "mine"}
            digest = hashlib.sha256(content).hexdigest()
            headers |= {"Content-Length": str(len(content)), SHA256: digest, KEY: digest[:16]}
        held = Held(world, content, partial(ENDS[how], world, author))
        path = ROOT + method.path.format(**fields)
        client = f"127.0.0.{number}"  # refusals are counted by address
        assert get(world.site, f"{ROOT}/account", headers=headers).status == 200  # its first use
        answer = get(
            world.site,
            path,
            method.verb,
            headers=headers,
            body=held,
            noted=noted,
            client=client,
        )
        gateway.closing.clear()
        _check(world, held, answer, name, how, 403 if how == "a demotion" else 401)


@pytest.mark.parametrize("how", daily(ENDS, ["nothing", "a demotion"]))
def test_a_form_whose_last_byte_comes_after_its_right_has_ended(world: World, how: str) -> None:
    for name in filter(lambda name: WRITES[name].form, _writes(how)):
        author, token = _enter(world, name)
        person = Person(world.site)
        person.log_in(token)
        write = WRITES[name]
        typed = dict(write.more)
        for key, value in write.fields(world).items():
            text = "1" if value is True else str(value)
            typed |= {key: text, dict([write.named]).get(key, key): text}
        kind, content = FORM, urlencode(typed).encode()
        if name == "submit":
            fields = [*typed.items(), ("bot", "mine"), ("key", "k" * 16)]
            kind, content = multipart(fields, "mine.zip", submissions.zipped(how))
        held = Held(world, content, partial(ENDS[how], world, author))
        answer = person.post_body(write.form, kind, held)
        refused = 403 if how == "a demotion" else 401
        if name in ("decide", "leave"):  # by then it comes from a visitor, who has no such game
            refused = 404
        _check(world, held, answer, name, how, refused)


def _check(world: World, held: Held, answer: Answer, name: str, how: str, refused: int) -> None:
    if how == "nothing":
        assert answer.status in (200, 303), (name, answer.text)
        assert world.state() != held.before, name
    else:
        assert answer.status == refused, (name, answer.text)
        assert world.state() == held.before, name


def test_a_call_that_would_change_nothing_is_refused_too(world: World, gateway: Gateway) -> None:
    headers = {"Authorization": f"Bearer {world.tokens[ANNA]}"}
    path = f"{ROOT}/bots/anna/withdraw"
    assert get(world.site, path, "POST", headers=headers, body=b"{}").status == 200
    held = Held(world, b"{}", lambda: ENDS["a block"](world, ANNA))
    assert get(world.site, path, "POST", headers=headers, body=held).status == 401


def test_a_call_that_breaks_off_is_no_error_of_the_server(
    world: World, gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    headers = {"Authorization": f"Bearer {world.tokens[ANNA]}"}
    body = iter([b"{", None])  # its sender has left
    assert (
        get(world.site, f"{ROOT}/account/tokens", "POST", headers=headers, body=body).status == 400
    )
    assert caplog.text == ""


@pytest.mark.parametrize("how", daily(ENDS, ["a block"]))
def test_a_call_whose_right_ends_before_it_writes(world: World, how: str) -> None:
    """Where it comes through without being asked again: the last look is in the write itself.

    That the same calls change something else is seen every time above.
    """
    for name in _writes(how):
        if name == "submit":
            continue  # with an upload; see the tests of its calls
        author, token = _enter(world, name)
        caller = world.service.caller_of(token, "")
        session = world.service.log_in(token, "").caller
        fields = [WRITES[name].fields(world) for _ in range(2)]
        ENDS[how](world, author)
        before = world.state()
        for one, given, words in zip(
            (caller, session), fields, (INVALID_TOKEN, SESSION_ENDED), strict=True
        ):
            found = _refusal(world, one, name, given)
            assert found == (None if how == "nothing" else (RefusalKind.UNAUTHENTICATED, words)), (
                name
            )
        assert (world.state() == before) is (how != "nothing"), name


def _refusal(
    world: World, caller: Caller, name: str, fields: dict[str, Any]
) -> tuple[RefusalKind, str] | None:
    try:
        getattr(LocalLadder(world.service, caller), name)(**fields)
    except ApiError as error:
        return error.kind, str(error)
    return None


def test_a_right_that_ends_while_its_write_waits_for_another_one(world: World) -> None:
    """The caller is looked at in the write's transaction, which begins when the other has ended."""
    store = world.service.store
    caller = world.service.caller_of(world.tokens[ANNA], "")
    waits = threading.Event()
    refused: list[Any] = []

    def began(_: object, __: object, statement: str, *___: object) -> None:
        if statement == "BEGIN IMMEDIATE":
            waits.set()

    with store.database.write() as connection:
        event.listen(store.database.engine, "before_cursor_execute", began)
        writing = threading.Thread(
            target=lambda: refused.append(_refusal(world, caller, "create_token", {}))
        )
        writing.start()
        assert waits.wait(60)
        connection.execute(sql("UPDATE secrets SET ended_at = 1"))
    writing.join(60)
    assert refused == [(RefusalKind.UNAUTHENTICATED, INVALID_TOKEN)]


def test_a_code_or_token_that_ends_while_its_form_is_sent_opens_nothing(
    world: World, gateway: Gateway
) -> None:
    (code,) = world.ladder().create_codes(count=1)
    ending: dict[str, Callable[[], object]] = {
        "/join": lambda: world.ladder().revoke_code(id=code.id),
        "/login": lambda: ENDS["the end of the token"](world, ANNA),
        "/logout": lambda: ENDS["a block"](world, ANNA),
    }
    for form, end in ending.items():
        token = a_token(world.service, ANNA)
        person = Person(world.site)
        if form == "/logout":
            person.log_in(token)
        typed = {"code": code.code, "author": "zoe", "token": token}
        held = Held(world, urlencode(typed).encode(), end)
        assert person.post_body(form, FORM, held).status == (303 if form == "/logout" else 401)
        assert world.state() == held.before


# --------------------------------------------------------------------------------------- streams

LONG_ENDS: Final = ("nothing", "a block")
"""What happens while something goes on for long: a look at the caller from time to time ends it.
What a look finds after each end: tests/arena/test_api_accounts.py."""
STREAMS: Final = {
    "/events": "pages",
    "/submissions/1/events": "pages",
    f"{ROOT}/feed?after=1": "feed",
    f"{ROOT}/submissions/1": "watch_submission",
    f"{ROOT}/games/s1-1/analysis/steps": "watch_analysis",
    f"{ROOT}/play/{HERS}": "watch_seat",
}
"""By the address of each stream: the method that it is, or the pages'. What follows an upload is
the same code as watch_submission."""


def test_every_stream_has_a_row() -> None:
    watched = {name for name, one in METHODS.items() if one.flow is Flow.EVENTS}
    assert watched == set(STREAMS.values()) - {"pages"} | {"submit"}
    events = {path for path in (*ENDPOINTS, *MEMBERS.endpoints) if path.endswith("events")}
    assert events == {"/events", "/submissions/{id}/events"}


@contextmanager
def private_world(stock: Stock, folder: Path, clock: ManualClock, **more: Any) -> Iterator[World]:
    """A ladder where everything needs a right, with the API at its address."""
    with opened(stock, folder, clock=clock, private=True, **more) as world:
        api_of(world)
        world.ladder().request_analysis(game_id="s1-1")
        yield world


def _headers(world: World, url: str) -> dict[str, str]:
    """What proves who anna is, to the API or the pages."""
    if url.startswith(ROOT):
        return {"Authorization": f"Bearer {world.tokens[ANNA]}"}
    return world.person(ANNA).said


@pytest.mark.parametrize(
    ("url", "how"),
    daily(
        [*product(STREAMS, LONG_ENDS)],
        [
            *product(STREAMS, ["a block"]),
            ("/events", "nothing"),
            (f"{ROOT}/feed?after=1", "nothing"),
        ],
    ),
)
def test_a_stream_of_a_member_ends_within_five_seconds_of_the_right(
    stock: Stock, tmp_path: Path, url: str, how: str
) -> None:
    clock = ManualClock()
    with private_world(stock, tmp_path, clock) as world:
        headers = _headers(world, url)
        end = partial(ENDS[how], world, ANNA)
        parts, ended = asyncio.run(_followed(world, url, headers, clock, end))
        assert any(part.strip() for part in parts)
        assert ended is (how != "nothing")
        if ended:
            assert get(world.site, url, headers=headers).status in (303, 401, 403)
            if url.startswith(ROOT):
                assert b"UNAUTHENTICATED" in parts[-2]


async def _followed(
    world: World, url: str, headers: dict[str, str], clock: ManualClock, end: Callable[[], object]
) -> tuple[list[bytes], bool]:
    """The parts of a stream, during which `end` happens, and whether it ends in five seconds."""
    parts: list[bytes] = []
    begun = asyncio.Event()

    def noted(message: Any) -> None:
        parts.append(message.get("body", b""))
        if parts[-1]:
            begun.set()

    asked = asyncio.create_task(ask(world.site, url, headers=headers, noted=noted))
    await begun.wait()
    await asyncio.to_thread(end)
    for _ in range(50):
        clock.jump(100_000)
        for _ in range(5):
            await asyncio.to_thread(lambda: None)
            while world.site.gateway._waiting:
                await asyncio.to_thread(lambda: None)
    ended = asked.done()
    world.site.gateway.closing.set()
    await asked
    return parts, ended


@pytest.mark.parametrize("url", ["/account/bots/anna/bot.zip", f"{ROOT}/bots/anna/archive"])
@pytest.mark.parametrize("how", LONG_ENDS)
def test_a_download_ends_with_its_right(stock: Stock, tmp_path: Path, url: str, how: str) -> None:
    clock = ManualClock()
    with private_world(stock, tmp_path, clock, limits=RemoteLimits(chunk_bytes=1)) as world:
        headers = _headers(world, url)
        sent = []

        def noted(message: Any) -> None:
            sent.append(message.get("body", b""))
            if len(sent) == 2:
                ENDS[how](world, ANNA)
            clock.jump(RECHECK_US)

        archive = world.service.store.bots.archive(
            world.service.store.bots.get("anna").current.digest
        )
        get(world.site, url, headers=headers, noted=noted)
        assert archive.startswith(b"".join(sent))
        assert (b"".join(sent) == archive) is (how == "nothing")


@pytest.mark.parametrize("how", LONG_ENDS)
def test_an_upload_is_given_up_within_seconds_of_its_right(
    stock: Stock, tmp_path: Path, how: str
) -> None:
    """Over the API, that is; a form is refused when it is there. See docs/api.md."""
    clock = ManualClock()
    with private_world(stock, tmp_path, clock) as world:
        content = submissions.zipped("x" * 1000)
        digest = hashlib.sha256(content).hexdigest()
        headers = _headers(world, ROOT)
        headers |= {"Content-Length": str(len(content)), SHA256: digest, KEY: digest[:16]}
        taken = []

        def body() -> Iterator[bytes]:
            for number in range(0, len(content), 100):
                taken.append(number)
                if number == 200:
                    ENDS[how](world, ANNA)
                    clock.jump(RECHECK_US)
                yield content[number : number + 100]

        async def upload() -> None:
            answered = asyncio.Event()
            url = f"{ROOT}/bots/mine"
            noted = lambda message: answered.set()  # noqa: E731
            asked = asyncio.create_task(
                ask(world.site, url, "PUT", headers=headers, body=body(), noted=noted)
            )
            await answered.wait()
            world.site.gateway.closing.set()  # else it follows the check
            await asked

        asyncio.run(upload())
        assert (taken[-1] == 200) is (how != "nothing")
