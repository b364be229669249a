"""The OpenAPI document of the API, made from the declarations, their types and docstrings.

Start reading at `openapi`.

Invariant: no text here belongs to one method or type; those stand beside their declarations.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
import typing
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise
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
    """The reason, in one sentence."""
    retry_after: int | None = None
    """Seconds after which another try may succeed; left out if waiting does not help."""


class Refusal(Struct, frozen=True):
    """The body of every response that is a refusal."""

    error: Refused


def callers_in_words(method: Method) -> str:
    """Return the callers that a method is for, such as "authors, scope `read`"."""
    names = {Role.VISITOR: "everybody", Role.AUTHOR: "authors", Role.ADMIN: "admins"}
    scope = "" if method.scope is None else f", scope `{method.scope}`"
    return names[method.role] + scope


def method_summary(method: Method) -> str:
    """Return the docstring of a method as one line."""
    return " ".join((inspect.getdoc(getattr(LadderApi, method.name)) or "").split())


@cache
def openapi() -> Mapping[str, Any]:
    """Return the OpenAPI document of all methods, as a tree of JSON values.

    Its server is a relative address, so that it holds wherever the document was read from.
    """
    responses = [method.response for method in METHODS.values() if method.flow is not Flow.FILE]
    types = [Refusal, *responses]
    refs, schemas = msgspec.json.schema_components(types, schema_hook=_int64, ref_template=REF)
    for struct in _reachable_structs(types):
        _add_docstrings(schemas[struct.__name__], struct)
    refusal_schema = refs[0]
    paths: dict[str, dict[str, Any]] = {}
    for method in METHODS.values():
        schema = None if method.flow is Flow.FILE else refs[types.index(method.response)]
        if schema is not None and method.key:
            schema = {
                "type": "object",
                "properties": {method.key: schema},
                "required": [method.key],
            }
        operation = _operation(method, schema, refusal_schema)
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
    """Return the OpenAPI operation of a method.

    response  the schema of the response, or of each line or event; None for a file
    refusal   the schema of a refusal
    """
    operation: dict[str, Any] = {
        "operationId": method.name,
        "summary": method_summary(method),
        "description": f"For {callers_in_words(method)}.",
        # An empty requirement means that no token is needed; one that is sent is used.
        "security": [{"token": []}] if method.role is not Role.VISITOR else [{}, {"token": []}],
        "parameters": _parameters(method),
        "responses": {
            "200": {"description": "Done.", "content": _response_content(method, response)},
            "default": {
                "description": "Refused; the status follows from the code.",
                "content": {"application/json": {"schema": refusal}},
            },
        },
    }
    if method.verb == "POST":
        in_body = [name for name in method.parameters if f"{{{name}}}" not in method.path]
        schema = {
            "type": "object",
            "properties": {name: _parameter_schema(method, name) for name in in_body},
            "additionalProperties": False,
        }
        operation["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    if method.verb == "PUT":
        archive = {"type": "string", "contentMediaType": "application/zip"}
        operation["requestBody"] = {
            "required": True,
            "content": {"application/zip": {"schema": archive}},
        }
    return operation


def _parameters(method: Method) -> list[dict[str, Any]]:
    """Return the OpenAPI parameters of a method: those of its path, query and headers.

    OpenAPI describes the arguments in the body of a POST in another place, its `requestBody`.
    """
    if method.verb == "PUT":  # an upload, whose one argument is made of the path and the headers
        return [
            _parameter("bot", "path", {"type": "string"}, "The bot's name."),
            _parameter(SHA256, "header", {"type": "string"}, "SHA-256 of the zip, in hex."),
            _parameter(KEY, "header", {"type": "string"}, "Yours: the same key, one submission."),
        ]
    parameters = []
    for name in method.parameters:
        if f"{{{name}}}" in method.path:
            parameters.append(_parameter(name, "path", _parameter_schema(method, name)))
        elif method.verb != "POST":
            parameters.append(_parameter(name, "query", _parameter_schema(method, name)))
    return parameters


def _parameter(
    name: str, location: str, schema: Mapping[str, Any], description: str = ""
) -> dict[str, Any]:
    """Return an OpenAPI parameter; its location is "path", "query" or "header"."""
    parameter = {"name": name, "in": location, "required": location != "query", "schema": schema}
    if description:
        parameter["description"] = description
    return parameter


def _parameter_schema(method: Method, name: str) -> dict[str, Any]:
    """Return the JSON schema of a parameter of a method, with its default."""
    parameter = method.parameters[name]
    schema = msgspec.json.schema(parameter.annotation, schema_hook=_int64)
    if parameter.default is not inspect.Parameter.empty and parameter.default is not None:
        schema["default"] = msgspec.to_builtins(parameter.default)
    return schema


def _response_content(method: Method, schema: Any) -> dict[str, Any]:
    """Return the OpenAPI content of a response, by its media type."""
    media_type = MEDIA_TYPES[method.flow]
    match method.flow:
        case Flow.ONE:
            return {media_type: {"schema": schema}}
        case Flow.FILE:
            return {media_type: {"schema": {"type": "string", "contentMediaType": media_type}}}
    # OpenAPI 3.1 cannot describe lines or events; this schema is that of each one's document.
    return {media_type: {"schema": {"type": "string"}, "x-item-schema": schema}}


def _int64(struct_type: type) -> dict[str, Any]:
    """Return the schema of an Int64: a string, since JSON readers lose digits of large numbers.

    msgspec calls it for every type that it does not know.
    """
    if struct_type is not Int64:
        raise NotImplementedError(struct_type)
    return {"type": "string", "pattern": "^-?[0-9]{1,19}$"}


def _reachable_structs(types: Iterable[Any]) -> set[type]:
    """Return all structs that these types are made of.

    They are the structs among the types, among their type arguments, as of `tuple[GameLine, ...]`,
    and among the types of their fields.
    """
    unvisited = list(types)
    structs: set[type] = set()
    while unvisited:
        current = unvisited.pop()
        unvisited += typing.get_args(current)
        if isinstance(current, type) and issubclass(current, Struct) and current not in structs:
            structs.add(current)
            unvisited += typing.get_type_hints(current).values()
    return structs


def _add_docstrings(schema: dict[str, Any], struct: type) -> None:
    """Add the docstrings of a struct and of its fields, inherited ones too, to its schema."""
    schema["description"] = " ".join((inspect.getdoc(struct) or "").split())
    # From the base to the struct, so that a field declared again has its newest docstring.
    for base in reversed(struct.__mro__):
        if not issubclass(base, Struct) or base is Struct:
            continue
        for field, text in _field_docstrings(base):
            field_schema = schema["properties"][field]
            if "$ref" in field_schema:  # a reference has no description of its own
                field_schema = schema["properties"][field] = {"allOf": [field_schema]}
            field_schema["description"] = " ".join(text.split())


def _field_docstrings(struct: type) -> Iterator[tuple[str, str]]:
    """Yield the name and the docstring of each field that a struct's own class body declares.

    The docstring of a field is a string below it, which only the source code has.
    """
    definition = ast.parse(textwrap.dedent(inspect.getsource(struct))).body[0]
    assert isinstance(definition, ast.ClassDef)
    for statement, following in pairwise(definition.body):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
        ):
            yield statement.target.id, str(following.value.value)
