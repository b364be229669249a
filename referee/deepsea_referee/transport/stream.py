"""Reading from a bot's stream and ending it."""

from __future__ import annotations

import contextlib
from typing import Final, TypeAlias

import grpc

from deepsea_referee.errors import BotFault
from deepsea_rules.faults import Fault
from deepsea_sdk import wire
from deepsea_sdk.errors import WireError

MESSAGE_BYTES: Final = 64 * 1024
"""The longest message from a bot, and the length up to which requests are put into one message."""

Stream: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"


async def read(stream: Stream) -> bytes | None:
    """Read the next message; None at the end of the stream, also within a message.

    gRPC refuses a message that is too long, and raises.
    """
    try:
        data: object = await stream.read()
    except grpc.aio.InternalError:
        return None
    return data if isinstance(data, bytes) else None


async def abort(stream: Stream, code: grpc.StatusCode, detail: str) -> None:
    """End a stream with a status, unless the other side has ended it."""
    with contextlib.suppress(grpc.aio.InternalError):
        await stream.abort(code, detail)


def answers_of(data: bytes) -> list[wire.Answer]:
    """The answers of a message; raises BotFault if it is anything else."""
    try:
        hello, answers = wire.read_from_bot(data)
    except WireError as error:
        raise refusal(str(error)) from None
    if hello is not None:
        raise refusal("it sent hello twice")
    if not answers:
        raise refusal("it sent a message without a decision")
    return answers


def refusal(detail: str) -> BotFault:
    """The fault of a message that nobody asked for; it ends the stream."""
    return BotFault(Fault.PROTOCOL_ERROR, detail)
