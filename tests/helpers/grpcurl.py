"""The part of the program grpcurl that the docs use, by the server's reflection alone.

python grpcurl.py -plaintext [-H NAME:VALUE]... [-d JSON] ADDRESS list | SERVICE/METHOD
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import grpc
from google.protobuf import json_format
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)


def main() -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("-plaintext", action="store_true", required=True)
    parser.add_argument("-H", action="append", default=[])
    parser.add_argument("-d", default="{}")
    parser.add_argument("address")
    parser.add_argument("what")
    given = parser.parse_args()
    with grpc.insecure_channel(given.address) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        if given.what == "list":
            sys.stdout.write("\n".join(sorted(database.get_services())) + "\n")
            return 0
        service, _, name = given.what.partition("/")
        method = DescriptorPool(database).FindServiceByName(service).methods_by_name[name]
        request = json_format.Parse(given.d, GetMessageClass(method.input_type)())
        call: Any = channel.unary_stream(
            f"/{service}/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )
        headers = [tuple(part.strip() for part in header.split(":", 1)) for header in given.H]
        for answer in call(request, metadata=headers, timeout=30):
            text = json_format.MessageToJson(answer, preserving_proto_field_name=True)
            sys.stdout.write(f"{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
