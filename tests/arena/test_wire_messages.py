"""The ladder's messages: the service's functions and dataclasses are what the proto says."""

from __future__ import annotations

import dataclasses
import inspect
import json
import types
from collections.abc import Iterator, Sequence
from datetime import datetime
from enum import Enum
from itertools import islice
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from hypothesis import given
from hypothesis import strategies as st

from deepsea_arena.service.caller import visitor
from deepsea_arena.service.methods import METHODS
from deepsea_arena.service.service import LadderService
from deepsea_arena.service.table import Flow
from deepsea_arena.wire import messages
from deepsea_arena.wire._pb import ladder_pb2 as pb
from deepsea_arena.wire.json import Int64, Json, to_object
from deepsea_ladder.store import Store
from helpers.ladder_messages import answers_by_stream

SERVICE = pb.DESCRIPTOR.services_by_name["LadderService"]
NOT_OF_THE_MESSAGE = {"Submit": {"upload"}}
"""What handlers get besides the fields of their request."""


@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_handler_takes_the_fields_of_its_request(name: str) -> None:
    handler = METHODS[name].handler
    takes = {
        found.name
        for found in inspect.signature(handler).parameters.values()
        if found.kind is inspect.Parameter.KEYWORD_ONLY
    }
    request = SERVICE.methods_by_name[name].input_type
    if METHODS[name].flow is Flow.UPLOAD:
        assert takes == NOT_OF_THE_MESSAGE[name]
        return
    assert takes == {field.name for field in request.fields}
    hints = get_type_hints(handler)
    for field in request.fields:
        assert mismatch(field, hints[field.name], field.name) is None


@pytest.mark.parametrize("name", sorted(METHODS))
def test_a_response_has_the_fields_of_its_message(name: str) -> None:
    method = METHODS[name]
    kind = get_type_hints(method.handler)["return"]
    streams = method.flow is not Flow.ONE
    assert answers_by_stream(name) is streams
    if streams:
        (kind,) = get_args(kind)
    assert differences(SERVICE.methods_by_name[name].output_type, _value(kind)[0], name) == []


def differences(message: Descriptor, kind: Any, where: str) -> list[str]:
    """Where a dataclass or named tuple is not what a message is."""
    names = (
        [field.name for field in dataclasses.fields(kind)]
        if dataclasses.is_dataclass(kind)
        else list(kind._fields)
    )
    wanted = {field.name for field in message.fields}
    found = [f"{where}: {sorted(wanted ^ set(names))}"] if wanted != set(names) else []
    hints = get_type_hints(kind)
    for field in message.fields:
        if field.name in hints:
            said = mismatch(field, hints[field.name], f"{where}.{field.name}")
            found += [] if said is None else [said]
    return found


def mismatch(field: FieldDescriptor, hint: Any, where: str) -> str | None:
    """Why a field's type is not what an annotation says; None if it is."""
    kind, may_be_none = _value(hint)
    if field.is_repeated:
        if get_origin(kind) not in (tuple, list, Sequence):
            return f"{where}: {kind} does not repeat"
        kind = get_args(kind)[0]
    elif may_be_none != field.has_presence and field.message_type is None:
        return f"{where}: optional in one, and not in the other"
    if field.message_type is not None:
        return next(iter(differences(field.message_type, kind, where)), None)
    if get_origin(kind) is Literal:
        (kind,) = {type(word) for word in get_args(kind)}
    fits: dict[int, tuple[type, ...]] = {
        FieldDescriptor.TYPE_STRING: (str, datetime),
        FieldDescriptor.TYPE_BOOL: (bool,),
        FieldDescriptor.TYPE_INT32: (int,),
        FieldDescriptor.TYPE_INT64: (int,),
        FieldDescriptor.TYPE_DOUBLE: (float,),
        FieldDescriptor.TYPE_BYTES: (bytes,),
    }
    if get_origin(kind) or not issubclass(kind, fits[field.type]):
        return f"{where}: {kind}"
    if (kind is bool) != (field.type == FieldDescriptor.TYPE_BOOL):
        return f"{where}: {kind}"
    answers = "." in where
    if answers and (kind is Int64) != (field.type == FieldDescriptor.TYPE_INT64):
        return f"{where}: JSON of {kind} is not that of the message"
    return None


def _value(hint: Any) -> tuple[Any, bool]:
    """A type without None, and whether that was in it."""
    if get_origin(hint) in (Union, types.UnionType):
        (one,) = [kind for kind in get_args(hint) if kind is not type(None)]
        return one, True
    return hint, False


class Mood(Enum):
    GLAD = 1


def test_differences_are_noticed() -> None:
    @dataclasses.dataclass
    class Odd:
        found: str
        seq: int
        after: int | None

    assert differences(pb.WatchFeedRequest.DESCRIPTOR, Odd, "Odd")
    (field,) = pb.WatchFeedRequest.DESCRIPTOR.fields
    for wrong in (str, bool, int | None, tuple[int, ...], Mood):
        assert mismatch(field, wrong, "here") is not None
    assert mismatch(field, int, "here") is None
    assert mismatch(field, int, "Odd.after") is not None


# --------------------------------------------------------------------------------- what was played


@pytest.fixture
def service(played: Store) -> Iterator[LadderService]:
    assert played.database.path is not None
    with Store.open(played.database.path, read_only=True, public=True) as public:
        yield LadderService(played, public, METHODS, entropy=lambda: b"")


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("GetStandings", {"everybody": True}),
        ("GetBot", {"bot": "ben"}),
        ("ListGames", {"limit": 500}),
        ("GetRecord", {"game_id": "s1-1"}),
        ("GetFrames", {"game_id": "s1-1", "seat": 0}),
        ("Export", {}),
        ("WatchFeed", {"after": 1}),
    ],
)
def test_json_is_the_same_by_bytes(
    service: LadderService, name: str, fields: dict[str, object]
) -> None:
    asked = messages.request_from_bytes(name, messages.request_to_bytes(name, fields))
    assert asked == {**asked, **fields}
    answer = service.call(visitor(), name, **asked)
    for one in islice(answer, 3) if answers_by_stream(name) else [answer]:
        data = messages.response_to_bytes(name, one)
        assert messages.response_from_bytes(name, data) == _without_nulls(to_object(one))


def _without_nulls(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _without_nulls(item) for name, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


# ---------------------------------------------------------------------------------------- requests


def test_a_request_is_the_same_from_bytes_json_and_an_address() -> None:
    fields = {"season": "s1", "bot": "ben", "against": "", "lost": True, "limit": 7, "before": 99}
    fields |= {"faults": False}
    data = messages.request_to_bytes("ListGames", fields)
    assert messages.request_from_bytes("ListGames", data) == fields
    document = {**fields, "before": "99"}
    assert messages.request_from_json("ListGames", document) == fields
    texts = {"season": ["s1"], "bot": ["ben"], "lost": ["1"], "limit": ["7"], "before": ["99"]}
    assert messages.request_from_texts("ListGames", texts) == fields
    codes = messages.request_from_texts("CreateCodes", {"authors": ["anna", "ben"]})
    assert codes["authors"] == ("anna", "ben")


def test_optional_fields_are_there_or_not() -> None:
    assert messages.request_from_json("GetFrames", {"game_id": "s1-1"}) == {"game_id": "s1-1"}
    assert messages.request_from_json("GetFrames", {"seat": 0}) == {"game_id": "", "seat": 0}


@pytest.mark.parametrize(
    "document",
    [
        {"role": "admin"},
        {"limit": "many"},
        {"limit": 2**40},
        {"limit": 1.5},
        {"lost": "yes"},
        {"bot": 7},
        {"bot": ["ben"]},
        {"bot": {"bot": "ben"}},
    ],
)
def test_json_that_makes_no_sense_is_refused_in_a_line(document: dict[str, Any]) -> None:
    with pytest.raises(messages.MessageError) as info:
        messages.request_from_json("ListGames", document)
    assert "\n" not in str(info.value)


@pytest.mark.parametrize(
    "texts",
    [{"role": ["admin"]}, {"limit": ["1", "2"]}, {"lost": ["perhaps"]}, {"limit": ["-"]}],
)
def test_addresses_that_make_no_sense_are_refused(texts: dict[str, list[str]]) -> None:
    with pytest.raises(messages.MessageError):
        messages.request_from_texts("ListGames", texts)


def test_an_upload_is_a_header_and_chunks() -> None:
    header = {"bot": "ben", "size": 3, "sha256": "00", "key": "k"}
    assert messages.part_from_bytes(messages.header_to_bytes(header)) == header
    assert messages.part_from_bytes(messages.chunk_to_bytes(b"zip")) == b"zip"
    assert messages.part_from_bytes(messages.chunk_to_bytes(b"")) == b""
    with pytest.raises(messages.MessageError):
        messages.part_from_bytes(b"")


@given(st.sampled_from(messages.METHODS), st.binary(max_size=64))
def test_random_bytes_are_a_request_or_refused(name: str, data: bytes) -> None:
    said = []
    for read in (
        lambda: messages.request_from_bytes(name, data),
        lambda: messages.part_from_bytes(data),
        lambda: messages.response_from_bytes(name, data),
    ):
        try:
            read()
        except messages.MessageError as error:
            said.append(str(error))
    assert "\n" not in "".join(said)


def test_half_a_character_becomes_a_question_mark() -> None:
    @dataclasses.dataclass
    class Text:
        record: str

    data = messages.response_to_bytes("GetRecord", Text("a\udc80"))
    assert messages.response_from_bytes("GetRecord", data) == {"record": "a?"}
    assert json.dumps(messages.response_from_bytes("GetRecord", data))


@pytest.mark.parametrize(
    ("data", "items"),
    [
        (b"\x22\x00" * 3, 3),  # lines of standings without anything
        (b"\x12\x00" * 9, 9),  # empty names of seasons
        (b"\x0a\x04\x1a\x02\x04\x06", 2),  # in the season, its seats
    ],
)
def test_a_response_of_too_many_items_is_refused_before_it_is_taken_apart(
    data: bytes, items: int
) -> None:
    messages.response_from_bytes("GetStandings", data, items)
    with pytest.raises(messages.MessageError, match=f"more than {items - 1} items"):
        messages.response_from_bytes("GetStandings", data, items - 1)
