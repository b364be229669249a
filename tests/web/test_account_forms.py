"""Forms of the pages: joining, tokens, uploads; the cookies; what a private ladder shows."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from sqlalchemy import text as sql
from starlette.requests import Request
from starlette.types import Message

from deepsea_ladder.limits import RemoteLimits
from deepsea_referee.errors import UserError
from deepsea_web.access import Access
from deepsea_web.site.forms import Cookie, read_upload
from deepsea_web.site.pages import ENDPOINTS, PAGES
from helpers import ladder, submissions
from helpers.manual_clock import ManualClock
from helpers.members import Person, multipart
from helpers.pages import DAILY
from helpers.site import LOCAL, Answer, ask
from helpers.tiers import daily
from helpers.world import ANNA, BEN, Stock, World, opened

SECURE = Access("https://games.example", "", frozenset({"games.example"}), everybody=True)
BELOW = Access("https://games.example", "/deep/sea", frozenset({"games.example"}), everybody=True)


# ---------------------------------------------------------------------------------------- joining


def a_code(world: World, author: str = "") -> str:
    given: dict[str, Any] = {"authors": [author]} if author else {"count": 1}
    (code,) = world.ladder().create_codes(**given)
    return str(code.code)


def test_a_code_makes_an_author_and_shows_the_token_once(world: World) -> None:
    person, code = world.person(), a_code(world)
    answer = person.send("/join", "/join", {"code": code.lower(), "author": "zoe"})
    assert answer.status == 200
    (token,) = re.findall(r"dsl_[0-9a-f]{64}", answer.text)
    assert code not in answer.text
    assert "<h1>Welcome, zoe</h1>" in answer.text
    assert "zoe" in person.get("/account").text
    assert token not in person.get("/account").text
    again = Person(world.site)
    again.log_in(token)
    assert "zoe" in again.get("/account").text
    refused = world.person().send("/join", "/join", {"code": code, "author": "yan"})
    assert refused.status == 401
    assert 'role="alert"' in refused.text


def test_a_name_is_asked_for_if_the_code_has_none(world: World) -> None:
    code = a_code(world)
    answer = world.person().send("/join", "/join", {"code": code})
    assert (answer.status, 'name="author"' in answer.text) == (200, True)
    typed = {"code": code, "author": "Anna Müller"}
    answer = world.person().send("/join", "/join", typed)
    assert "<h1>Welcome, Anna Müller</h1>" in answer.text
    page = world.person("admin").get("/admin/authors/anna%20m%C3%BCller").text
    assert "<bdi>Anna Müller</bdi>" in page
    answer = world.person().send("/join", "/join", {"code": a_code(world, "Ülkü")})
    assert "<h1>Welcome, Ülkü</h1>" in answer.text


def test_what_was_typed_is_there_again_but_for_secrets(world: World) -> None:
    code = a_code(world)
    typed = {"code": code, "author": '"><script>', "label": "a 'b' \"c\""}
    answer = world.person().send("/join", "/join", typed)
    assert answer.status == 400
    assert code not in answer.text
    assert 'value="&#34;&gt;&lt;script&gt;"' in answer.text
    assert "a &#39;b&#39; &#34;c&#34;" in answer.text
    token = world.tokens[ANNA][:-1] + "!"
    answer = world.person().send("/login", "/login", {"token": token, "stay": "1"})
    assert answer.status == 401
    assert token not in answer.text
    assert "dsl_w" not in answer.text
    assert " checked" in answer.text


def test_an_author_is_anonymised_only_by_name(world: World) -> None:
    admin = world.person("admin")
    page = f"/admin/authors/{BEN}"
    refused = admin.send(page, "/admin/author/anonymise", {"confirm": "bob"})
    assert (refused.status, "once more" in refused.text) == (400, True)
    done = admin.send(page, "/admin/author/anonymise", {"confirm": BEN.upper()})
    assert done.status == 303
    assert admin.get(done.headers["location"]).status == 200
    assert BEN not in admin.get("/admin/authors").text


def test_codes_are_made_to_be_cut_out(world: World) -> None:
    typed = {"count": "2", "authors": f"{BEN}\n\n zoe \n", "days": "3"}
    answer = world.person("admin").send("/admin/codes", "/admin/codes", typed)
    assert answer.status == 200
    links = re.findall(r"http://127\.0\.0\.1:8080/join#([A-Z2-7-]{19})<", answer.text)
    assert len(set(links)) == 4
    listed = world.person("admin").get("/admin/codes").text
    assert BEN in listed
    assert "zoe" in listed
    assert not any(code in listed for code in links)


# ---------------------------------------------------------------------------------- hostile texts


@pytest.mark.parametrize("text", daily([text[:40] for text in DAILY], [DAILY[0][:40], DAILY[4]]))
def test_names_and_notes_stay_text(world: World, text: str) -> None:
    text = text.encode(errors="replace").decode()
    with world.service.store.database.write() as connection:
        given = {"text": text}
        for change in (
            "UPDATE authors SET name = :text WHERE name = 'anna-senior'",
            "UPDATE bots SET name = :text, reason = :text WHERE name = 'anna'",
            "UPDATE secrets SET label = :text",
            "UPDATE audit SET note = :text, subject = :text",
            "UPDATE submissions SET bot = :text, found = :text",
            "UPDATE tasks SET state = 'refused' WHERE kind = 'check'",
            "UPDATE submissions SET remedy = :text, error = :text",
        ):
            connection.execute(sql(change), given)
    anna, admin = world.person(ANNA), world.person("admin")
    for person, address in (
        *((anna, page) for page in ("/account", "/submit", "/submissions/1", "/games/s1-2")),
        *((admin, page) for page in ("/admin", "/admin/authors", "/admin/bots", "/admin/audit")),
    ):
        answer = person.get(address)
        assert answer.status == 200, address
        for mark in ("<script>document", "<img src=x", "onerror=document.title='", "{{ 49", "49}"):
            assert mark not in answer.text


@pytest.mark.parametrize("given", ["<script>", '"onload="x', "zzz", "out\r\nX: y", "%00"])
def test_nothing_of_an_address_is_written_back(world: World, given: str) -> None:
    person = world.person(ANNA)
    for page in ("/login", "/account", "/admin/codes", "/join"):
        answer = person.get(f"{page}?done={given}&next={given}&code={given}&x={given}")
        assert given not in answer.text
        assert 'role="status"' not in answer.text
        assert "x" not in answer.headers
    assert person.get("/account?done=revoked").text.count("The token has ended.") == 1


# ---------------------------------------------------------------------------------------- cookies


def test_cookies_are_for_this_site_alone(world: World) -> None:
    session = Cookie(SECURE, "session")
    assert session.name.startswith("__Host-")
    given = session.header_to_set("a" * 64, 60).split("; ")
    assert given[0] == f"{session.name}={'a' * 64}"
    assert set(given[1:]) == {"Path=/", "Max-Age=60", "Secure", "HttpOnly", "SameSite=Lax"}
    plain = Cookie(LOCAL, "session")
    assert not plain.name.startswith("__Host-")
    assert set(plain.header_to_set("a").split("; ")[1:]) == {"Path=/", "HttpOnly", "SameSite=Lax"}
    names = {Cookie(one, "session").name for one in (SECURE, BELOW, LOCAL)}
    assert len(names) == 3
    assert "Path=/;" in Cookie(BELOW, "session").header_to_set("a")


@pytest.mark.parametrize(
    "header", ["", "a", "=", "; ;", "{}", "a=b; {}=", '{}="x y"', "{}=<", "{}=" + "a" * 501, "\x01"]
)
def test_a_cookie_that_is_none_is_nobodys(unchanged: World, header: str) -> None:
    cookie = Cookie(LOCAL, "session")
    header = header.replace("{}", cookie.name)
    assert cookie.read([header]) is None
    answer = unchanged.person().get("/account", {"Cookie": header})
    assert answer.status == 303


def test_a_cookie_is_found_beside_those_of_others() -> None:
    cookie = Cookie(LOCAL, "session")
    for header in ('a={"b": 1}; {}', "{}; x", " x=y=z;{}", 'a="; {}'):
        assert cookie.read([header.replace("{}", f"{cookie.name}=secret")]) == "secret"
    # Somebody else on this machine has put one for a longer path beside it.
    assert cookie.read([f"{cookie.name}=theirs; {cookie.name}=mine"]) is None
    assert cookie.read([f"{cookie.name}=theirs", f"{cookie.name}=mine"]) is None


@pytest.mark.parametrize("port", ["", ":443"])
def test_the_usual_port_may_be_named(stock: Stock, tmp_path: Path, port: str) -> None:
    access = Access(f"https://games.example{port}", "", SECURE.hosts, everybody=True)
    with opened(stock, tmp_path, access) as world:
        person = Person(world.site, access)
        person.access = SECURE  # the browser's words leave the port out
        assert person.log_in(world.tokens[ANNA]).status == 303


def test_what_others_can_read_is_no_place_for_secrets(stock: Stock, tmp_path: Path) -> None:
    access = Access("http://games.example", "", SECURE.hosts, everybody=True)
    with opened(stock, tmp_path, access) as world:
        near = Person(world.site, access)
        near.log_in(world.tokens[ANNA])
        far = Person(world.site, access, client="192.0.2.7")
        far.cookies = near.cookies
        for page in ("/login", "/join", "/account", "/submissions/1/events"):
            answer = far.get(page)
            assert (answer.status, "https" in answer.text) == (403, True)
        assert "Traceback" not in far.get("/games/s1-2").text
        assert far.post("/login", [("token", world.tokens[ANNA])]).status == 403


def test_a_login_has_a_session_of_its_own_and_ends_the_one_before(world: World) -> None:
    """Nothing that was in the browser before is used after it."""
    name, visitor, author = (Cookie(LOCAL, kind).name for kind in ("session", "visitor", "author"))
    person = world.person()
    planted = {name: "a" * 64, visitor: "b" * 43}
    person.cookies = dict(planted)
    person.log_in(world.tokens[ANNA])
    first = person.cookies.copy()
    assert set(first) == {name, author}
    assert first[name] not in planted.values()
    person.log_in(world.tokens[BEN])
    assert person.do("/join", {"code": a_code(world), "author": "zoe"}).status == 200
    assert person.cookies.keys() == first.keys()
    assert person.cookies != first
    for name in (ANNA, BEN):
        assert world.ladder(name).sessions() == ()
    assert "zoe" in person.get("/account").text


def test_a_cookie_lasts_as_long_as_the_browser_unless_asked_for(world: World) -> None:
    for typed, kept in (({}, False), ({"stay": "1"}, True)):
        person = world.person()
        answer = person.send("/login", "/login", {"token": world.tokens[ANNA], **typed})
        (given,) = (one for one in answer.headers.getlist("set-cookie") if "session" in one)
        assert ("Max-Age" in given) is kept


def test_pages_below_a_prefix_with_tls(stock: Stock, tmp_path: Path) -> None:
    with opened(stock, tmp_path, BELOW) as world:
        person = world.person()
        answer = person.get("/deep/sea/account")
        assert answer.headers["location"] == "/deep/sea/login?next=%2Faccount"
        answer = person.send(answer.headers["location"], "/login", {"token": world.tokens[ANNA]})
        assert (answer.status, answer.headers["location"]) == (303, "/deep/sea/account")
        assert all(one.startswith("__Host-") for one in person.cookies)
        text = person.get("/deep/sea/account").text
        links = re.findall(r'(?:href|action|src)="([^"]*)"', text)
        assert all(link.startswith(("/deep/sea/", "#")) for link in links)
        assert (
            "https://games.example/deep/sea/"
            in person.send("/deep/sea/account", "/account/tokens", {"label": "x"}).text
        )


def test_a_form_is_taken_under_every_name_of_this_machine(world: World) -> None:
    """Also through a tunnel, whose port is another one."""
    for host in ("localhost:9000", "[::1]:8080", "127.0.0.1:8080"):
        person = Person(world.site, Access(f"http://{host}"))
        assert person.log_in(world.tokens[ANNA]).status == 303
        answer = person.post("/logout", [], {"Origin": "http://x:9000"})
        assert answer.status == 403


# ---------------------------------------------------------------------------------------- uploads

ZIP = submissions.zipped("uploaded")


def upload(
    person: Person,
    filename: str,
    content: bytes,
    typed: Mapping[str, str] | None = None,
    size: int = 0,
) -> Answer:
    """Send the form with a file, in parts of a size."""
    typed = typed or {}
    fields = [one for one in person.form("/submit", "/submit") if one[0] not in typed]
    kind, body = multipart([*fields, *typed.items()], filename, content)
    parts = [body[at : at + size] for at in range(0, len(body), size)] if size else body
    return person.post_body("/submit", kind, parts)


def test_a_zip_is_submitted(world: World) -> None:
    anna = world.person(ANNA)
    answer = upload(anna, "bot.zip", ZIP, {"bot": "rocket"}, size=7)
    assert answer.status == 303, answer.text
    assert answer.headers["location"] == "/submissions/2"
    assert (
        "is next" in anna.get("/submissions/2").text or "waits" in anna.get("/submissions/2").text
    )
    listed = world.ladder(ANNA).submissions()
    assert [(one.bot, one.state) for one in listed] == [("rocket", "queued"), ("second", "queued")]


@pytest.mark.parametrize(
    ("filename", "bot", "named"),
    [
        ("my_bot.py", "", "my_bot"),
        ("C:\\bots\\deep diver.py", "", "deep-diver"),
        ("x.PY", "rocket", "rocket"),
    ],
)
def test_a_python_file_is_a_bot(world: World, filename: str, bot: str, named: str) -> None:
    ben = world.person(BEN)
    answer = upload(ben, filename.replace("\\", "\\\\"), b"print(1)\n", {"bot": bot})
    assert answer.status == 303, answer.text
    (found, *_) = world.ladder(BEN).submissions()
    assert found.bot == named


def test_the_same_form_twice_is_one_submission(world: World) -> None:
    anna = world.person(ANNA)
    typed = {"bot": "rocket", "key": "k" * 20}
    first, second = (upload(anna, "bot.zip", ZIP, typed) for _ in range(2))
    assert first.headers["location"] == second.headers["location"]


@pytest.mark.parametrize(
    ("filename", "content", "more", "status"),
    [
        ("", b"", {}, 400),
        ("bot.zip", b"", {}, 400),
        ("bot.zip", ZIP, {"bot": "../x"}, 400),
        ("bot.zip", ZIP, {"key": "short"}, 400),
        ("bot.py", b"#" * 30_000_000, {}, 400),
        ("bot.zip", b"#" * 17_000_000, {}, 400),
    ],
)
def test_an_upload_that_is_refused_leaves_nothing(
    unchanged: World, filename: str, content: bytes, more: dict[str, str], status: int
) -> None:
    anna = unchanged.person(ANNA)
    before = unchanged.state()
    answer = upload(anna, filename, content, more)
    assert answer.status == status
    assert 'role="alert"' in answer.text
    assert unchanged.state() == before


@pytest.mark.parametrize(
    "kind", ["multipart/form-data", "text/plain", "multipart/form-data; boundary=b0und"]
)
def test_what_is_no_form_with_a_file_gets_a_sentence(unchanged: World, kind: str) -> None:
    anna = unchanged.person(ANNA)
    for body in (b"", b"--b0und\r\n", b"\x00" * 1000, b"--b0und--\r\n"):
        answer = anna.post_body("/submit", kind, body)
        assert answer.status == 400
        assert 'role="alert"' in answer.text


async def test_nobody_waits_for_more_of_a_form_that_is_there() -> None:
    asked = iter([{"type": "http.request", "body": b"nothing\r\n"}])

    async def receive() -> Message:
        return next(asked)  # which would fail

    kind = (b"content-type", b"multipart/form-data; boundary=b0und")
    request = Request({"type": "http", "method": "POST", "headers": [kind]}, receive)
    clock = ManualClock()
    refused = pytest.raises(UserError, match="the form cannot be read")
    with refused:
        await read_upload(request, RemoteLimits(), clock)


def test_a_slow_upload_is_ended(stock: Stock, tmp_path: Path) -> None:
    clock = ManualClock()
    with opened(stock, tmp_path, clock=clock) as world:
        anna = world.person(ANNA)
        fields = anna.form("/submit", "/submit")
        kind, body = multipart(fields, "bot.zip", ZIP)
        headers = {"Content-Type": kind, "Origin": LOCAL.origin, **anna.said}

        async def slow() -> int:
            asked = asyncio.create_task(
                ask(world.site, "/submit", "POST", headers=headers, body=body[:-40], whole=False)
            )
            while not asked.done():
                clock.jump(1_000_000)
                await asyncio.to_thread(lambda: None)
            return (await asked).status

        assert asyncio.run(slow()) == 429


def test_a_submission_shows_what_was_found(world: World) -> None:
    anna = world.person(ANNA)
    assert '<meta http-equiv="refresh" content="2">' in anna.get("/submissions/1").text
    with world.service.store.database.write() as connection:
        connection.execute(
            sql(
                "UPDATE submissions SET found = 'a timeout', remedy = 'be fast', "
                "error = 'Traceback <b>'"
            )
        )
        connection.execute(sql("UPDATE tasks SET state = 'refused' WHERE kind = 'check'"))
    text = anna.get("/submissions/1").text
    for words in ("refused", "a timeout", "be fast", "Traceback &lt;b&gt;"):
        assert words in text
    assert "refresh" not in text


def test_a_submission_that_was_accepted_has_its_verdicts(world: World) -> None:
    store = world.service.store
    ladder.submit(store, "anna", "anna, once more")
    store.comparisons.claim("runner", 60)
    with store.database.write() as connection:
        connection.execute(sql("UPDATE submissions SET bot = 'anna', version = 2"))
        connection.execute(sql("UPDATE tasks SET state = 'accepted' WHERE kind = 'check'"))
    anna = world.person(ANNA)
    assert "open against version 1: not begun" in anna.get("/submissions/1").text
    store.seasons.close("s1")
    assert "version 1" not in anna.get("/submissions/1").text


# ---------------------------------------------------------------------------------------- streams


def test_the_steps_of_somebody_elses_submission_are_not_told(world: World) -> None:
    for name, status in (("", 401), (BEN, 404)):
        assert world.person(name).get("/submissions/1/events").status == status


# ---------------------------------------------------------------------------------------- private


@pytest.fixture(scope="module")
def private(stock: Stock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A private ladder, for tests that change nothing in it."""
    with opened(stock, tmp_path_factory.mktemp("private"), private=True) as found:
        yield found


def every_public_address() -> Iterator[str]:
    for page in PAGES:
        address = page.path.replace("{name}", "anna").replace("{id}", "s1-1")
        for form in page.formats:
            yield f"{address}?format={form}"
        yield address
    yield from (path.replace("{id}", "s1-1") for path in ENDPOINTS)
    yield from ("/nothing", "/admin", "/account", "/games/s1-1/x.json", "//", "/static", "/login/x")


def test_a_visitor_of_a_private_ladder_sees_the_login(private: World) -> None:
    visitor = private.person()
    known = {"If-None-Match": "*", "Cookie": f"{Cookie(LOCAL, 'session').name}=x"}
    for address, headers in product(sorted(set(every_public_address())), ({}, known)):
        answer = visitor.get(address, headers)
        if answer.status == 303:
            assert unquote(answer.headers["location"]).startswith("/login")
            assert answer.body == b"", address
        else:
            assert answer.status == 403, address
            assert "etag" not in answer.headers
            assert "anna" not in answer.text
            assert "<nav" not in answer.text
        assert answer.headers["cache-control"] == "no-store"


def test_errors_of_a_private_ladder_show_nothing_else_either(private: World) -> None:
    visitor = private.person()
    for answer in (
        visitor.get("/static/nothing"),
        visitor.post("/login", [], {"Origin": "https://evil.example"}),
        visitor.post("/account/tokens", []),
        visitor.get("/login?next=1&next=2"),
    ):
        assert answer.status in (400, 403, 404)
        assert "<nav" not in answer.text
    assert "<nav" in private.person(ANNA).get("/nothing").text


def test_the_login_of_a_private_ladder_shows_nothing_else(private: World) -> None:
    for address in ("/login", "/join"):
        answer = private.person().get(address)
        assert answer.status == 200
        assert "<nav" not in answer.text
        for link in re.findall(r'(?:href|src|action)="(/[^"]*)"', answer.text):
            assert link.startswith(("/static/", "/login", "/join"))
            if link.startswith("/static/"):
                assert private.person().get(link).status == 200


def test_members_of_a_private_ladder_see_everything_and_nothing_is_kept(private: World) -> None:
    anna = private.person(ANNA)
    for address in ("/", "/games?format=csv", "/games/s1-1/frames.json", "/feed"):
        answer = anna.get(address)
        assert answer.status == 200
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["vary"] == "Cookie"
        assert "etag" not in answer.headers
    assert anna.get("/nothing").status == 404
