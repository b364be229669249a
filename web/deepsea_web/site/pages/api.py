"""The reference of the API, to be read by people; programs read its OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deepsea_arena.api.ladder_api import ROOT, LadderApi
from deepsea_arena.api.openapi import openapi
from deepsea_web.site.page import Page, Query


def _read(ladder: LadderApi, query: Query) -> Mapping[str, Any]:
    return openapi()


def _look(data: Mapping[str, Any]) -> Mapping[str, Any]:
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
    read=_read,
    look=_look,
    title=lambda data: "API",
    summary=lambda data: "Every method of the ladder's API, with what it takes and returns.",
)
