"""What tests ask of the ladder's messages, beside what the program does."""

from __future__ import annotations

from typing import Final

from deepsea_arena.wire import messages
from deepsea_arena.wire._pb import ladder_pb2 as pb

UPLOADS: Final = "Submit"
"""The one method whose requests are a stream."""


def answers_by_stream(method: str) -> bool:
    """Whether a method answers with a stream."""
    return bool(messages._SERVICE.methods_by_name[method].server_streaming)


def field_names(method: str) -> frozenset[str]:
    """The names of a request's fields."""
    return frozenset(field.name for field in messages._request(method).DESCRIPTOR.fields)


def response_chunk(data: bytes) -> bytes:
    """The bytes of a part of a download."""
    return pb.DownloadBotResponse.FromString(data).chunk
