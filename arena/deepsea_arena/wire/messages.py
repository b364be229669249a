"""The ladder's messages: between what the service takes and returns, and bytes or JSON.

Invariants: a request is the keyword arguments of a handler, a response is a dataclass, and both
have the fields of their message by name, so that nothing here knows one method from another; what
comes from a stranger and makes no sense raises MessageError, never anything else; a response's JSON
is the same whether it went by bytes or not, but for fields without a value: null there, missing
here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from deepsea_arena.wire._pb import ladder_pb2 as pb
from deepsea_arena.wire.json import Json, to_json
from deepsea_referee.errors import UserError
from deepsea_rules.printable import one_line, quoted

if TYPE_CHECKING:
    from google._upb import _message as upb
    from google.protobuf.descriptor import Descriptor as PythonDescriptor

    Descriptor = PythonDescriptor | upb.Descriptor
    Field = FieldDescriptor | upb.FieldDescriptor

_SERVICE: Final = pb.DESCRIPTOR.services_by_name["LadderService"]
SERVICE: Final = str(_SERVICE.full_name)
"""The name of the service, for reflection and health."""
METHODS: Final[tuple[str, ...]] = tuple(method.name for method in _SERVICE.methods)
"""The names of its methods, as the proto has them."""
_TRUE: Final = ("1", "true")
_FALSE: Final = ("0", "false")
M = TypeVar("M", bound=Message)


class MessageError(UserError):
    """A message that makes no sense."""


def path_of(method: str) -> str:
    """The path of a method in gRPC."""
    return f"/{SERVICE}/{method}"


def answers_by_bytes(method: str) -> bool:
    """Whether a method answers with the parts of a file."""
    return "chunk" in _response(method).DESCRIPTOR.fields_by_name


# -------------------------------------------------------------------------------------- requests


def request_to_bytes(method: str, fields: Mapping[str, object]) -> bytes:
    """A request with these fields. Raises TypeError or ValueError if it has no such field."""
    return _request(method)(**fields).SerializeToString()


def request_from_bytes(method: str, data: bytes) -> dict[str, Any]:
    """The keyword arguments of a handler; `optional` fields only if they are there."""
    return _arguments(_parsed(_request(method), data))


def request_from_json(method: str, document: dict[str, Any]) -> dict[str, Any]:
    """The same from JSON. A field that the message does not have is refused, as a mistyped one."""
    try:
        return _arguments(json_format.ParseDict(document, _request(method)()))
    except (json_format.ParseError, ValueError, TypeError, RecursionError) as error:
        raise MessageError(one_line(str(error), 200)) from None


def request_from_texts(method: str, texts: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The same from the parameters of an address: `true` or `1`, numbers as digits."""
    fields = {field.name: field for field in _request(method).DESCRIPTOR.fields}
    document: dict[str, Any] = {}
    for name, given in texts.items():
        field = fields.get(name)
        if field is None:
            raise MessageError(f"there is no parameter {quoted(name, 40)}")
        values = [_value(field, text) for text in given]
        if not _repeated(field) and len(values) != 1:
            raise MessageError(f"{name} is given twice")
        document[name] = values if _repeated(field) else values[0]
    return request_from_json(method, document)


def header_to_bytes(fields: Mapping[str, object]) -> bytes:
    """The first part of an upload."""
    header = json_format.ParseDict(dict(fields), pb.SubmitHeader())
    return pb.SubmitRequest(header=header).SerializeToString()


def chunk_to_bytes(chunk: bytes) -> bytes:
    """A later part of an upload."""
    return pb.SubmitRequest(chunk=chunk).SerializeToString()


def part_from_bytes(data: bytes) -> dict[str, Any] | bytes:
    """A part of an upload: the fields of its header, or bytes of its archive."""
    part = _parsed(pb.SubmitRequest, data)
    match part.WhichOneof("part"):
        case "header":
            return _arguments(part.header)
        case "chunk":
            return part.chunk
    raise MessageError("a part of an upload is a header or a chunk")


# ------------------------------------------------------------------------------------- responses


def response_to_bytes(method: str, value: object) -> bytes:
    """A response. Raises TypeError or ValueError if the dataclass is not what the message is."""
    return _built(_response(method).DESCRIPTOR, value).SerializeToString()


def response_from_bytes(method: str, data: bytes, most_items: int | None = None) -> dict[str, Json]:
    """The JSON of a response; `optional` fields without a value are missing.

    most_items  of all lists together; JSON takes hundreds of times the memory of empty ones
    """
    message = _parsed(_response(method), data)
    if most_items is not None and _items(message, most_items) > most_items:
        raise MessageError(f"a response of {method} has more than {most_items} items")
    return json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )


# ---------------------------------------------------------------------------------------- within


def _request(method: str) -> type[Message]:
    return GetMessageClass(_SERVICE.methods_by_name[method].input_type)


def _response(method: str) -> type[Message]:
    return GetMessageClass(_SERVICE.methods_by_name[method].output_type)


def _parsed(kind: type[M], data: bytes) -> M:
    try:
        return kind.FromString(data)
    except DecodeError:
        raise MessageError(f"this is no {kind.DESCRIPTOR.name}") from None


def _items(message: Message, most: int) -> int:
    """The number of items in all lists; once it is above `most` no more are counted."""
    count = 0
    for field, value in message.ListFields():
        values = value if _repeated(field) else ()
        count += len(values)
        if field.message_type is not None and count <= most:
            for inner in values if _repeated(field) else (value,):
                count += _items(inner, most - count)
                if count > most:
                    break
        if count > most:
            break
    return count


def _arguments(message: Message) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            continue
        value = getattr(message, field.name)
        found[field.name] = tuple(value) if _repeated(field) else value
    return found


def _built(kind: Descriptor, value: object) -> Message:
    """A message from a dataclass or named tuple that has its fields."""
    given: dict[str, Any] = {}
    for field in kind.fields:
        found = getattr(value, field.name)
        if found is None:
            continue
        if _repeated(field):
            given[field.name] = [_item(field, item) for item in found]
        else:
            given[field.name] = _item(field, found)
    return GetMessageClass(cast("PythonDescriptor", kind))(**given)


def _item(field: Field, value: object) -> object:
    if field.message_type is not None:
        return _built(field.message_type, value)
    if isinstance(value, bytes):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    leaf = to_json(value)
    # Half a character, as a damaged record may have, becomes a question mark.
    return leaf.encode(errors="replace").decode() if isinstance(leaf, str) else leaf


def _value(field: Field, text: str) -> str | bool:
    if field.type != FieldDescriptor.TYPE_BOOL:
        return text
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise MessageError(f"{field.name} is true or false, not {quoted(text, 40)}")


def _repeated(field: Field) -> bool:
    return bool(field.is_repeated)
