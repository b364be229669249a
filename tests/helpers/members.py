"""People with an account, and a browser for their pages that needs no screen."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

from deepsea_arena.api.local import LocalLadder
from deepsea_arena.api.service import MACHINE, LadderService, visitor
from deepsea_ladder.accounts import Caller
from deepsea_ladder.store import Store
from deepsea_sdk.entropy import fresh_seed
from deepsea_web.access import Access
from deepsea_web.site.app import Site

from .site import LOCAL, Answer, ask


def a_service(store: Store, **more: Any) -> LadderService:
    """The service of a ladder that only this machine reaches."""
    return LadderService(store, entropy=fresh_seed, **{"is_local": True, **more})


def a_token(service: LadderService, author: str, label: str = "laptop") -> str:
    """A token of an author, who is added if need be."""
    (code,) = LocalLadder(service, MACHINE).create_codes(authors=[author])
    return LocalLadder(service, visitor()).redeem(code=code.code, label=label).token


def an_admin_token(service: LadderService, author: str = "") -> str:
    """A token with every scope, of an admin."""
    return LocalLadder(service, MACHINE).admin_token(author, "admin").token


def caller_of(service: LadderService, token: str) -> Caller:
    """Who has the token."""
    return service.caller_of(token, "")


@dataclass
class HtmlForm:
    """A form of a page."""

    action: str
    method: str
    kind: str
    fields: list[tuple[str, str]] = field(default_factory=list)
    """What a browser sends if nothing is typed."""
    names: set[str] = field(default_factory=set)
    label: str = ""
    """Of its button."""


class _Forms(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[HtmlForm] = []
        self._in_form = False
        self._button = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            kind = given.get("enctype", "application/x-www-form-urlencoded")
            self.found.append(HtmlForm(given["action"], given.get("method", "get"), kind))
            self._in_form = True
        elif self._in_form and tag in ("input", "textarea"):
            form, name = self.found[-1], given.get("name", "")
            form.names.add(name)
            ticked = given.get("type") not in ("checkbox", "file") or "checked" in given
            if name and ticked:
                form.fields.append((name, given.get("value", "")))
        elif self._in_form and tag == "button":
            self._button = True
            self.found[-1].label = given.get("aria-label", "")

    def handle_endtag(self, tag: str) -> None:
        self._in_form = self._in_form and tag != "form"
        self._button = self._button and tag != "button"

    def handle_data(self, data: str) -> None:
        if self._button and not self.found[-1].label:
            self.found[-1].label = data


def forms_of(answer: Answer) -> list[HtmlForm]:
    """The forms of a page that change something."""
    parser = _Forms()
    for form in re.findall(r"<form\b.*?</form>", answer.text, re.DOTALL):  # a board is much longer
        parser.feed(form)
    return [form for form in parser.found if form.method == "post"]


class Person:
    """Somebody with a browser."""

    def __init__(self, site: Site, access: Access = LOCAL, client: str = "127.0.0.1") -> None:
        self.site = site
        self.access = access
        self.client = client
        self.host = access.origin.partition("://")[2]
        self.cookies: dict[str, str] = {}

    @property
    def said(self) -> dict[str, str]:
        """The headers that say who asks."""
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return {"Cookie": cookies} if cookies else {}

    def get(self, url: str, headers: Mapping[str, str] | None = None) -> Answer:
        """A page; a redirection is not followed."""
        return self._asked(url, "GET", headers or {}, b"")

    def post(
        self,
        url: str,
        fields: Sequence[tuple[str, str]],
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """A form as a browser sends it; `headers` may take some of what it says away, by ""."""
        kind = "application/x-www-form-urlencoded"
        return self.post_body(url, kind, urlencode(fields).encode(), headers)

    def post_body(
        self,
        url: str,
        kind: str,
        body: bytes | Iterable[bytes],
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """The same with a body that is made already."""
        said = {"Content-Type": kind, "Origin": self.access.origin, "Sec-Fetch-Site": "same-origin"}
        said |= headers or {}
        return self._asked(url, "POST", {key: one for key, one in said.items() if one}, body)

    def form(self, page: str | Answer, action: str, **chosen: str) -> list[tuple[str, str]]:
        """The fields of a form on a page, with what is typed; `chosen` picks one among several."""
        answer = self.get(page) if isinstance(page, str) else page
        for one in forms_of(answer):
            fields = dict(one.fields)
            if one.action == self.access.url(action) and chosen.items() <= fields.items():
                return one.fields
        raise AssertionError(f"{page} has no form to {action}:\n{answer.text}")

    def send(
        self, page: str | Answer, action: str, typed: Mapping[str, str] | None = None
    ) -> Answer:
        """Fill in a form on a page, and send it."""
        typed = typed or {}
        fields = [one for one in self.form(page, action) if one[0] not in typed]
        return self.post(self.access.url(action), [*fields, *typed.items()])

    def do(self, action: str, typed: Mapping[str, str]) -> Answer:
        """Send a form that no page may have shown, as somebody can who knows its address."""
        return self.post(self.access.url(action), [*typed.items()])

    def log_in(self, token: str) -> Answer:
        """Open a session by the form."""
        answer = self.send(self.access.url("/login"), "/login", {"token": token})
        assert answer.status == 303, answer.text
        return answer

    def _asked(
        self, url: str, method: str, headers: Mapping[str, str], body: bytes | Iterable[bytes]
    ) -> Answer:
        said = {**self.said, **headers}
        answer = asyncio.run(
            ask(
                self.site,
                url,
                method,
                headers=said,
                host=self.host,
                client=self.client,
                body=body,
            )
        )
        for cookie in answer.headers.getlist("set-cookie"):
            name, _, rest = cookie.partition("=")
            value = rest.partition(";")[0]
            if "Max-Age=0" in cookie:
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = value
        return answer


def multipart(
    fields: Sequence[tuple[str, str]], filename: str, content: bytes, boundary: str = "b0und"
) -> tuple[str, bytes]:
    """The content type and the body of a form with a file."""
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields
    ]
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{filename}"\r\n'
    parts.append(f"{head}Content-Type: application/octet-stream\r\n\r\n".encode() + content)
    body = b"".join(parts) + f"\r\n--{boundary}--\r\n".encode()
    return f"multipart/form-data; boundary={boundary}", body
