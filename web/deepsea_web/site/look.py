"""Pages and refusals as HTML.

Invariants: templates escape every value; a link is made by `Access.url`, so that the site works
below any prefix; a page links to nothing but itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from deepsea_web.server.access import Access
from deepsea_web.site import words
from deepsea_web.site.errors import Refusal
from deepsea_web.site.page import Page, Query
from deepsea_web.site.static import static_names
from deepsea_web.site.visit import Visit
from deepsea_web.template import render

T = TypeVar("T")


@dataclass(frozen=True)
class Look:
    """What every template has as `site`."""

    access: Access
    navigation: Sequence[tuple[str, str]]
    """Names and paths of the pages that are linked from every page."""
    accounts: bool = False
    """Whether people may log in."""
    private: bool = False
    """Whether visitors see the login and nothing else."""

    def url(self, path: str, **query: object) -> str:
        """A link within the site."""
        return self.access.url(path, **query)

    def address(self, path: str) -> str:
        """A link that works from anywhere."""
        return self.access.canonical(path)

    def static(self, name: str) -> str:
        """The address of a script or a style sheet."""
        return self.access.url(f"/static/{static_names()[name]}")

    def page(
        self,
        page: Page[T],
        query: Query,
        data: T,
        *,
        embed: bool = False,
        own: Mapping[str, Any] | None = None,
    ) -> str:
        """A page as HTML; `own` is what its reader alone sees."""
        path = page.path.format_map(query.path)
        return self._render(
            page.embed if embed and page.embed else page.template,
            data=data,
            here=path,
            query=query,
            with_query=lambda **changed: {**query.given, **changed},
            title=words.name(page.title(data)),
            summary=words.name(page.summary(data)),
            canonical=self.access.canonical(path, **query.given),
            formats=[
                (one.upper(), self.url(path, **query.given, format=one))
                for one in page.formats
                if one != "html"
            ],
            current=page.nav,
            own=own or {},
            **page.look(data),
        )

    def own(self, template: str, title: str, visit: Visit, values: Mapping[str, Any]) -> str:
        """A page that depends on who looks, as HTML."""
        given = {"query": Query(), "done": None, "problem": None, "typed": {}, **values}
        return self._render(
            template,
            visit=visit,
            title=words.name(title),
            summary=words.name(title),
            canonical=None,
            current="Account",
            closed=self.private and not visit.author,
            **given,
        )

    def refusal(self, refusal: Refusal, *, closed: bool = False) -> str:
        """The page of a refusal; `closed`: for somebody who may see nothing else."""
        return self._render(
            "error.html",
            refusal=refusal,
            title=refusal.title,
            summary=refusal.sentence,
            canonical=None,
            current=None,
            closed=closed,
        )

    def _render(self, template: str, **values: Any) -> str:
        given: Mapping[str, Any] = {"site": self, "w": words, "closed": False, **values}
        return "".join(render(f"site/{template}", **given))
