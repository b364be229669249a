"""The wire of a version to come: today's proto with more in every place where it may grow.

Message classes made from it stand for a newer peer: what they write has fields, events and numbers
that today's code has never seen.
"""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from deepsea_sdk._pb import play_pb2

NEW_KIND: Final = 90
NEW_PHASE: Final = 91
NEW_FAULT: Final = 92
NEW_REASON: Final = 93
NEW_LOCATION: Final = 94
_ENUMS: Final = {
    "DecisionKind": NEW_KIND,
    "Phase": NEW_PHASE,
    "Fault": NEW_FAULT,
    "EndReason": NEW_REASON,
    "Location": NEW_LOCATION,
}


def _newer() -> FileDescriptorProto:
    file = FileDescriptorProto()
    play_pb2.DESCRIPTOR.CopyToProto(file)
    weather = DescriptorProto(name="WeatherEvent")
    for message in (*file.message_type, weather):
        message.field.add(
            name="news",
            number=1000,
            type=FieldDescriptorProto.TYPE_STRING,
            label=FieldDescriptorProto.LABEL_OPTIONAL,
        )
    (event,) = [message for message in file.message_type if message.name == "Event"]
    event.field.add(
        name="weather",
        number=9,
        type=FieldDescriptorProto.TYPE_MESSAGE,
        type_name=f".{file.package}.WeatherEvent",
        label=FieldDescriptorProto.LABEL_OPTIONAL,
        oneof_index=0,
    )
    file.message_type.append(weather)
    for enum in file.enum_type:
        enum.value.add(name=f"{enum.name.upper()}_NEW", number=_ENUMS[enum.name])
    return file


_POOL: Final = descriptor_pool.DescriptorPool()
_POOL.Add(_newer())


def message(name: str) -> Any:
    """The class of a message, such as "PlayResponse", as a newer peer has it."""
    found = _POOL.FindMessageTypeByName(f"{play_pb2.DESCRIPTOR.package}.{name}")
    return message_factory.GetMessageClass(found)


def with_news(message: Any) -> Any:
    """The message, with a field that nobody knows in it and in every message within it."""
    message.news = "x" * 20
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for one in value if field.is_repeated else [value]:
                with_news(one)
    return message
