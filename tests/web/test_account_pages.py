"""Pages of people with an account: who sees what, who may do what, and what ends a session."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from urllib.parse import quote

import pytest
from sqlalchemy import text as sql

from deepsea_ladder.accounts import MACHINE
from deepsea_ladder.limits import DAY_MS
from deepsea_ladder.model import GameNote, SeatLog, SubmissionRefusal
from deepsea_rules.game import GameRecord
from deepsea_web.access import HEADERS
from deepsea_web.site.pages import MEMBERS
from deepsea_web.site.pages.members import HOME, local_path
from helpers import ladder, submissions
from helpers.members import Person, forms_of, multipart
from helpers.submissions import LIMITS
from helpers.world import ANNA, BEN, HERS, World

# ----------------------------------------------------------------------------------- who sees what

TO_LOGIN = 303
SEEN_BY = {
    # address: visitor, its author, another author, admin
    "/login": (200, 200, 200, 200),
    "/join": (200, 200, 200, 200),
    "/account": (TO_LOGIN, 200, 200, 200),
    "/submit": (TO_LOGIN, 200, 200, 200),
    "/submissions/1": (TO_LOGIN, 200, 404, 200),
    "/games/s1-1/own": (TO_LOGIN, 200, 200, 200),
    "/games/s1-1/analysis": (TO_LOGIN, 200, 200, 200),
    "/admin": (TO_LOGIN, 403, 403, 200),
    "/admin/overview.csv": (401, 403, 403, 200),
    "/admin/season": (TO_LOGIN, 403, 403, 200),
    "/admin/codes": (TO_LOGIN, 403, 403, 200),
    "/admin/authors": (TO_LOGIN, 403, 403, 200),
    "/admin/authors/anna-senior": (TO_LOGIN, 403, 403, 200),
    "/admin/bots": (TO_LOGIN, 403, 403, 200),
    "/admin/audit": (TO_LOGIN, 403, 403, 200),
    "/play": (200, 200, 200, 200),
    "/play/person-hers": (404, 200, 404, 404),
    "/account/bots/anna/bot.zip": (401, 200, 404, 404),
}
EXAMPLES = {
    "/games/{id}": "/games/s1-1",
    "/play/{id}": f"/play/{HERS}",
    "{id}": "1",
    "{author}": "anna-senior",
    "{bot}": "anna",
}


def example(path: str) -> str:
    for part, value in EXAMPLES.items():
        path = path.replace(part, value)
    return path


def test_the_table_of_who_sees_what_has_every_page() -> None:
    streams = {"/submissions/1/events", f"/play/{HERS}/news"}  # they have tests of their own
    known = {example(path) for path in (*(page.path for page in MEMBERS.pages), *MEMBERS.endpoints)}
    assert set(SEEN_BY) == known - streams


@pytest.fixture(scope="module")
def readers(unchanged: World) -> list[Person]:
    """A visitor, anna, ben and an admin of that ladder."""
    return [unchanged.person(name) for name in ("", ANNA, BEN, "admin")]


@pytest.mark.parametrize("address", SEEN_BY)
def test_who_sees_a_page(readers: list[Person], address: str) -> None:
    for person, status in zip(readers, SEEN_BY[address], strict=True):
        answer = person.get(address)
        assert answer.status == status, answer.text
        assert answer.headers["cache-control"] == "no-store"
        assert all(answer.headers.getlist(key) == [one] for key, one in HEADERS.items())
        if status < 400:
            assert answer.headers["vary"] == "Cookie"
            assert "etag" not in answer.headers
        if status == TO_LOGIN:
            assert answer.headers["location"].startswith("/login?next=%2F")
        if status == 200 and not address.endswith((".zip", ".csv")):
            assert answer.text.count("<h1>") == 1


def test_a_visitor_comes_back_to_the_page_that_was_asked_for(world: World) -> None:
    person = world.person()
    login = person.get("/submit").headers["location"]
    answer = person.send(login, "/login", {"token": world.tokens[ANNA]})
    assert (answer.status, answer.headers["location"]) == (303, "/submit")


AWAY = (
    *("//evil.example", "///evil.example/x", "/\\evil.example", "https://evil.example"),
    *("javascript:alert(1)", "/account\r\nSet-Cookie: a=b", "/..//evil.example", "evil", ""),
    *("/%2f%2fevil.example", "/.", " /account", "/" + "x" * 200),
)


def test_no_address_leads_away_from_the_site(world: World) -> None:
    assert {local_path(path) for path in AWAY} == {HOME}
    person = world.person()
    fields = [one for one in person.form("/login", "/login") if one[0] not in ("next", "token")]
    fields += [("next", AWAY[0]), ("token", world.tokens[ANNA])]
    answer = person.post("/login", fields)
    assert (answer.status, answer.headers["location"]) == (303, HOME)


OWN = "/games/s1-2/own"


def test_own_logs_are_for_their_author_alone(world: World) -> None:
    seen = world.person(ANNA).get(OWN)
    assert "Traceback: &lt;script&gt;document" in seen.text
    assert "printed\n&lt;b&gt;" in seen.text
    assert seen.headers["cache-control"] == "no-store"
    assert "Cookie" in seen.headers["vary"]
    assert "etag" not in seen.headers
    for name in (BEN, "admin"):
        answer = world.person(name).get(OWN)
        assert answer.status == 200
        assert "No bot of yours left anything of this game." in answer.text
        assert "Traceback" not in answer.text
    to_login = world.person().get(OWN)
    assert (to_login.status, to_login.headers["location"]) == (303, f"/login?next={quote(OWN, '')}")
    for name in ("", ANNA, BEN, "admin"):
        assert "Traceback" not in world.person(name).get("/games/s1-2").text


def test_own_notes_are_for_their_author_alone(world: World) -> None:
    store = world.service.store
    game = store.history.get("s1-1").line
    seat = next(seat for seat, one in enumerate(game.seats) if one.bot == "anna")
    decisions = GameRecord.from_json(store.games.record("s1-1")).decisions
    number = next(number for number, one in enumerate(decisions) if one.seat == seat)
    note = GameNote(number, "</script><b>deep", {"chance home": 0.5})
    store.logs.add(game.seq, [SeatLog(seat, "anna v1", "", "", (note,))])
    html = world.person(ANNA).get("/games/s1-1/own").text
    (data,) = re.findall(r'<script type="application/json" id="notes">(.*?)</script>', html)
    assert json.loads(data) == [
        {"decision": number, "text": note.text, "numbers": {"chance home": 0.5}}
    ]
    public = (
        *("/games/s1-1", "/games/s1-1?format=csv"),
        *("/games/s1-1/frames.json", "/games/s1-1/record.json"),
    )
    for name in ("", BEN, "admin", ANNA):
        for path in public:
            answer = world.person(name).get(path)
            assert (answer.status, "chance home" in answer.text) == (200, False)


# -------------------------------------------------------------------------------- what forms do


DEEDS: dict[str, dict[str, str]] = {
    "/login": {"token": "dsl_wrong"},
    "/logout": {},
    "/join": {"code": "AAAA-AAAA-AAAA-AAAA"},
    "/account/tokens": {"label": "new", "scopes": "read"},
    "/account/tokens/revoke": {"id": "1"},
    "/account/sessions/end": {"id": "1"},
    "/account/bots/withdraw": {"bot": "anna"},
    "/submit": {},
    "/analyse": {"id": "s1-1"},
    "/play": {"opponents": "2", "seat": "A"},
    "/play/{id}/deed": {"id": HERS, "what": "play on"},
    "/admin/season/deadline": {"season": "s1", "until": "2101-01-31T18:00"},
    "/admin/season/paused": {"season": "s1", "paused": "1"},
    "/admin/codes": {"count": "2", "days": "3"},
    "/admin/codes/revoke": {"id": "99"},
    "/admin/author/reset": {"author": BEN},
    "/admin/author/rename": {"author": BEN, "new_name": "benedict"},
    "/admin/author/block": {"author": BEN, "blocked": "1"},
    "/admin/author/anonymise": {"author": BEN, "confirm": BEN},
    "/admin/bots/state": {"bot": "ben", "state": "disabled", "reason": "rude"},
    "/admin/quarantine/requeue": {"game_id": "s1-1"},
}
"""What is typed, by the address of each form. Who may do it: tests/arena/test_api_rights.py; that
it is done: tests/web/test_ended_rights.py."""


def test_the_table_of_what_forms_do_has_every_form() -> None:
    assert set(DEEDS) == {action.path for action in MEMBERS.actions}


def test_pages_show_the_deadline_that_their_reader_has(world: World) -> None:
    anna, ben, admin = (world.person(name) for name in (ANNA, BEN, "admin"))
    assert "data-left" not in anna.get("/submit").text
    form = {"season": "s1", "until": "2101-01-31T18:00"}
    done = admin.do("/admin/season/deadline", form)
    assert done.headers["location"].endswith("/admin/season?done=until")
    more = {**form, "author": ANNA, "until": "2101-02-28T18:00"}
    assert admin.do("/admin/season/deadline", more).status == 303
    everybodys, annas = ('datetime="2101-01-31T18:00:00Z" data-here', '"2101-02-28T18:00:00Z"')
    assert annas in anna.get("/submit").text
    assert everybodys in ben.get("/submit").text
    assert everybodys in ben.get("/").text
    page = admin.get("/admin/season").text
    assert everybodys in page
    assert annas in page
    wrong = admin.do("/admin/season/deadline", {**form, "until": "soon"})
    assert wrong.status == 400
    assert "no time with its offset" in wrong.text
    assert admin.do("/admin/season/deadline", {**form, "until": ""}).status == 303
    assert "data-left" not in ben.get("/").text


OVER = ", which is over"


def ended(world: World) -> World:
    """The same ladder, whose season has taken in bots, but for anna's."""
    store = world.service.store
    later = store.now() + DAY_MS
    store.seasons.set_deadline("s1", later, MACHINE)
    store.seasons.extend("s1", ANNA, later + 3 * DAY_MS, MACHINE)
    with store.database.write() as connection:
        connection.execute(sql("UPDATE seasons SET submissions_until = created_at + 1"))
    return world


def test_who_is_too_late_is_offered_no_form_and_who_has_more_time_is(world: World) -> None:
    anna, ben, nobody = (ended(world).person(name) for name in (ANNA, BEN, ""))
    over = "and that time is over."
    for person, is_open in ((anna, True), (ben, False)):
        page = person.get("/submit")
        actions = {form.action for form in forms_of(page)}
        assert ("/submit" in actions) is is_open
        assert (over in page.text) is not is_open
        assert ('class="ds-button" href="/submit"' in person.get("/account").text) is is_open
    for person, is_open in ((anna, True), (ben, False), (nobody, False)):
        start, home = person.get("/start").text, person.get("/").text
        assert ("submit it in the browser" in start) is is_open
        for text in (start, home):
            (left,) = re.findall(r'<span data-left="([-\d]+)">', text)
            assert (int(left) > 0) is is_open
            assert (f'">{OVER}</span>' in text) is not is_open
    refused = ben.post_body("/submit", *multipart([("key", "k" * 32)], "late.py", b"# a bot\n"))
    assert refused.status == 409
    assert over in refused.text
    assert "/submit" not in {form.action for form in forms_of(refused)}


def test_a_page_for_one_reader_is_kept_for_nobody_else(world: World) -> None:
    anna, ben = (ended(world).person(name) for name in (ANNA, BEN))
    hers = anna.get("/")
    assert hers.headers["cache-control"] == "no-store"
    assert hers.headers["vary"] == "Cookie"
    for person in (ben, world.person(), world.person("admin")):
        assert person.get("/").headers["cache-control"] == "no-cache"
    assert "no-cache" in anna.get("/pairs").headers["cache-control"]


def test_after_the_last_season_nobody_submits_and_pages_say_so(world: World) -> None:
    store = world.service.store
    lease = store.submissions.claim("runner", 60)
    assert lease is not None
    store.seasons.close("s1")
    # What came in time is checked, and told when it plays.
    bundle = ladder.a_bundle("hers")
    bundle = replace(bundle, name="second")
    assert store.submissions.accept(lease, bundle, LIMITS, 1, has_played=True)
    anna = world.person(ANNA)
    page = anna.get("/submissions/1").text
    assert "It plays once a season is opened" in page
    assert "from now on" not in page
    closed = "Every season is closed, so no bots are taken in until another one is opened."
    for path in ("/submit", "/account"):
        text = anna.get(path)
        assert closed in text.text
        assert "/submit" not in {form.action for form in forms_of(text)}
    assert "Not now: every season is closed" in anna.get("/start").text


def test_at_the_quota_the_form_is_not_there_and_the_page_says_when_the_next_is_possible(
    world: World,
) -> None:
    store = world.service.store
    store.settings.change("submissions_per_hour", 1, MACHINE)
    world.service.read_settings()
    page = world.person(ANNA).get("/submit")
    assert "/submit" not in {form.action for form in forms_of(page)}
    assert "You have submitted 1 times within an hour; 1 are the most." in page.text
    at = r'<time datetime="[^"]+" data-here>[-:\d ]+</time> <small>UTC</small>'
    words = rf"Try again in (\d+ h )?\d+ min, at {at}\."
    assert re.search(words, page.text)
    assert "/submit" in {form.action for form in forms_of(world.person(BEN).get("/submit"))}


def test_the_form_of_a_submission_says_how_many_are_left(world: World) -> None:
    """Those that a command submits on the ladder's machine do not count."""
    store = world.service.store
    submissions.add(store, store.authors.id_of(ANNA), "another", by_machine=True)
    told = "{} of 10 submissions left in this hour, {} of 40 in this day."
    assert told.format(9, 39) in world.person(ANNA).get("/submit").text
    assert told.format(10, 40) in world.person(BEN).get("/submit").text


def test_an_account_leads_to_the_last_losses_of_its_bots(world: World) -> None:
    anna = world.person(ANNA)
    assert 'href="/games?bot=anna&amp;lost=1">' in anna.get("/account").text
    assert anna.get("/games?bot=anna&lost=1").status == 200


def test_a_submission_says_its_bot_and_how_long_it_has_waited(world: World) -> None:
    html = world.person(ANNA).get("/submissions/1").text
    assert "<h1>Submission 1: second</h1>" in html
    assert re.search(r"It has waited for \d+ \w+\.", html)
    lease = world.service.store.submissions.claim("a runner", 60)
    assert lease is not None
    world.service.store.submissions.refuse(lease, SubmissionRefusal("it does not start"), 0)
    html = world.person(ANNA).get("/submissions/1").text
    assert re.search(r"refused \d+ \w+ later", html)
    assert "has waited" not in html


def test_pages_say_that_a_season_is_paused(world: World) -> None:
    admin = world.person("admin")
    for paused, done in (("1", "paused"), ("0", "resumed")):
        answer = admin.do("/admin/season/paused", {"season": "s1", "paused": paused})
        assert answer.headers["location"].endswith(f"/admin/season?done={done}")
        assert ("<bdi>s1</bdi>, paused" in world.person().get("/").text) == (paused == "1")


def test_an_admin_sees_what_an_author_submitted_and_why_it_was_refused(world: World) -> None:
    store, admin = world.service.store, world.person("admin")
    lease = store.submissions.claim("a runner", 60)
    assert lease is not None
    store.submissions.refuse(lease, SubmissionRefusal(found="it sings", remedy="be silent"), 0)
    assert f'href="/submissions/{lease.id}"' in admin.get(f"/admin/authors/{lease.author}").text
    page = admin.get(f"/submissions/{lease.id}").text
    for words in ("it sings", "What the author can do", "be silent", f"/admin/authors/{ANNA}"):
        assert words in page
    assert "What you can do" in world.person(ANNA).get(f"/submissions/{lease.id}").text


def test_a_game_in_quarantine_gets_another_try(world: World) -> None:
    store = world.service.store
    store.jobs.add(store.seasons.get("s1"), ladder.rotations(ladder.ids(store), 1))
    with store.database.write() as connection:
        connection.execute(
            sql("UPDATE tasks SET state = 'quarantined', words = '<b>' WHERE subject = 5")
        )
    admin = world.person("admin")
    assert "&lt;b&gt;" in admin.get("/admin").text
    answer = admin.send("/admin", "/admin/quarantine/requeue")
    assert answer.headers["location"] == "/admin?done=requeued"
    assert "waits for a worker" in admin.get("/admin?done=requeued").text
    assert "s1-5" not in admin.get("/admin").text


def test_who_has_too_small_a_token_can_leave(world: World) -> None:
    anna = world.person(ANNA)
    answer = anna.do("/account/tokens", {"label": "uploads", "scopes": "submit"})
    (token,) = re.findall(r"dsl_[0-9a-f]{64}", answer.text)
    small = Person(world.site)
    small.log_in(token)
    answer = small.get("/account")
    assert answer.status == 403
    assert 'href="/login"' in answer.text
    assert small.send("/login", "/logout").status == 303
    assert small.cookies == {}


def test_what_is_somebody_elses_is_refused_as_what_is_not_there(world: World) -> None:
    ben = world.person(BEN)
    hers = ["/submissions/1", "/account/bots/anna/bot.zip"]
    nobodys = ["/submissions/99", "/account/bots/nobody/bot.zip"]
    for one, other in zip(hers, nobodys, strict=True):
        first, second = ben.get(one), ben.get(other)
        assert (first.status, second.status) == (404, 404)
        words = first.text.replace("anna", "nobody").replace("1", "99")
        assert words == second.text.replace("1", "99")


# ---------------------------------------------------------------------------------- foreign forms


FOREIGN = {
    "no origin": {"Origin": ""},
    "a foreign origin": {"Origin": "https://evil.example"},
    "an opaque origin": {"Origin": "null"},
    "another port": {"Origin": "http://127.0.0.1:8081"},
    "another scheme": {"Origin": "https://127.0.0.1:8080"},
    "a foreign page": {"Sec-Fetch-Site": "cross-site"},
    "a neighbour's page": {"Sec-Fetch-Site": "same-site"},
    "the address bar": {"Sec-Fetch-Site": "none"},
}
"""By what is wrong: headers that differ from those of a page of the site."""


OPEN_TO_ALL = ("/login", "/join", "/submit", "/play", "/play/{id}/deed")
"""The forms that are sent here as a visitor sends them, too."""


@pytest.mark.parametrize("wrong", FOREIGN)
def test_a_form_from_elsewhere_does_nothing(
    unchanged: World, readers: list[Person], wrong: str
) -> None:
    visitor, _, _, admin = readers
    before = unchanged.state()
    for person, addresses in ((admin, (*DEEDS,)), (visitor, OPEN_TO_ALL)):
        for address in addresses:
            fields = [*DEEDS[address].items()]
            if address == "/submit":
                kind, body = multipart([*fields, ("key", "k" * 16)], "mine.py", b"print(1)")
                answer = person.post_body(address, kind, body, FOREIGN[wrong])
            else:
                answer = person.post(address, fields, FOREIGN[wrong])
            assert answer.status == 403, address
    assert unchanged.state() == before


def test_a_form_of_another_kind_does_nothing(unchanged: World, readers: list[Person]) -> None:
    """The kinds that pages of other sites can send without asking."""
    _, anna, *_ = readers
    before = unchanged.state()
    for kind in ("text/plain", "application/json", ""):
        assert anna.post_body("/account/bots/withdraw", kind, b"bot=anna").status == 415
    assert unchanged.state() == before


def test_every_form_of_every_page_is_sent_to_the_site(readers: list[Person]) -> None:
    visitor, anna, _, admin = readers
    for person in (visitor, anna, admin):
        for address in SEEN_BY:
            answer = person.get(address)
            if answer.status == 200 and not address.endswith(".zip"):
                assert all(form.action.startswith("/") for form in forms_of(answer))


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"\xff\xfe=1", 400),
        (b"a" * 70_000, 413),
        (b"&".join(b"x%d=1" % n for n in range(200)), 400),
        (b"form", 400),
    ],
)
def test_a_form_that_is_none_gets_a_sentence(
    readers: list[Person], body: bytes, status: int
) -> None:
    answer = readers[1].post_body("/logout", "application/x-www-form-urlencoded", body)
    assert answer.status == status
    assert '<p class="sentence">' in answer.text


def test_logging_out_leaves_other_logins(world: World) -> None:
    here, there = world.person(ANNA), world.person(ANNA)
    cookies = dict(here.cookies)
    assert here.do("/logout", {}).status == 303
    assert here.cookies == {}
    here.cookies = cookies
    assert here.get("/account").status == TO_LOGIN
    assert there.get("/account").status == 200
