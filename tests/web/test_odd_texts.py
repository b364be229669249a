"""Texts that no store has: control characters and half surrogate pairs.

They are refused for every page, form and method, on each database, before a statement is sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from deepsea_arena.api.ladder_api import METHODS, ROOT
from deepsea_ladder.limits import RemoteLimits
from deepsea_ladder.store import Store
from deepsea_web.http_api import http_api
from deepsea_web.serve import with_api
from deepsea_web.site.app import Site
from deepsea_web.site.pages import ENDPOINTS, MEMBERS, PAGES
from helpers import ladder
from helpers.members import Person, a_service, an_admin_token
from helpers.site import a_site, get

CONTENTS = ladder.to_play
ODD = ["\0", "a\x1fb", "\x7f", "\u0085"]
SENTENCE = "has a control character, or half of a surrogate pair"
PATHS = [
    *(page.path for page in PAGES),
    *(page.path for page in MEMBERS.pages),
    *(path for path in (*ENDPOINTS, *MEMBERS.endpoints)),
]

pytestmark = pytest.mark.databases


@pytest.fixture
def site(store: Store) -> Iterator[Site]:
    """The site of a ladder, with its API."""
    site = a_site(a_service(store, limits=RemoteLimits(calls_per_minute=10_000)))
    api = http_api(site.gateway, site.access)
    site.app = with_api(site.app, api, site.access)
    yield site
    site.gateway.close()


def filled(path: str, text: str) -> str:
    """A path whose parts in braces are a text."""
    return re.sub(r"\{\w+\}", quote(text, safe=""), path)


def test_an_address_with_a_control_character_is_refused_for_every_page(site: Site) -> None:
    for path in PATHS:
        addresses = [f"{filled(path, 'x')}?season={quote(odd)}" for odd in ODD]
        if "{" in path:
            addresses += [filled(path, odd) for odd in ODD]
        for address in addresses:
            answer = get(site, address)
            assert (answer.status, SENTENCE in answer.text) == (400, True), address


def test_a_form_with_a_control_character_is_refused(site: Site) -> None:
    person = Person(site)
    for action in MEMBERS.actions:
        if not action.has_file and action.fields:
            fields = [(action.fields[0], "a\0b")]
            answer = person.post(filled(action.path, "x"), fields)
            assert (answer.status, SENTENCE in answer.text) == (400, True), action.path


def test_a_text_that_no_store_has_is_refused_for_every_method(site: Site) -> None:
    token = an_admin_token(site.gateway.service)
    for method in METHODS.values():
        parameters = [name for name in method.parameters if f"{{{name}}}" not in method.path]
        asked: list[tuple[str, bytes]] = []
        if "{" in method.path:
            asked += [(filled(method.path, odd), b"") for odd in ODD]
        if parameters and method.verb in ("GET", "DELETE"):
            path = filled(method.path, "1")
            asked += [(f"{path}?{parameters[0]}={quote(odd)}", b"") for odd in ODD]
        if method.verb == "POST":
            for text in (*ODD, "\ud800", "x\udfff", "\udc00\ud800"):
                documents: list[object] = [
                    {"state": text},
                    {text: 1},
                    {"state": [{"a": ["", text]}]},
                ]
                path = filled(method.path, "1")
                asked += [(path, json.dumps(document).encode()) for document in documents]
        for path, body in asked:
            answer = get(
                site,
                f"{ROOT}{path}",
                method.verb,
                body=body,
                headers={"Authorization": f"Bearer {token}"},
            )
            error = json.loads(answer.text)["error"]
            assert (answer.status, error["code"]) == (400, "INVALID_ARGUMENT"), (path, body)
            assert SENTENCE in error["message"]


@pytest.mark.parametrize("text", ["Zoë", "日本", "🤿", "two\nlines\tand a tab"])
def test_texts_of_all_scripts_are_taken(site: Site, text: str) -> None:
    token = an_admin_token(site.gateway.service)
    for body in (json.dumps({"state": text}), json.dumps({"state": text}, ensure_ascii=False)):
        answer = get(
            site,
            f"{ROOT}/admin/bots/anna/state",
            "POST",
            body=body.encode(),
            headers={"Authorization": f"Bearer {token}"},
        )
        assert (answer.status, SENTENCE in answer.text) == (400, False)
    assert get(site, f"/?season={quote(text)}").status == 404


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"name": "s2", "clock": "abc"}, "abc"),
        ({"name": "s2", "clock": 5}, "clock must be a text, not"),
        ({"name": "S 2"}, "a season's name"),
        ({"name": "s2", "rules": "nonsense"}, "nonsense"),
        ({"name": "s2", "rules": {"name": "x", "base": "manual", "options": {"air": 0}}}, "air"),
        ({"name": "s2", "packages": ["no package"]}, "no package"),
        ({"name": "s2", "rating": {"sigma": 0}}, "sigma"),
        ({"name": "s2", "seats": [9]}, "seats"),
        ({"name": "s2", "verdicts": {"panel": ["greedy", "Greedy"]}}, "names 'greedy' twice"),
        ({"name": "s2", "verdicts": {"panel": ["greedy", "greedy"]}}, "names 'greedy' twice"),
    ],
)
def test_a_season_from_afar_is_refused_with_the_sentence_that_says_why(
    site: Site, settings: dict[str, Any], sentence: str
) -> None:
    token = an_admin_token(site.gateway.service)
    answer = get(
        site,
        f"{ROOT}/admin/seasons",
        "POST",
        body=json.dumps({"settings": settings}).encode(),
        headers={"Authorization": f"Bearer {token}"},
    )
    error = json.loads(answer.text)["error"]
    assert (answer.status, error["code"]) == (400, "INVALID_ARGUMENT")
    assert sentence in error["message"]
