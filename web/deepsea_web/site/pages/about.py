"""Pages about the ladder: how it works, and its API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deepsea_arena.api.ladder_api import ROOT
from deepsea_arena.api.openapi import openapi
from deepsea_web.site.page import Page, season_of

HOW = Page(
    path="/how",
    template="how.html",
    read=lambda ladder, query: ladder.season(season=season_of(ladder, query)),
    title=lambda data: "How it works",
    summary=lambda data: (
        "The game, what a rating means, who plays whom, and how everybody can check a game."
    ),
    parameters=("season",),
    nav="How it works",
)


def _api_extras(data: Mapping[str, Any]) -> Mapping[str, Any]:
    methods = [
        (verb.upper(), path, operation)
        for path, verbs in data["paths"].items()
        for verb, operation in verbs.items()
    ]
    types = data["components"]["schemas"]
    return {"root": ROOT, "methods": methods, "types": types, "body_of": _body_of}


def _body_of(operation: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of a request's body, if it is an object."""
    content = operation.get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    found: Mapping[str, Any] = schema.get("properties", {})
    return found


API = Page(
    path="/api",
    template="api.html",
    read=lambda ladder, query: openapi(),
    extras=_api_extras,
    title=lambda data: "API",
    summary=lambda data: "Every method of the ladder's API, with what it takes and returns.",
)
