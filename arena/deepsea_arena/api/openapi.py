"""The OpenAPI document of the API, made from the declarations, their types and docstrings.

Invariant: nothing is described here by the name of a method or a type.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import typing
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import msgspec
from msgspec import Struct

from deepsea_arena.api.declarations import MEDIA_TYPES, Flow, Method
from deepsea_arena.api.errors import RefusalKind
from deepsea_arena.api.ladder_api import KEY, METHODS, ROOT, SHA256, LadderApi
from deepsea_arena.documents import to_json
from deepsea_ladder.accounts import Role
from deepsea_ladder.model import Int64
from deepsea_sdk import __version__

REF = "#/components/schemas/{name}"


class Refused(Struct, frozen=True, kw_only=True):
    """The refusal of a request."""

    code: RefusalKind
    message: str
    """One sentence."""
    retry_after: int | None = None
    """Seconds after which another try may succeed."""


class Refusal(Struct, frozen=True):
    """The body of every response that is a refusal."""

    error: Refused


def who(method: Method) -> str:
    """The callers of a method, in words."""
    names = {Role.VISITOR: "everybody", Role.AUTHOR: "authors", Role.ADMIN: "admins"}
    scope = "" if method.scope is None else f", scope `{method.scope}`"
    return names[method.role] + scope


def summary(method: Method) -> str:
    """The first words of a method's docstring."""
    return " ".join((inspect.getdoc(getattr(LadderApi, method.name)) or "").split())


@cache
def openapi() -> Mapping[str, Any]:
    """The document; its server's address is the one that it was read from."""
    kinds = [Refusal, *(one.response for one in METHODS.values() if one.flow is not Flow.FILE)]
    refs, schemas = msgspec.json.schema_components(kinds, schema_hook=_int64, ref_template=REF)
    for kind in _structs(kinds):
        _describe(schemas[kind.__name__], kind)
    paths: dict[str, dict[str, Any]] = {}
    for method in METHODS.values():
        schema = None if method.flow is Flow.FILE else refs[kinds.index(method.response)]
        if schema is not None and method.key:
            schema = {
                "type": "object",
                "properties": {method.key: schema},
                "required": [method.key],
            }
        operation = _operation(method, schema, refs[0])
        paths.setdefault(method.path, {})[method.verb.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Deep Sea Referee: a ladder",
            "version": __version__,
            "description": (inspect.getdoc(LadderApi) or "").partition("\n\n")[0],
        },
        "servers": [{"url": ROOT}],
        "paths": paths,
        "components": {
            "schemas": to_json(schemas),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(method: Method, response: Any, refusal: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": method.name,
        "summary": summary(method),
        "description": f"For {who(method)}.",
        "security": [{"token": []}] if method.role is not Role.VISITOR else [{}, {"token": []}],
        "parameters": _parameters(method),
        "responses": {
            "200": {"description": "Done.", "content": _content(method, response)},
            "default": {
                "description": "Refused; the status follows from the code.",
                "content": {"application/json": {"schema": refusal}},
            },
        },
    }
    if method.verb == "POST":
        rest = [one for one in method.parameters if f"{{{one}}}" not in method.path]
        schema = {
            "type": "object",
            "properties": {name: _schema(method, name) for name in rest},
            "additionalProperties": False,
        }
        found["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    if method.verb == "PUT":
        archive = {"type": "string", "contentMediaType": "application/zip"}
        found["requestBody"] = {
            "required": True,
            "content": {"application/zip": {"schema": archive}},
        }
    return found


def _parameters(method: Method) -> list[dict[str, Any]]:
    if method.verb == "PUT":
        return [
            _parameter("bot", "path", {"type": "string"}, "The bot's name."),
            _parameter(SHA256, "header", {"type": "string"}, "SHA-256 of the zip, in hex."),
            _parameter(KEY, "header", {"type": "string"}, "Yours: the same key, one submission."),
        ]
    found = []
    for name in method.parameters:
        if f"{{{name}}}" in method.path:
            found.append(_parameter(name, "path", _schema(method, name)))
        elif method.verb != "POST":
            found.append(_parameter(name, "query", _schema(method, name)))
    return found


def _parameter(
    name: str, place: str, schema: Mapping[str, Any], description: str = ""
) -> dict[str, Any]:
    found = {"name": name, "in": place, "required": place != "query", "schema": schema}
    return found | ({"description": description} if description else {})


def _schema(method: Method, name: str) -> dict[str, Any]:
    parameter = method.parameters[name]
    schema = msgspec.json.schema(parameter.annotation, schema_hook=_int64)
    if parameter.default is not inspect.Parameter.empty and parameter.default is not None:
        schema["default"] = msgspec.to_builtins(parameter.default)
    return schema


def _content(method: Method, schema: Any) -> dict[str, Any]:
    kind = MEDIA_TYPES[method.flow]
    match method.flow:
        case Flow.ONE:
            return {kind: {"schema": schema}}
        case Flow.FILE:
            return {kind: {"schema": {"type": "string", "contentMediaType": kind}}}
    # What stands in each line, or in the data of each event.
    return {kind: {"schema": {"type": "string"}, "x-item-schema": schema}}


def _int64(kind: type) -> dict[str, Any]:
    if kind is not Int64:
        raise NotImplementedError(kind)
    return {"type": "string", "pattern": "^-?[0-9]{1,19}$"}


def _structs(kinds: Iterable[Any]) -> Iterable[type]:
    """The structs that the fields of these lead to."""
    left, seen = list(kinds), set()
    while left:
        kind = left.pop()
        left += typing.get_args(kind)
        if isinstance(kind, type) and issubclass(kind, Struct) and kind not in seen:
            seen.add(kind)
            left += typing.get_type_hints(kind).values()
    return seen


def _describe(schema: dict[str, Any], kind: type) -> None:
    """Add what docstrings say of a type and of its fields."""
    schema["description"] = " ".join((inspect.getdoc(kind) or "").split())
    for base in reversed(kind.__mro__):
        if not issubclass(base, Struct) or base is Struct:
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        assert isinstance(body, ast.ClassDef)
        for field, text in zip(body.body, body.body[1:], strict=False):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
            ):
                words = " ".join(str(text.value.value).split())
                described = schema["properties"][field.target.id]
                if "$ref" in described:
                    described = schema["properties"][field.target.id] = {"allOf": [described]}
                described["description"] = words
