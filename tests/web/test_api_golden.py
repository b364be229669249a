"""Answers of the ladder's API and commands, to the byte, compared with what they were when read.

Each method of the API has a file in goldens/http with the requests that are made of it, in order,
on a ladder that has something of everything (helpers.full_ladder); each command that prints JSON or
CSV has one in goldens/commands. JSON is broken into lines under the name of its spelling, from
which its bytes follow. Write them again after a change that is meant, and read the difference:

    PYTHONPATH=tests python tests/web/test_api_golden.py --write

Invariant: what differs from run to run or with the versions of libraries is replaced by `masked`
alone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from difflib import unified_diff
from http.client import HTTPConnection, HTTPResponse
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import click
import pytest

from deepsea_cli import main as program
from deepsea_ladder.limits import USUAL_LIMITS
from deepsea_sdk import __version__
from helpers.commands import called
from helpers.full_ladder import (
    PEOPLE,
    StoreClock,
    archive_of,
    code_of,
    connecting,
    stock,
    token_of,
)
from helpers.ladder_server import USUAL, LadderServer, Serving, methods

FOLDER: Final = Path(__file__).with_name("goldens")
ROOT: Final = "/api/v1"
HEADERS: Final = (
    "content-type",
    "content-disposition",
    "cache-control",
    "retry-after",
    "www-authenticate",
    "allow",
)
"""Those of an answer that are shown: what the API says, not what every page has."""
WIDTH: Final = 100
SPELLINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "spaced": {},
    "compact": {"separators": (",", ":")},
    "indented": {"indent": 2},
}
"""Ways to write JSON, as arguments of json.dumps."""
VISITOR: Final = "visitor"
READERS: Final = (VISITOR, "anna", "head")
ADMINS: Final = (VISITOR, "anna", "chief", "head")

ASKED: Final = 0
"""The number of the question that waits for anna."""

Pairs = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A request, made by each of some callers."""

    who: Sequence[str]
    target: str
    """Below ROOT, with `?` and what follows it; before it a verb, if it is not the method's."""
    body: object = None
    """Bytes, or what is sent as JSON."""
    headers: Pairs = field(default_factory=dict)
    events: int | None = None
    """Of a stream: how many events are read before the caller leaves; None: all."""
    times: int = 1
    """The last answer is the one that is shown."""
    words: bool = True
    """Whether the sentence of a refusal is the ladder's own, and not a library's."""


def ask(who: str | Sequence[str], target: str, body: object = None, **more: Any) -> Ask:
    """A request of callers whose names are separated by spaces."""
    names = who.split() if isinstance(who, str) else who
    return Ask(who=names, target=target, body=body, **more)


def unread(target: str, who: str = VISITOR, body: object = None, **more: Any) -> Ask:
    """A request that makes no sense to the library that reads it."""
    return ask(who, target, body, words=False, **more)


def upload(who: str, bot: str, text: str, **headers: str) -> Ask:
    """The upload of a bot of a text, followed to its first state."""
    archive = archive_of(text)
    said = {
        "X-Content-SHA256": hashlib.sha256(archive).hexdigest(),
        "Idempotency-Key": f"key of {text}".replace(" ", "-"),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    return ask(who, f"PUT /bots/{bot}", archive, headers=said, events=1)


def rename(who: str, author: str, **fields: object) -> Ask:
    """A request for another name of an author."""
    return ask(who, f"/admin/authors/{author}/rename", fields)


AUTUMN: Final = {
    "settings": {"name": "autumn", "seats": [2, 3], "limits": {"memory_mib": 64}},
    "deadline": "2027-06-01T18:00Z",
}
LAST: Final = {"kind": "elimination", "name": "last", "season": "main", "bots": ["anna", "ben"]}
MORE_TIME: Final = {"author": "anna-senior", "until": "2027-07-01T18:00Z"}

METHODS: Final[Mapping[str, Sequence[Ask]]] = {
    "GET /server": [ask(READERS, "/server"), ask(VISITOR, "/server?x=1")],
    "POST /redeem": [
        ask(VISITOR, "/redeem", {"code": code_of("newcomer")}),
        ask(VISITOR, "/redeem", {"code": code_of("newcomer"), "author": "machine"}),
        ask(VISITOR, "/redeem", {"code": code_of("newcomer"), "author": "ben-senior"}),
        ask(VISITOR, "/redeem", {"code": code_of("newcomer"), "author": "a\nb"}),
        ask(VISITOR, "/redeem", {"code": code_of("newcomer"), "author": "ida", "label": "x" * 61}),
        ask(VISITOR, "/redeem", {"code": code_of("newcomer"), "author": "ida", "label": "a lap"}),
        ask(VISITOR, "/redeem", {"code": code_of("gina"), "author": "ida"}),
        ask("anna", "/redeem", {"code": code_of("gina").lower().replace("-", " ")}),
        ask(VISITOR, "/redeem", {"code": code_of("gina")}),
        ask(VISITOR, "/redeem", {"code": "1234"}),
        ask(VISITOR, "/redeem", {}),
        ask(VISITOR, "/redeem", {"code": code_of("revoked")}, times=3),
    ],
    "GET /account": [ask("visitor anna reader chief head finn former", "/account")],
    "GET /account/tokens": [ask("visitor anna reader head", "/account/tokens")],
    "POST /account/tokens": [
        ask("visitor reader", "/account/tokens", {}),
        ask("anna", "/account/tokens", {}),
        ask("anna", "/account/tokens", {"label": " für CI\t", "scopes": ["read"], "days": 7}),
        ask("anna chief", "/account/tokens", {"scopes": ["read", "admin"]}),
        ask("head", "/account/tokens", {"scopes": ["admin", "read"]}),
        ask("anna", "/account/tokens", {"scopes": ["write"]}),
        ask("anna", "/account/tokens", {"days": 366}),
        ask("anna", "/account/tokens", {"days": -1}),
        ask("anna", "/account/tokens", {"label": "x" * 61}),
        ask("anna", "GET /account/tokens"),
    ],
    "DELETE /account/tokens/{id}": [
        ask("visitor reader ben", "/account/tokens/5"),
        ask("anna", "/account/tokens/99"),
        ask("reader", "/account/tokens/10"),
        ask("reader", "/account"),
        ask("anna", "/account/tokens/5"),
        ask("anna", "GET /account"),
        ask("chief", "/account/tokens/3"),
        ask("head", "/account/tokens/2"),
    ],
    "GET /account/sessions": [ask("visitor anna reader head", "/account/sessions")],
    "DELETE /account/sessions/{id}": [
        ask("visitor reader ben", "/account/sessions/12"),
        ask("anna", "/account/sessions/12", times=2),
        ask("anna", "GET /account/sessions"),
    ],
    "GET /audit": [
        ask("visitor anna reader chief", "/audit"),
        ask("anna", "/audit?limit=2"),
        ask("visitor anna chief head", "/audit?everybody=true"),
        ask("head", "/audit?everybody=true&limit=2"),
        ask("anna", "/audit?limit=1001"),
        ask("anna", "/audit?limit=-1"),
    ],
    "PUT /bots/{bot}": [
        upload("visitor reader", "fresh", "a fresh one"),
        upload("ben", "fresh", "a fresh one"),
        upload("ben", "fresh", "a fresh one", X_Content_SHA256="0" * 64),
        upload("ben", "other", "a fresh one"),
        upload("ben", "fresh", "another", Idempotency_Key="key-of-a-fresh-one"),
        upload("ben", "anna", "of anna"),
        upload("ben", "a%20b%0A", "a bad name"),
        upload("ben", "fresh", "no digest", X_Content_SHA256="x"),
        upload("ben", "fresh", "another digest", X_Content_SHA256="0" * 64),
        upload("ben", "fresh", "no key", Idempotency_Key=""),
        upload("ben", "fresh", "too large", Content_Length=str(17 << 20)),
        ask("ben", "/bots/fresh", b"0\r\n\r\n", headers={"Transfer-Encoding": "chunked"}),
        upload("ben", "fresh?size=1", "parameters"),
        upload("ben", "second", "one more"),
        upload("ben", "third", "too many that wait"),
        upload("head", "heads", "of the head"),
        ask("ben", "GET /submissions"),
    ],
    "GET /submissions/{id}": [
        ask("visitor ben head", "/submissions/2"),
        ask("anna reader", "/submissions/2"),
        ask("ben", "/submissions/1"),
        ask("ben", "/submissions/3"),
        ask("anna", "/submissions/4", events=1),
        ask("anna", "/submissions/5", events=1),
        ask("ben", "/submissions/6", events=1),
        ask("anna", "/submissions/99"),
        ask("anna", "/submissions/0"),
    ],
    "GET /submissions": [
        ask("visitor anna ben head", "/submissions"),
        ask("anna", "/submissions?limit=1"),
        ask("anna", "/submissions?limit=501"),
        ask("anna", "/submissions?limit=-1"),
        ask("anna chief head", "/submissions?author=ben-senior&limit=1"),
        ask("head", "/submissions?author=nobody"),
    ],
    "POST /bots/{bot}/withdraw": [
        ask("visitor reader anna head", "/bots/ben/withdraw", {}),
        ask("ben", "/bots/nobody/withdraw", {}),
        ask("ben", "/bots/BEN/withdraw", times=2),
        ask("head", "/admin/bots/ben/state", {"state": "disabled", "reason": "too late"}),
        ask("ben", "/bots/ben/withdraw"),
    ],
    "GET /bots/{bot}/archive": [
        ask("visitor ben head", "/bots/anna/archive"),
        ask("anna reader", "/bots/anna/archive"),
        ask("anna", "/bots/anna/archive?version=1"),
        ask("anna", "/bots/anna/archive?version=9"),
        ask("anna", "/bots/nobody/archive"),
    ],
    "GET /games/{game_id}/log": [
        ask("visitor anna reader ben head", "/games/main-2/log"),
        ask("ben", "/games/main-1/log"),
        ask("ben", "/games/none-1/log"),
    ],
    "GET /admin/queue": [ask(ADMINS, "/admin/queue")],
    "GET /account/bots": [
        ask("visitor anna ben head", "/account/bots"),
        ask("visitor anna chief head", "/account/bots?everybody=1"),
    ],
    "GET /standings": [
        ask(READERS, "/standings"),
        ask(READERS, "/standings?everybody=true"),
        ask(VISITOR, "/standings?season=spring"),
        ask(VISITOR, "/standings?season=spring&everybody=true"),
        ask(VISITOR, "/standings?season=cup&everybody=false"),
        ask(VISITOR, "/standings?season=%00%3Cb%3E"),
        ask(VISITOR, "/standings?everybody=yes"),
        ask(VISITOR, "/standings?all=true"),
        ask(VISITOR, "/standings?season=cup&season=spring"),
    ],
    "GET /settings": [
        ask(VISITOR, "/settings"),
        ask(VISITOR, "/settings?name=play_tables"),
        ask(VISITOR, "/settings?name=bot"),
    ],
    "GET /seasons": [ask(READERS, "/seasons")],
    "GET /season": [
        ask(READERS, "/season"),
        ask(VISITOR, "/season?season=spring"),
    ],
    "GET /pairs": [
        ask(READERS, "/pairs?size=3"),
        ask(VISITOR, "/pairs?season=spring&start=1&size=2"),
        ask(VISITOR, "/pairs?size=101"),
    ],
    "GET /verdicts": [
        ask(READERS, "/verdicts?bot=anna"),
        ask(VISITOR, "/verdicts"),
        ask(VISITOR, "/verdicts?bot=anna&version=2"),
        ask(VISITOR, "/verdicts?bot=anna&version=9"),
        ask(VISITOR, "/verdicts?bot=nobody"),
    ],
    "GET /tournaments": [ask(READERS, "/tournaments")],
    "GET /tournaments/{tournament}": [
        ask(READERS, "/tournaments/cup"),
        ask(VISITOR, "/tournaments/main"),
    ],
    "GET /games/{game_id}": [
        ask(READERS, "/games/spring-1"),
    ],
    "GET /bots/{bot}": [
        ask("visitor anna chief ben head", "/bots/ben"),
        ask(VISITOR, "/bots/anna"),
        ask(VISITOR, "/bots/anna?version=2&season=spring"),
        ask(VISITOR, "/bots/cleo"),
        ask(VISITOR, "/bots/EVE?season=spring"),
        ask(VISITOR, "/bots/nobody"),
        ask(VISITOR, "/bots/anna?version=9"),
    ],
    "GET /games": [
        ask(READERS, "/games"),
        ask(VISITOR, "/games?limit=2&before=14"),
        ask(VISITOR, "/games?limit=1&season=spring"),
        ask(VISITOR, "/games?bot=ben&against=anna&lost=true&limit=2"),
        ask(VISITOR, "/games?faults=true"),
        ask(VISITOR, "/games?bot=ben&faults=true"),
        ask(VISITOR, "/games?season=spring&bot=hal"),
        ask(VISITOR, "/games?bot=nobody"),
        ask(VISITOR, "/games?lost=true"),
        ask(VISITOR, "/games?limit=501"),
    ],
    "GET /games/{game_id}/record": [
        ask(READERS, "/games/main-2/record"),
        ask(VISITOR, "/games/%2E%2E/record"),
    ],
    "GET /games/{game_id}/frames": [
        ask(READERS, "/games/spring-1/frames"),
        ask(VISITOR, "/games/main-2/frames?seat=1"),
        ask(VISITOR, "/games/main-2/frames?seat=3"),
        ask(VISITOR, "/games/main-2/frames?seat=-1"),
    ],
    "POST /games/{game_id}/analysis": [
        ask("visitor reader", "/games/spring-5/analysis", {}),
        ask("anna head", "/games/spring-5/analysis", {}),
        ask("chief", "/games/spring-1/analysis"),
        ask("anna", "/games/spring-2/analysis"),
        ask("ben", "/games/spring-4/analysis"),
        ask("anna", "/games/none-1/analysis"),
    ],
    "GET /games/{game_id}/analysis": [
        ask(READERS, "/games/spring-1/analysis"),
        ask(VISITOR, "/games/spring-4/analysis"),
        ask(VISITOR, "/games/main-1/analysis"),
        ask(VISITOR, "/games/main-3/analysis"),
        ask(VISITOR, "/games/main-4/analysis"),
        ask("anna", "POST /games/spring-2/analysis", {}),
        ask(VISITOR, "/games/spring-2/analysis"),
    ],
    "GET /games/{game_id}/analysis/steps": [
        ask(READERS, "/games/spring-1/analysis/steps"),
        ask(VISITOR, "/games/spring-4/analysis/steps"),
        ask(VISITOR, "/games/main-1/analysis/steps", events=1),
        ask(VISITOR, "/games/main-3/analysis/steps", events=1),
        ask(VISITOR, "/games/main-4/analysis/steps"),
    ],
    "POST /play": [
        ask("visitor reader", "/play", {"opponents": 1, "seat": "A"}),
        ask("chief", "/play", {"bots": ["hal", "FINN"], "rules": "revised", "seat": "C"}),
        ask("chief", "/play", {"opponents": 1}),
        ask("ben", "/play", {"bots": ["nobody"]}),
        ask("ben", "/play", {"bots": ["hal", "hal"]}),
        ask("ben", "/play", {"opponents": 9}),
        ask("ben", "/play", {"rules": "chess"}),
        ask("ben", "/play", {"opponents": 1, "seat": "F"}),
        ask("ben", "/play", {"season": "cup"}),
        ask("ben", "/play", {"season": "spring"}),
    ],
    "GET /play": [ask("visitor anna reader ben head", "/play")],
    "GET /play/{game_id}": [
        ask("visitor ben head", "/play/person-asked"),
        ask("anna", "/play/person-asked", events=1),
        ask("anna", "/play/person-void"),
        ask("anna", "/play/none"),
    ],
    "POST /play/{game_id}/answer": [
        ask("visitor ben head", "/play/person-asked/answer", {"action": "leave"}),
        ask("anna", "/play/person-asked/answer", {"asked": 1, "action": "leave"}),
        ask("anna", "/play/person-asked/answer", {"asked": ASKED, "action": "swim"}),
        ask("anna", "/play/person-asked/answer", {"asked": ASKED, "action": "leave"}),
        ask("anna", "/play/person-asked/answer", {"asked": ASKED, "action": "leave"}),
        ask("ben", "/play/person-done/answer", {"asked": 1, "action": "leave"}),
    ],
    "POST /play/{game_id}/leave": [
        ask("visitor ben", "/play/person-asked/leave", {}),
        ask("anna", "/play/person-asked/leave", {}),
        ask("anna", "/play/person-asked/leave", {"drop": True}),
        ask("ben", "/play/person-done/leave", {"drop": True}),
        ask("anna", "/play/none/leave", {}),
    ],
    "GET /play/{game_id}/game": [
        ask("visitor anna", "/play/person-done/game"),
        ask("anna", "/play/person-asked/game"),
        ask("visitor", "/play/none/game"),
    ],
    "GET /export": [
        ask(READERS, "/export?season=final"),
        ask(VISITOR, "/export?season=spring", events=3),
        ask(VISITOR, "/export", events=1),
    ],
    "GET /feed": [
        ask(READERS, "/feed?after=19", events=2),
        ask(VISITOR, "/feed", events=0),
    ],
    "POST /admin/codes": [
        ask(ADMINS, "/admin/codes", {"count": 2}),
        ask("head", "/admin/codes", {"authors": ["gina", "hugo"], "days": 365}),
        ask("head", "/admin/codes", {}),
        ask("head", "/admin/codes", {"count": 501}),
        ask("head", "/admin/codes", {"count": -1}),
        ask("head", "/admin/codes", {"count": 1, "days": 366}),
        ask("head", "/admin/codes", {"authors": [""]}),
        ask("head", "/admin/codes", {"authors": ["finn-senior"]}),
        ask("head", "/admin/codes", {"authors": ["machine"]}),
    ],
    "GET /admin/codes": [ask(ADMINS, "/admin/codes")],
    "DELETE /admin/codes/{id}": [
        ask("visitor anna chief", "/admin/codes/14"),
        ask("head", "/admin/codes/14"),
        ask("head", "/admin/codes/14"),
        ask("head", "GET /admin/codes"),
    ],
    "GET /admin/overview": [
        ask(ADMINS, "/admin/overview"),
        ask("head", "/admin/overview?season=main"),
        ask("head", "/admin/overview?season=none"),
    ],
    "GET /admin/authors": [ask(ADMINS, "/admin/authors")],
    "POST /admin/authors/{author}/reset": [
        ask(ADMINS, "/admin/authors/anna-senior/reset", {}),
        ask("anna", "GET /account"),
        ask("head", "/admin/authors/nobody/reset"),
        ask("head", "/admin/authors/finn-senior/reset"),
        ask("head", "/admin/authors/chief/reset"),
        ask("head", "/admin/authors/head/reset"),
    ],
    "POST /admin/authors/{author}/rename": [
        rename("visitor anna chief", "anna-senior", to="anna-junior"),
        rename("head", "anna-senior", to="anna-junior"),
        rename("head", "ben-senior", to="anna-junior"),
        rename("head", "ben-senior", to="machine"),
        rename("head", "ben-senior"),
        rename("head", "anonymous-7", to="gil-senior"),
        rename("head", "nobody", to="somebody"),
    ],
    "POST /admin/authors/{author}/anonymise": [
        ask("visitor anna chief", "/admin/authors/anna-senior/anonymise", {}),
        ask("head", "/admin/authors/anna-senior/anonymise", {}),
        ask("head", "/admin/authors/anonymous-1/anonymise"),
        ask("head", "/admin/authors/anna-senior/anonymise"),
        ask("head", "/admin/authors/chief/anonymise"),
        ask("head", "/admin/authors/head/anonymise"),
    ],
    "POST /admin/authors/{author}/blocked": [
        ask("visitor anna chief", "/admin/authors/anna-senior/blocked", {"blocked": True}),
        ask("head", "/admin/authors/anna-senior/blocked", {"blocked": True}),
        ask("head", "/admin/authors/anna-senior/blocked", {}),
        ask("head", "/admin/authors/anonymous-7/blocked", {"blocked": False}),
        ask("head", "/admin/authors/nobody/blocked", {"blocked": True}),
    ],
    "GET /admin/season": [
        ask(ADMINS, "/admin/season"),
        ask("head", "/admin/season?season=spring"),
        ask("head", "/admin/season?season=none"),
    ],
    "POST /admin/settings/{name}": [
        ask("visitor anna chief", "/admin/settings/bots", {"value": 9}),
        ask("head", "/admin/settings/bots", {"value": 9}, times=2),
        ask("head", "/admin/settings/bots", {"value": 0}),
        ask("head", "/admin/settings/bots", {"value": 2**63}),
        ask("head", "/admin/settings/play_tables", {"value": 101}),
        ask("head", "/admin/settings/play.visitors", {"value": 1}),
        ask("head", "GET /settings?name=bots"),
        ask("head", "/admin/settings/bots", {}, times=2),
        ask("head", "/admin/settings/boots", {}),
        ask("head", "GET /audit?everybody=true&limit=3"),
    ],
    "POST /admin/season/deadline": [
        ask("visitor anna chief", "/admin/season/deadline", {"until": "2027-06-01T18:00Z"}),
        ask("head", "/admin/season/deadline", {"until": "2027-06-01T18:00+02:00"}),
        ask("head", "/admin/season/deadline", MORE_TIME),
        ask("head", "/admin/season/deadline", {**MORE_TIME, "author": "nobody"}),
        ask("head", "/admin/season/deadline", {**MORE_TIME, "until": "2027-05-01T18:00Z"}),
        ask("head", "/admin/season/deadline", {"until": "2027-06-01T18:00"}),
        ask("head", "/admin/season/deadline", {"until": "2026-06-01T18:00Z"}),
        ask("head", "/admin/season/deadline", {"season": "spring", "until": "none"}),
        ask("head", "/admin/season/deadline", {"season": "cup", "until": "none"}),
        ask("head", "/admin/season/deadline"),
        ask("head", "/admin/season/deadline", {"until": "none"}),
        ask("head", "GET /audit?everybody=true&limit=3"),
    ],
    "POST /admin/season/paused": [
        ask("visitor anna chief", "/admin/season/paused", {"paused": True}),
        ask("head", "/admin/season/paused", {"paused": True}),
        ask("head", "/admin/season/paused", {"season": "main"}),
        ask("head", "/admin/season/paused", {"season": "spring", "paused": True}),
        ask("head", "GET /audit?everybody=true&limit=2"),
    ],
    "GET /admin/status": [ask(ADMINS, "/admin/status")],
    "POST /admin/seasons": [
        ask("visitor anna chief", "/admin/seasons", {"settings": {"name": "autumn"}}),
        ask("head", "/admin/seasons", AUTUMN),
        ask("head", "/admin/seasons", AUTUMN),
        ask("head", "/admin/seasons", {"settings": {"name": "trust", "isolation": "process"}}),
        ask("head", "/admin/seasons", {"settings": {"name": "winter", "speed": 3}}),
        ask("head", "/admin/seasons", {"settings": {"name": "winter"}, "deadline": "soon"}),
        ask("head", "/admin/seasons", {}),
        ask("head", "GET /audit?everybody=true&limit=2"),
    ],
    "POST /admin/season/close": [
        ask("visitor anna chief", "/admin/season/close", {"season": "main"}),
        ask("head", "/admin/season/close", {"season": "main"}),
        ask("head", "/admin/season/close", {"season": "main", "at_once": True}),
        ask("head", "/admin/season/close", {"season": "spring"}),
        ask("head", "/admin/season/close", {}),
        ask("head", "GET /audit?everybody=true&limit=2"),
    ],
    "POST /admin/tournaments": [
        ask("visitor anna chief", "/admin/tournaments", {"name": "last"}),
        ask("head", "/admin/tournaments", {"name": "last", "season": "main", "bots": ["anna"]}),
        ask("head", "/admin/tournaments", LAST),
        ask("head", "/admin/tournaments", LAST),
        ask("head", "/admin/tournaments", {**LAST, "meetings": 3}),
        ask("head", "/admin/tournaments", {**LAST, "meetings": 1001}),
        ask("head", "/admin/tournaments", {**LAST, "name": "cup"}),
        ask("head", "/admin/tournaments", {**LAST, "name": "x", "seats": 7}),
        ask("head", "GET /audit?everybody=true&limit=2"),
    ],
    "POST /admin/bots/{bot}/state": [
        ask("visitor anna chief", "/admin/bots/anna/state", {"state": "active"}),
        ask("head", "/admin/bots/anna/state", {"state": "disabled", "reason": "it is loud"}),
        ask("head", "/admin/bots/anna/state", {"state": "disabled", "reason": " "}),
        ask("head", "/admin/bots/ANNA/state", {"state": "active"}),
        ask("head", "/admin/bots/anna/state", {"state": "withdrawn"}),
        ask("head", "/admin/bots/nobody/state", {"state": "active"}),
    ],
    "GET /admin/quarantine": [ask(ADMINS, "/admin/quarantine")],
    "POST /admin/quarantine/{game_id}": [
        ask("visitor anna chief", "/admin/quarantine/main-9", {}),
        ask("head", "/admin/quarantine/main-9", {}),
        ask("head", "/admin/quarantine/main-9", {}),
        ask("head", "/admin/quarantine/main-1"),
        ask("head", "/admin/quarantine/none-1"),
    ],
}
"""The requests of each method's golden, in their order."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """Requests of a ladder that is served in another way, or damaged."""

    asks: Sequence[Ask]
    serving: Serving = USUAL
    damage: str = ""
    """SQL."""
    full: bool = False
    """Whether its disk is full."""


def with_token(token: str, kind: str = "Bearer") -> Pairs:
    """The header of a request with this token."""
    return {"Authorization": f"{kind} {token}"}


AFAR: Final = {"X-Forwarded-For": "198.51.100.7"}
ANNA: Final = token_of("anna")
WRONG: Final = with_token("dsl_" + "0" * 64)
FEW: Final = replace(
    USUAL_LIMITS, calls_per_minute=2, pages_per_minute=2, analyses_per_day=1, tokens=3
)
PLENTY: Final = replace(FEW, calls_per_minute=60, open_submissions=9, submissions_per_day=4)
NO_STREAMS: Final = replace(USUAL_LIMITS, heavy=0, streams_of_address=0)
OTHERS: Final[Mapping[str, Case]] = {
    "refusals": Case(
        asks=[
            ask(VISITOR, "GET /"),
            ask("visitor head", "GET /nothing"),
            ask(VISITOR, "GET /standings/"),
            ask(VISITOR, "POST /standings"),
            ask(VISITOR, "PATCH /account/tokens"),
            ask(VISITOR, "HEAD /standings"),
            ask("finn former", "GET /standings"),
            ask(VISITOR, "GET /standings", headers=WRONG),
            ask(VISITOR, "GET /standings", headers=with_token("x" * 201)),
            ask(VISITOR, "GET /account", headers=with_token(ANNA, "bEaReR")),
            ask(VISITOR, "GET /account", headers=with_token(ANNA, "Basic")),
            ask(VISITOR, "GET /standings", headers={"Host": "elsewhere.example"}),
            ask("head", "POST /admin/codes", b"{"),
            ask("head", "POST /admin/codes", b'\xff"'),
            ask("head", "POST /admin/codes", []),
            ask("head", "POST /admin/codes", b"[" * 60_000),
            ask("head", "POST /admin/codes", b" " * 65_537),
            ask("head", "POST /admin/codes?count=1", {"count": 1}),
            ask("head", "POST /admin/codes", b'{"count": 1, "count": 2}'),
            ask("head", "POST /admin/codes", {"count": "1", "days": None}),
            ask("head", "POST /admin/codes", {"count": 1.0, "authors": None}),
            ask("head", "POST /admin/authors/gina/reset", {"author": "gina"}),
            ask(VISITOR, "GET /bots/ben?bot=anna"),
            unread("POST /admin/codes", "head", {"count": 1.5}),
            unread("POST /admin/codes", "head", {"count": 10**30}),
            unread("POST /admin/codes", "head", {"authors": [1]}),
            unread("GET /audit?limit=99999999999999999999", "anna"),
        ]
    ),
    "failures": Case(
        asks=[
            ask(VISITOR, "GET /account", headers=WRONG, times=20),
            ask(VISITOR, "GET /account", headers=WRONG),
            ask("anna", "GET /account"),
            ask(VISITOR, "POST /redeem", {"code": code_of("gina")}),
        ]
    ),
    "rates": Case(
        serving=Serving(limits=FEW),
        asks=[
            ask("anna", "GET /account", times=3),
            ask("reader", "GET /account"),
            ask(VISITOR, "GET /feed", events=0, times=9),
        ],
    ),
    "proxy": Case(
        serving=Serving(limits=FEW, proxy=True),
        asks=[
            ask("anna", "GET /account", headers=AFAR),
            ask(VISITOR, "GET /account", headers=AFAR, times=3),
        ],
    ),
    "quotas": Case(
        serving=Serving(limits=PLENTY),
        asks=[
            ask("anna", "POST /account/tokens", {}, times=2),
            ask("anna", "POST /games/spring-5/analysis"),
            ask("anna", "POST /games/spring-6/analysis"),
            upload("anna", "first", "the first"),
            upload("anna", "another", "the second"),
        ],
    ),
    "streams": Case(
        serving=Serving(limits=NO_STREAMS),
        asks=[
            ask(VISITOR, "GET /export"),
            ask(VISITOR, "GET /feed"),
            upload("ben", "one", "with no stream"),
        ],
    ),
    "private": Case(
        serving=Serving(private=True),
        asks=[
            ask(READERS, "GET /server"),
            ask(READERS, "GET /games?limit=1"),
            ask(VISITOR, "GET /feed"),
            ask(VISITOR, "POST /redeem", {"code": code_of("gina")}),
        ],
    ),
    "damage": Case(
        damage="UPDATE seasons SET settings = 'x' WHERE name = 'cup'",
        asks=[
            ask(VISITOR, "GET /standings?season=cup"),
            ask(VISITOR, "GET /export?season=cup"),
        ],
    ),
    "full-disk": Case(full=True, asks=[ask("head", "POST /admin/codes", {"count": 500})]),
}
"""Requests that are about no method in particular."""


@dataclass(frozen=True)
class Line:
    """A command line, for a ladder on this machine, and from afar by each of some callers."""

    words: str
    afar: str = ""
    here: str | None = None
    """On the ladder's machine, if that has other words; "": it is not called there."""


COMMANDS: Final[Mapping[str, Sequence[Line]]] = {
    "standings": [
        Line("--json", VISITOR),
        Line("--all --json", VISITOR),
        Line("--season spring --json", "visitor head"),
        Line("--season spring --all --csv", VISITOR),
        Line("--csv", VISITOR),
        Line("--csv --json"),
        Line("--season none --json", VISITOR),
    ],
    "bot": [
        Line("ben --json", "visitor ben head"),
        Line("anna --version 2 --season spring --json", VISITOR),
        Line("nobody --json", VISITOR),
    ],
    "verdicts": [
        Line("anna --json", VISITOR),
        Line("--csv", VISITOR),
        Line("--csv --json"),
    ],
    "games": [
        Line("--json", VISITOR),
        Line("--bot ben --against anna --lost --limit 2 --json", VISITOR),
        Line("--season spring --faults --json", VISITOR),
        Line("--lost --json", VISITOR),
    ],
    "record": [Line("main-2", VISITOR), Line("none-1", VISITOR)],
    "log": [
        Line("main-2 --json", "visitor anna ben"),
        Line("main-2 --seat A --json", "ben"),
        Line("main-4 --json"),
    ],
    "analyse": [
        Line("spring-1 --json", VISITOR),
        Line("main-1 --json", VISITOR),
        Line("main-3 --json", VISITOR),
        Line("spring-4 --json", "anna"),
        Line("spring-2 --json", "anna"),
        Line("spring-5 --json", "visitor anna", ""),
        Line("none-1 --json", "anna"),
    ],
    "submissions": [
        Line("--json", "anna", "anna-senior --json"),
        Line("--limit 1 --json", "ben", "ben-senior --limit 1 --json"),
        Line("nobody --json"),
        Line("ben-senior --limit 1 --json", "head anna"),
        Line("--id 1", "head ben anna"),
        Line("--id 99"),
    ],
    "author tokens": [
        Line("--json", "anna", "anna-senior --json"),
        Line("--json", "head", "cleo-senior --json"),
    ],
    "whoami": [Line("--json", " ".join((VISITOR, *PEOPLE)), "")],
    "status": [Line("--json")],
    "overview": [Line("--json"), Line("--csv")],
    "author list": [Line("--json")],
    "codes": [
        Line("--json"),
        Line("--count 2 --json"),
        Line("--authors names.txt --days 3 --json"),
    ],
    "author audit": [Line("--json"), Line("--author anna-senior --limit 3 --json")],
    "settings": [
        Line("--json", VISITOR),
        Line("bots 9 --json", "anna head"),
        Line("bots --default --json", "anna head"),
        Line("bots 0 --json", "head"),
    ],
    "author admin": [Line("--label laptop --json"), Line("--author ida --json")],
    "tournament": [
        Line("round-robin cup --json"),
        Line("elimination final --json"),
        Line("gauntlet main --json"),
    ],
    "deadline": [
        Line("--json", "head"),
        Line("--season none --json"),
        Line("2027-06-01T18:00Z --remove --json"),
    ],
    "export": [Line("--season final"), Line("--season final --csv"), Line("--csv")],
}
"""What is run of each command."""
NO_STORE: Final = ("whoami",)
"""Commands that are about no ladder on this machine."""

WORDS: Final = """
UNAUTHENTICATED PERMISSION_DENIED NOT_FOUND INVALID_ARGUMENT FAILED_PRECONDITION RESOURCE_EXHAUSTED
UNAVAILABLE INTERNAL UNIMPLEMENTED queued accepted refused failed running done active
withdrawn disabled blocked anonymised author admin submitted enabled quarantined requeued
rewritten setting season code token session restored void expired crash illegal_action
"""
"""What the goldens have at least: every refusal, and nearly every state and kind of entry."""
SECRETS: Final = re.compile(r'("(?:token|code)": )"[^"]+"')


def masked(text: str, what: str) -> str:
    """The text without what differs from run to run, or with the versions of libraries."""
    match what:
        case "version":
            return text.replace(json.dumps(__version__), '"(version)"')
        case "words":
            return re.sub(r'("message": )".*"(?=[,}])', r'\1"(in the words of a library)"', text)
        case "secrets":
            return SECRETS.sub(r'\1"(secret)"', text)
        case "allow":
            return ", ".join(sorted(text.split(", ")))  # of a set
        case "store":
            return re.sub(r'("store": )"[^"]*"', r'\1"(file)"', text)
        case "sizes":
            return re.sub(r'("(?:(?:store|disk_free)_)?bytes": )[0-9]+', r'\1"(bytes)"', text)
        case _:
            return re.sub(r"http://127\.0\.0\.1:[0-9]+", "http://ladder.example", text)


# ------------------------------------------------------------------------------------------- text


def spelling(text: str) -> str:
    """How a JSON object or list is spelled; "" for another text."""
    if not text.startswith(("{", "[")):
        return ""
    line = text.removesuffix("\n")
    for name, arguments in SPELLINGS.items():
        with suppress(ValueError):
            if json.dumps(json.loads(line), **arguments) == line:
                return f"{name} JSON{', a line' if line != text else ''}"
    return ""


def shown(text: str) -> str:
    """A text; JSON is broken into lines, if need be line by line."""
    found = []
    for name, lines in groupby([text] if spelling(text) else text.splitlines(True), spelling):
        if name:
            found += [f"({name})", *(broken(json.loads(line)) for line in lines)]
        else:
            found += [line.replace("\r\n", "\\r\\n\n").removesuffix("\n") for line in lines]
    ended = text.endswith("\n") or spelling(text)
    return "\n".join([*found, *([] if ended or not text else ["(no line end)"]), ""])


def broken(value: object, indent: str = "") -> str:
    """JSON in lines that are short where they can be; documents within texts are broken, too."""
    flat = json.dumps(value)
    if len(indent) + len(flat) <= WIDTH:
        return flat
    inner = f"{indent} "
    if isinstance(value, str) and (name := spelling(value)):
        return f"({name}) {broken(json.loads(value), inner)}"
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {broken(one, inner)}" for key, one in value.items()]
        start, end = "{}"
    elif isinstance(value, list):
        items = [broken(one, inner) for one in value]
        start, end = "[]"
    else:
        return flat
    return "\n".join([start, *filled(items, inner), f"{indent}{end}"])


def filled(items: Sequence[str], indent: str) -> Iterator[str]:
    """Lines of items; several stand in one as long as none of them is broken."""
    line = ""
    for item in [f"{one}," for one in items[:-1]] + [*items[-1:]]:
        if line and (len(f"{line} {item}") > WIDTH or "\n" in item or "\n" in line):
            yield line
            line = ""
        line = f"{line} {item}" if line else f"{indent}{item}"
    if line:
        yield line


# --------------------------------------------------------------------------------------- answers


@dataclass(frozen=True)
class World:
    """A full ladder, and what serves copies of it."""

    file: Path
    clock: StoreClock
    server: LadderServer

    @contextmanager
    def copied(self, folder: Path, case: Case) -> Iterator[Path]:
        copy = folder / "ladder.db"
        shutil.copy(self.file, copy)
        if case.damage:
            with closing(sqlite3.connect(copy)) as connection, connection:
                connection.execute(case.damage)
        disk = connecting(full_disk) if case.full else nullcontext()
        with self.clock.installed(), disk, self.server.serving(copy, case.serving):
            yield copy


def full_disk(connection: sqlite3.Connection) -> None:
    """Let a database not grow."""
    connection.execute("PRAGMA max_page_count = 1")


@contextmanager
def opened(folder: Path) -> Iterator[World]:
    """Make the ladder in a folder, and listen."""
    file, clock, server = folder / "full.db", StoreClock(), LadderServer()
    stock(file, clock)
    with server.listening():
        yield World(file, clock, server)


def http(world: World, folder: Path, name: str) -> str:
    """The golden of a method, or of other requests."""
    case = OTHERS.get(name) or Case(asks=METHODS[name])
    verb = name.partition(" ")[0]
    with (
        world.copied(folder, case),
        closing(HTTPConnection("127.0.0.1", world.server.port, timeout=60)) as connection,
    ):
        return "\n".join(
            block for one in case.asks for block in asked(connection, named(one, verb))
        )


def named(one: Ask, verb: str) -> Ask:
    """The request with a verb before its target."""
    return one if " " in one.target else replace(one, target=f"{verb} {one.target}")


def asked(connection: HTTPConnection, one: Ask) -> Iterator[str]:
    """The answers to a request; callers with the same answer stand together."""
    body = one.body if isinstance(one.body, bytes) else json.dumps(one.body).encode()
    sent = b"" if one.body is None else body
    words = one.target
    if sent:
        text = sent.decode("utf-8", "backslashreplace")
        words += f" {text}" if len(text) <= 200 and text.isprintable() else f" ({len(sent)} bytes)"
    words += "".join(f"\n> {name}: {value[:80]}" for name, value in one.headers.items())
    answers = [(caller, answered(connection, one, caller, sent)) for caller in one.who]
    for text, group in groupby(answers, lambda answer: answer[1]):
        times = f", {one.times} times" if one.times > 1 else ""
        yield f"> {', '.join(caller for caller, _ in group)}{times}\n> {words}\n{text}"


def answered(connection: HTTPConnection, one: Ask, caller: str, sent: bytes) -> str:
    """The last answer to a request."""
    headers = {} if caller == VISITOR else with_token(token_of(caller))
    for _ in range(one.times - 1):
        received(connection, one, {**headers, **one.headers}, sent)
    return received(connection, one, {**headers, **one.headers}, sent)


def received(connection: HTTPConnection, one: Ask, headers: Pairs, sent: bytes) -> str:
    verb, target = one.target.split()
    connection.request(verb, f"{ROOT}{target}", sent or None, {**headers})
    answer = connection.getresponse()
    lines = [f"< {answer.status}"]
    given = [(name, answer.headers[name]) for name in HEADERS if name in answer.headers]
    lines += [f"< {name}: {masked(value, name)}" for name, value in given]
    if one.events is None:
        content = answer.read()
    else:
        content = b"".join(begun(answer, one.events))
        connection.close()
    if answer.headers["content-type"] == "application/zip":
        text = f"({len(content)} bytes, SHA-256 {hashlib.sha256(content).hexdigest()})\n"
    else:
        text = content.decode()
        text = masked(masked(text if one.words else masked(text, "words"), "version"), "store")
        text = masked(text, "sizes")
        text = shown(text)
    return "\n".join([*lines, text])


def begun(answer: HTTPResponse, events: int) -> Iterator[bytes]:
    """The lines of the first events of a stream, or of one that has lines alone so many of them."""
    end = b"\n" if answer.headers["content-type"] == "text/event-stream" else None
    while events and (line := answer.readline()):
        yield line
        events -= end in (None, line)


def commands(world: World, folder: Path, name: str) -> str:
    (folder / "names.txt").write_text("gina\nhugo\n", encoding="utf-8")
    with world.copied(folder, Case(asks=())) as copy, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("XDG_CONFIG_HOME", "/nowhere")
        store = () if name in NO_STORE else ("--store", copy.name)
        return "\n".join(
            "\n".join(printed(world, patch, name, line, store)) for line in COMMANDS[name]
        )


def printed(
    world: World, patch: pytest.MonkeyPatch, name: str, line: Line, store: Sequence[str]
) -> Iterator[str]:
    """What a command prints here, then from afar: all of it, or how it differs."""
    here = "" if line.here == "" else said(name, line.here or line.words, *store)
    if here:
        yield f"$ ladder {name} {line.here or line.words}\n{here}"
    for caller in line.afar.split():
        patch.setenv("DEEPSEA_LADDER_TOKEN", "" if caller == VISITOR else token_of(caller))
        url = f"http://127.0.0.1:{world.server.port}"
        there = said(name, line.words, "--remote", url)
        lines = difference(here.splitlines(), there.splitlines())
        words = "(the same)\n" if there == here else "\n".join([*lines, ""])
        yield f"$ ladder {name} {line.words} --remote URL ({caller})\n{words}"


def difference(old: Sequence[str], new: Sequence[str]) -> Sequence[str]:
    """How new lines differ from old ones, or all of the new ones if that is shorter."""
    found = [*unified_diff(old, new, "here", "there", lineterm="", n=0)]
    return found if len(found) < len(new) else new


def said(name: str, words: str, *place: str) -> str:
    """A command's exit status and output."""
    done = called("ladder", *name.split(), *words.split(), *place)
    out = masked(done.out, "secrets") if name in ("author admin", "codes") else done.out
    parts = [f"(exit status {done.status})"]
    parts += [shown(masked(out, "sizes"))] if out else []
    parts += [f"(stderr)\n{masked(done.err, 'address')}"] if done.err else []
    return "\n".join(parts)


Makes = Callable[[World, Path, str], str]


def file_of(name: str) -> Path:
    plain = re.sub("[^a-z_]+", "-", name.lower()).strip("-")
    return FOLDER / ("commands" if name in COMMANDS else "http") / f"{plain}.txt"


GOLDENS: Final[Mapping[str, Makes]] = {
    **dict.fromkeys((*METHODS, *OTHERS), http),
    **dict.fromkeys(COMMANDS, commands),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with opened(tmp_path_factory.mktemp("full")) as found:
        yield found


@pytest.mark.parametrize("name", GOLDENS)
def test_answers(world: World, tmp_path: Path, name: str) -> None:
    golden = file_of(name).read_text(encoding="utf-8")
    made = GOLDENS[name](world, tmp_path, name)
    assert made.splitlines() == golden.splitlines()
    assert made == golden


def test_every_method_has_a_golden() -> None:
    assert set(METHODS) == methods()


def test_every_command_that_prints_data_has_a_golden() -> None:
    found = {name.removeprefix("ladder ") for name in printing(program, "") if "ladder " in name}
    assert {*COMMANDS} == {*found, "record"} - {"doctor"}  # which describes the machine


def printing(group: click.Group, before: str) -> Iterator[str]:
    """The commands of a group, and of groups in it, that print JSON or CSV."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from printing(command, f"{before}{name} ")
        elif {"--json", "--csv"} & {
            opt for one in getattr(command, "params", ()) for opt in one.opts
        }:
            yield f"{before}{name}"


def test_every_golden_is_compared() -> None:
    assert {*FOLDER.glob("*/*")} == {*map(file_of, GOLDENS)}


def test_the_ladder_has_something_of_everything() -> None:
    text = "".join(file.read_text(encoding="utf-8") for file in FOLDER.glob("*/*"))
    assert [word for word in WORDS.split() if f'"{word}"' not in text] == []


def main() -> None:
    parser = argparse.ArgumentParser(description="Goldens of the API and of commands.")
    parser.add_argument("--write", action="store_true", required=True, help="write them anew")
    parser.parse_args()
    logging.disable()  # the server's words on damage and mistakes, which are meant here
    texts: dict[Path, str] = {}
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder)) as world:
        for name, makes in GOLDENS.items():
            place = Path(folder, file_of(name).stem)
            place.mkdir()
            texts[file_of(name)] = makes(world, place, name)
    # All of them, or after an error none.
    shutil.rmtree(FOLDER, ignore_errors=True)
    for file, text in texts.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    click.echo(f"{len(texts)} goldens written")


if __name__ == "__main__":
    main()
