"""The API's OpenAPI document: it describes all of what is served, and what is served fits it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from typing import Any, Final
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, given, settings

from deepsea_arena.api.declarations import Flow
from deepsea_arena.api.ladder_api import METHODS, ROOT
from deepsea_arena.api.openapi import openapi
from deepsea_arena.documents import json_text
from deepsea_ladder.limits import RemoteLimits
from deepsea_ladder.store import Store
from deepsea_web import http_api
from deepsea_web.access import Access
from deepsea_web.serve import with_api
from helpers.members import a_service
from helpers.remote import Server, served
from helpers.site import a_site, get
from helpers.tiers import daily
from helpers.world import ANNA, Stock

WITHOUT: Final = tuple(name for name, method in METHODS.items() if method.flow is Flow.EVENTS)
"""Streams, of which some do not end: tests of their own read them."""
ENDING: Final = ("anonymise_author", "block_author", "reset_author", "revoke_token", "end_session")
"""Methods that would end the tokens that the others are called with."""
ALL: Final = [*HealthCheck]
FAR: Final = Access("https://games.example", everybody=True)
LIMITS: Final = RemoteLimits(
    calls_per_minute=10**6, pages_per_minute=10**6, failures_per_hour=10**6, tokens=10**6
)


@pytest.fixture(scope="module")
def server(stock: Stock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    path = shutil.copy(stock[0], tmp_path_factory.mktemp("served"))
    with (
        Store.open(path) as store,
        served(a_service(store, limits=LIMITS)) as listening,
    ):
        yield listening


@pytest.mark.release  # a second; what is served is compared with it every time, below
def test_the_document_is_valid() -> None:
    from openapi_spec_validator import validate  # takes long

    validate(openapi())


def test_the_document_has_every_method() -> None:
    found = {
        one["operationId"]: (verb.upper(), path)
        for path, verbs in openapi()["paths"].items()
        for verb, one in verbs.items()
    }
    assert found == {name: (method.verb, method.path) for name, method in METHODS.items()}
    described = [one for verbs in openapi()["paths"].values() for one in verbs.values()]
    assert all(one["summary"].endswith(".") for one in described)
    schemas: Mapping[str, Any] = openapi()["components"]["schemas"]
    assert schemas["StandingLine"]["properties"]["rating"]["description"].startswith("mu - 3 sigma")
    assert schemas["GameLine"]["properties"]["seq"]["type"] == "string"


def test_the_document_is_made_once_counted_as_a_visit_and_not_sent_twice(
    stock: Stock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Mock(side_effect=openapi)
    monkeypatch.setattr(http_api, "openapi", made)
    http_api._description.cache_clear()
    far = {"client": "192.0.2.7"}
    with Store.open(stock[0]) as store:
        site = a_site(a_service(store, limits=RemoteLimits(pages_per_minute=10)), FAR)
        site.app = with_api(site.app, http_api.http_api(site.gateway, FAR), FAR)
        first = get(site, f"{ROOT}/openapi.json", **far)
        tag = first.headers["etag"]
        known = {"If-None-Match": f'"x", W/{tag}'}
        again = get(site, f"{ROOT}/openapi.json", headers=known, **far)
        statuses = [get(site, f"{ROOT}/openapi.json", **far).status for _ in range(9)]
        site.gateway.close()
    assert (first.status, json.loads(first.text)) == (200, json.loads(json_text(openapi())))
    assert (again.status, again.body) == (304, b"")
    assert statuses == [200] * 8 + [429]
    assert made.call_count == 1


def test_people_read_it_as_a_page(stock: Stock) -> None:
    with Store.open(stock[0]) as store:
        site = a_site(store)
        text = get(site, "/api").text
        site.gateway.close()
    for method in METHODS.values():
        assert f"<code>{method.verb} {method.path}</code>" in text
    assert f'href="{ROOT}/openapi.json"' in text


@pytest.mark.slow
@pytest.mark.parametrize("examples", [4, pytest.param(30, marks=pytest.mark.release)])
@pytest.mark.parametrize("caller", daily(["", ANNA, "admin"], ["admin"]))
def test_what_is_served_is_as_described(
    server: Server, stock: Stock, caller: str, examples: int
) -> None:
    import schemathesis  # takes long

    url = f"http://127.0.0.1:{server.port}{ROOT}"
    headers = {"Authorization": f"Bearer {stock[1][caller]}"} if caller else {}
    schema = schemathesis.openapi.from_dict({**openapi(), "servers": [{"url": url}]})
    asked = []
    for result in schema.get_all_operations():
        operation: Any = result.ok()
        name = operation.definition.raw["operationId"]
        if name in (*WITHOUT, *ENDING):
            continue

        @given(case=operation.as_strategy())
        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            suppress_health_check=[*HealthCheck],
        )
        def fits(case: Any) -> None:
            response = case.call(base_url=url, headers=headers)
            assert response.status_code < 500
            case.validate_response(
                response, checks=[schemathesis.checks.response_schema_conformance]
            )

        fits()
        asked.append(name)
    assert len(asked) == len(METHODS) - len(WITHOUT) - len(ENDING)
