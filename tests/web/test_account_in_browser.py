"""Pages of people with an account in a real browser: by keys, narrow, without JavaScript."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect
from sqlalchemy import text as sql

from deepsea_bundle import names
from deepsea_ladder.model import SubmissionRefusal
from deepsea_ladder.store import Store
from deepsea_ladder.store.columns import packed
from deepsea_rules.game import GameRecord
from deepsea_web.access import CSP
from helpers import ladder, submissions
from helpers.chromium import (
    SCHEMES,
    Scheme,
    fits,
    keep_screenshot,
    runs_nothing,
    visited,
    without_violations,
)
from helpers.pages import RUN, saying
from helpers.tiers import daily
from helpers.world import ANNA, BEN, World

pytestmark = pytest.mark.slow


@contextmanager
def logged_in(browser: Browser, url: str, token: str, **options: object) -> Iterator[Page]:
    """A page of somebody with a session, or of a visitor, who has no token."""
    with visited(browser, f"{url}/login", **options) as page:  # type: ignore[arg-type]
        if token:
            page.get_by_label("Token", exact=True).fill(token)
            page.get_by_role("button", name="Log in").click()
            expect(page).to_have_url(f"{url}/account")
        yield page


OF_VISITORS = ("/login", "/join")
OF_AUTHORS = ("/account", "/submit", "/submissions/1", "/games/s1-2")
OF_ADMINS = (
    "/admin",
    "/admin/season",
    "/admin/codes",
    "/admin/authors",
    f"/admin/authors/{ANNA}",
    "/admin/bots",
    "/admin/audit",
)


# All pages have their colours from one file: who has logged in sees them in the dark before a
# release.
@pytest.mark.parametrize(
    ("who", "schemes"),
    [
        pytest.param("", SCHEMES, id="visitor"),
        pytest.param(ANNA, SCHEMES[:1], id="author"),
        pytest.param("admin", SCHEMES[:1], id="admin"),
        pytest.param(ANNA, SCHEMES[1:], id="author in the dark", marks=pytest.mark.release),
        pytest.param("admin", SCHEMES[1:], id="admin in the dark", marks=pytest.mark.release),
    ],
)
def test_the_pages_fit_and_break_no_rule(
    chromium: Browser, served: tuple[World, str], who: str, schemes: tuple[Scheme, ...]
) -> None:
    world, url = served
    with logged_in(chromium, url, world.tokens.get(who, "")) as page:
        for address in {"": OF_VISITORS, ANNA: OF_AUTHORS, "admin": OF_ADMINS}[who]:
            page.goto(url + address)
            fits(page, f"account-{address.strip('/').replace('/', '-')}")
            for scheme in schemes:
                without_violations(page, scheme)


def test_wide_names_and_states_have_their_room(
    chromium: Browser, served: tuple[World, str]
) -> None:
    world, url = served
    store = world.service.store
    ladder.submit(store, "W" * 40, "wide", "M" * 40)
    refused = submissions.add(store, submissions.an_author(store, "M" * 40), "bad")
    lease = store.submissions.claim("runner", 60, int(refused.id))
    assert lease is not None
    assert store.submissions.refuse(lease, SubmissionRefusal("it was refused, " * 20), 0)
    with logged_in(chromium, url, world.tokens["admin"], width=360) as page:
        page.goto(f"{url}/play")
        for width in (320, 390, 820, 1200):
            page.set_viewport_size({"width": width, "height": 800})
            card, name = (
                page.locator(one).bounding_box() for one in (".card", ".tick:has-text('WWW') bdi")
            )
            assert card is not None
            assert name is not None
            assert name["x"] + name["width"] <= card["x"] + card["width"] <= width
        page.goto(f"{url}/admin/bots")
        for width in (320, 820):
            page.set_viewport_size({"width": width, "height": 800})
            widths = page.locator("td.why").evaluate_all("all => all.map((one) => one.clientWidth)")
            assert min(widths) > 120  # in which "suspended" is not broken
        page.goto(f"{url}/admin")
        for width in (320, 390, 768, 820, 1101, 1200):
            page.set_viewport_size({"width": width, "height": 800})
            table = page.get_by_role("region", name="Authors, in season")
            assert table.evaluate("table => table.scrollWidth - table.clientWidth") == 0
            assert table.get_by_role("row").last.is_visible()


@pytest.mark.parametrize("scripts", [True, False])
def test_a_deadline_is_typed_and_shown_where_the_reader_is_and_without_scripts_in_utc(
    chromium: Browser, served: tuple[World, str], scripts: bool
) -> None:
    world, url = served
    admin = world.ladder("admin")
    admin.set_deadline(season="s1", until="2031-05-04T17:30Z")
    there, more = ("2031-05-05T02:30", "+09:00") if scripts else ("2031-05-04T17:30", "+00:00")
    options = {"timezone_id": "Asia/Tokyo", "java_script_enabled": scripts}
    zone = "in your time" if scripts else "in UTC"
    with logged_in(chromium, url, world.tokens["admin"], **options) as page:
        for label, button, author in (("Takes in bots", "Set", ""), ("May", "Let submit", ANNA)):
            page.goto(f"{url}/admin/season")
            field = page.get_by_label(re.compile(f"^{label}.* until, {zone}$"))
            assert field.input_value() == ("" if author else there)
            beside = page.get_by_text("2031-05-04 17:30 UTC", exact=True)
            assert beside.count() == (scripts and not author)
            typed = f"2031-07-0{2 if author else 1}T08:15"
            field.fill(typed)
            if author:
                page.get_by_label("Author", exact=True).fill(author)
            page.get_by_role("button", name=button, exact=True).click()
            expect(page.get_by_role("status")).to_be_visible()
            control = admin.season_control(season="s1")
            until = control.extensions[0].until if author else control.season.submissions_until
            assert until == datetime.fromisoformat(f"{typed}{more}")


# Without scripts the forms are sent as tests/web/test_account_forms.py sends them.
@pytest.mark.parametrize("scripts", daily([True, False], [True]))
def test_one_joins_submits_and_leaves_by_keys(
    chromium: Browser, served: tuple[World, str], tmp_path: Path, scripts: bool
) -> None:
    world, url = served
    (code,) = world.ladder().create_codes(count=1)
    bot = tmp_path / "deep_diver.py"
    bot.write_text("print('hello')\n", encoding="utf-8")
    start = f"{url}/join#{code.code}"
    with visited(chromium, start, width=360, java_script_enabled=scripts) as page:
        field = page.get_by_label("Code", exact=True)
        if scripts:
            # The code came with the address, and is gone from it.
            expect(field).to_have_value(code.code)
            assert page.evaluate("location.hash") == ""
            expect(page.get_by_role("button", name="Join")).to_be_focused()
        else:
            field.focus()
            page.keyboard.insert_text(code.code)
        page.keyboard.press("Enter")
        expect(page.get_by_label("Author name")).to_be_focused()
        page.keyboard.type("zoe")
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text("Welcome, zoe")
        keep_screenshot(page, f"account-joined-360-{'with' if scripts else 'without'}")
        token = page.locator("#secret").text_content() or ""
        assert token.startswith("dsl_")
        expect(page.get_by_role("button", name="Copy")).to_have_count(1 if scripts else 0)

        page.get_by_role("link", name="submit a bot").focus()
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text("Submit a bot")
        page.get_by_label("File", exact=True).set_input_files(bot)
        page.get_by_role("button", name="Submit").focus()
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text("Submission 2: deep_diver")
        expect(page.locator("#state")).to_contain_text("waits")
        expect(page.locator("meta[http-equiv=refresh]")).to_have_count(0 if scripts else 1)

        # The check goes on, and the page shows it by itself.
        store = world.service.store
        _checked(store, "running", "games = 1, of_games = 4")
        expect(page.locator("#state")).to_have_text("is checked: game 1 of 4")
        _checked(
            store,
            "refused",
            "found = 'a timeout', remedy = 'be faster', error = 'Traceback', "
            "log = '[\"<b>the end\"]'",
        )
        expect(page.locator("#state")).to_have_text("refused")
        expect(page.locator("main")).to_contain_text("<b>the end")
        fits(page, f"account-refused-{'with' if scripts else 'without'}")

        page.get_by_role("button", name="Log out").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("status")).to_have_text("You are logged out.")
        page.goto(f"{url}/submissions/2")
        expect(page.locator("h1")).to_have_text("Log in")
        page.get_by_label("Token", exact=True).fill(token)
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_have_text("Submission 2: deep_diver")


def _checked(store: Store, state: str, values: str) -> None:
    with store.database.write() as connection:
        connection.execute(sql(f"UPDATE submissions SET {values} WHERE id = 2"))
        change = f"UPDATE tasks SET state = '{state}' WHERE kind = 'check' AND subject = 2"
        connection.execute(sql(change))


def test_codes_are_printed_without_the_page_around_them(
    chromium: Browser, served: tuple[World, str]
) -> None:
    world, url = served
    with logged_in(chromium, url, world.tokens["admin"]) as page:
        page.goto(f"{url}/admin/codes")
        page.get_by_label("For new authors").fill("5")
        page.get_by_label("And one each").fill("zoe\nyan")
        page.get_by_role("button", name="Make codes").click()
        expect(page.locator(".coupons li")).to_have_count(7)
        fits(page, "account-coupons")
        page.emulate_media(media="print")
        assert page.locator("header.top").is_hidden()
        keep_screenshot(page, "account-coupons-print")


@pytest.mark.parametrize(("who", "bots"), [("", []), (BEN, ["ben"]), (ANNA, ["anna"])])
def test_what_is_the_readers_own_comes_by_scripts(
    chromium: Browser, served: tuple[World, str], who: str, bots: list[str]
) -> None:
    """To pages whose bytes are the same for everybody."""
    world, url = served
    asked: list[str] = []
    with logged_in(chromium, url, world.tokens.get(who, "")) as page:
        page.on("request", lambda request: asked.append(request.url))
        page.goto(f"{url}/")
        expect(page.get_by_role("link", name="Account")).to_have_count(1 if who else 0)
        expect(page.get_by_role("link", name="Log in / Join")).to_have_count(0 if who else 1)
        own = page.locator("tr", has_text="yours").locator("a")
        assert own.all_text_contents() == bots
        keep_screenshot(page, f"own-standings-{who or 'visitor'}")
        page.goto(f"{url}/games/s1-2")
        page.wait_for_load_state("networkidle")
        ask = page.get_by_role("button", name="Analyse this game")
        expect(ask).to_be_visible(visible=bool(who))
        expect(page.get_by_text("What your bots left")).to_have_count(1 if who == ANNA else 0)
        assert (f"{url}/games/s1-2/own" in asked) == bool(who)
        keep_screenshot(page, f"own-game-{who or 'visitor'}")
        if who == ANNA:
            expect(page.locator("#own")).to_contain_text("Traceback")


def test_without_scripts_what_is_the_readers_own_has_a_page(
    chromium: Browser, served: tuple[World, str]
) -> None:
    world, url = served
    with logged_in(chromium, url, world.tokens[ANNA], java_script_enabled=False) as page:
        page.goto(f"{url}/games/s1-2")
        page.get_by_role("link", name="What your bots left of it").click()
        expect(page.locator("#own")).to_contain_text("Traceback")
        page.get_by_role("link", name="To the game").click()
        page.get_by_role("link", name="Ask for its analysis").click()
        page.get_by_role("button", name="Analyse this game").click()
        expect(page.locator("#analysis-state")).to_have_text("The analysis is queued, it is next.")
        page.get_by_role("link", name="Log in / Join").click()
        expect(page.locator("h1")).to_have_text(ANNA)


NAME = "'\"><img src=x onerror=ran=1>"
PLANTED = (
    "UPDATE authors SET name = :name, name_key = :key WHERE name = 'anna-senior'",
    "UPDATE bots SET name = :name, name_key = :key, reason = :text WHERE name = 'anna'",
    "UPDATE secrets SET label = :text",
    "UPDATE audit SET note = :text, subject = :text",
    "UPDATE submissions SET bot = :name, found = :text, remedy = :text",
    "UPDATE tasks SET state = 'refused' WHERE kind = 'check'",
    "UPDATE tasks SET words = :text",
    "UPDATE submissions SET error = :text, log = json_array(:text)",
    "UPDATE games SET record = :record WHERE game_id = 's1-2'",
    "UPDATE game_logs SET content = :log",
)


def test_no_text_of_a_stranger_is_run(chromium: Browser, served: tuple[World, str]) -> None:
    """Names, notes, tracebacks, logs and what came instead of actions, wherever pages have them."""
    world, url = served
    store = world.service.store
    record = GameRecord.from_json(store.games.record("s1-2"))
    log = json.dumps([f"Traceback: {RUN}", RUN, []])
    given = {
        "name": NAME,
        "key": names.key(NAME),
        "text": RUN,
        "record": packed(saying(record, RUN).to_json().encode()),
        "log": zlib.compress(log.encode()),
    }
    with store.database.write() as connection:
        for change in PLANTED:
            connection.execute(sql(change), given)
    author = f"/admin/authors/{quote(NAME)}"
    seen = {
        "": ("/", "/games", f"/bots/{quote(NAME)}", "/games/s1-2", "/pairs", "/tv", "/feed"),
        ANNA: OF_AUTHORS,
        "admin": [author if ANNA in one else one for one in OF_ADMINS],
    }
    for who, addresses in seen.items():
        with logged_in(chromium, url, world.tokens.get(who, "")) as page:
            for number, address in enumerate(addresses):
                answer = page.goto(url + address)
                assert answer is not None
                assert answer.status == 200, address
                assert answer.headers["content-security-policy"] == CSP
                page.wait_for_load_state("networkidle")
                runs_nothing(page)
                fits(page, f"hostile-{who or 'visitor'}-{number}")


def test_a_foreign_page_cannot_send_a_form(
    chromium: Browser, served: tuple[World, str], tmp_path: Path
) -> None:
    """The browser itself says where a form comes from, whatever the page does."""
    world, url = served
    foreign = tmp_path / "foreign.html"
    foreign.write_text(
        f'<form method="post" action="{url}/logout"><button>win</button></form>', encoding="utf-8"
    )
    context = chromium.new_context()
    try:
        page = context.new_page()
        page.goto(f"{url}/login")
        for token in ("dsl_wrong", world.tokens[ANNA]):
            page.get_by_label("Token", exact=True).fill(token)
            page.get_by_role("button", name="Log in").click()
            if token == "dsl_wrong":
                expect(page.get_by_role("alert")).to_contain_text("not valid")
        expect(page).to_have_url(f"{url}/account")
        page.goto(foreign.as_uri())
        page.get_by_role("button", name="win").click()
        expect(page.locator("h1")).to_have_text("Forbidden")
        page.goto(f"{url}/account")
        expect(page.locator("h1")).to_have_text(ANNA)
    finally:
        context.close()
