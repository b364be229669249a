"""Random bytes to every form and page of people with an account: an answer, and never a failure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deepsea_web.access import HEADERS
from deepsea_web.site.pages import ENDPOINTS, MEMBERS, PAGES
from deepsea_web.site.words import rights
from helpers.members import Person
from helpers.tiers import daily
from helpers.world import Stock, World, opened

FORM = "application/x-www-form-urlencoded"
PATHS = sorted({page.path for page in MEMBERS.pages} | set(MEMBERS.endpoints))
ACTIONS = [action.path for action in MEMBERS.actions if action.path != "/logout"]
"""Those that do not end the admin's session with any form at all."""
KINDS = [FORM, "multipart/form-data; boundary=b0und", "", "text/plain"]
FIELDS = sorted({name for action in MEMBERS.actions for name in action.fields})
WORDS = st.one_of(
    st.text(max_size=60),
    st.sampled_from(["", "0", "-1", "1", "9" * 30, "anna", "x" * 5000, "\x00", "'", "../", "١"]),
)


@pytest.fixture(scope="module")
def world(stock: Stock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A ladder for all of it: whatever happens to it is fine."""
    with opened(stock, tmp_path_factory.mktemp("world")) as found:
        yield found


@pytest.fixture(scope="module")
def people(world: World) -> tuple[Person, Person]:
    """A visitor, and an admin with every right."""
    return world.person(), world.person("admin")


def is_fine(person: Person, method: str, path: str, body: bytes, kind: str) -> None:
    answer = person.get(path) if method == "GET" else person.post_body(path, kind, body)
    assert answer.status < 500, answer.text
    assert all(answer.headers.getlist(name) == [value] for name, value in HEADERS.items())
    assert answer.headers["cache-control"] == "no-store"


@settings(max_examples=20)
@given(
    action=st.sampled_from(ACTIONS),
    fields=st.dictionaries(st.sampled_from(FIELDS), WORDS, max_size=5),
    who=st.integers(0, 1),
)
def test_a_form_with_any_words_gets_an_answer(
    people: tuple[Person, Person], action: str, fields: dict[str, str], who: int
) -> None:
    # An admin who blocks or resets the only admin would end the test.
    if action.startswith("/admin/author/") and fields.get("author", "").lower() == "admin":
        return
    answer = people[who].do(action, {name: _sendable(text) for name, text in fields.items()})
    assert answer.status < 500, answer.text


@given(
    action=st.sampled_from(ACTIONS),
    body=st.binary(max_size=300),
    kind=st.sampled_from(KINDS),
)
def test_any_bytes_get_an_answer(
    people: tuple[Person, Person], action: str, body: bytes, kind: str
) -> None:
    for person in people:
        is_fine(person, "POST", action, body, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_logging_out_with_any_bytes_gets_an_answer(world: World, kind: str) -> None:
    for person in (world.person(), world.person("admin")):
        is_fine(person, "POST", "/logout", b"\xff\x00=&", kind)


@settings(max_examples=20)
@given(path=st.sampled_from(PATHS), part=WORDS, query=st.binary(max_size=40))
def test_any_address_gets_an_answer(
    people: tuple[Person, Person], path: str, part: str, query: bytes
) -> None:
    for name in ("{id}", "{author}", "{bot}"):
        path = path.replace(name, quote(_sendable(part), safe="") or "-")
    for person in people:
        if "events" not in path:
            is_fine(person, "GET", f"{path}?{quote(query)}&done={quote(query)}", b"", "")


@pytest.mark.parametrize(
    "text",
    daily(
        ["9" * 5000, "9" * 20, "s1-" + "9" * 5000, "-1", "1e9", "\u0663", "\x00", "..", "a/b"],
        ["9" * 20],
    ),
)
def test_no_text_in_the_place_of_another_is_a_failure_of_the_server(
    world: World, people: tuple[Person, Person], text: str
) -> None:
    """In each part of each address, and in each parameter that anything reads, of an admin."""
    world.site.gateway.closing.set()  # streams end at once
    asked = [(page.path, page.parameters) for page in PAGES]
    asked += [(page.path, page.parameters) for page in MEMBERS.pages]
    asked += [(path, ("after", "seat", "version")) for path in (*ENDPOINTS, *MEMBERS.endpoints)]
    statuses, odd = set(), quote(text, safe="")
    for path, names in asked:
        known = re.sub("{.*?}", "1", path)
        urls = re.sub("{.*?}", odd, path), *(f"{known}?{name}={odd}" for name in names)
        statuses |= {people[1].get(url).status for url in urls}
    # A control character is refused wherever it stands.
    assert statuses >= ({404, 400, 200} if text.isprintable() else {400, 200})
    assert max(statuses) < 500


def test_what_is_no_form_is_no_news(
    people: tuple[Person, Person], caplog: pytest.LogCaptureFixture
) -> None:
    kind = "multipart/form-data; boundary=b0und"
    answer = people[1].post_body("/submit", kind, b"nothing\r\n")
    assert (answer.status, "the form cannot be read" in answer.text.lower()) == (400, True)
    assert caplog.messages == []


def _sendable(text: str) -> str:
    return text.encode(errors="replace").decode()


def test_rights_in_words() -> None:
    assert rights(["read"]) == "read what is yours"
    assert rights(["read", "x"]) == "read what is yours and x"
    assert rights([]) == ""
