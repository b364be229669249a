"""A form with a file, as it arrives: its fields, and then the file's bytes.

Invariants: a file's bytes are passed on as they come and are not kept; fields and their names are
short, and few.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final, NamedTuple

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from deepsea_referee.errors import UserError

LONGEST_FIELD: Final = 4096
"""Bytes of a field, and of the headers of a part."""
MOST_PARTS: Final = 16
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # what strangers send is no news


class Field(NamedTuple):
    """A field, whole."""

    name: str
    value: str


class FileBegins(NamedTuple):
    """The bytes of a file follow."""

    name: str
    """Of the field."""
    filename: str


class FileEnds(NamedTuple):
    """That was the file."""


Part = Field | FileBegins | bytes | FileEnds


class Multipart:
    """Reads one form; raises UserError for what is none."""

    def __init__(self, content_type: str) -> None:
        kind, options = parse_options_header(content_type)
        boundary = options.get(b"boundary", b"")
        if kind != b"multipart/form-data" or not 0 < len(boundary) <= 100:
            raise UserError("a form with a file is sent as multipart/form-data")
        self._found: list[Part] = []
        self._parts = 0
        self._header = bytearray(), bytearray()
        self._seen = 0
        self._disposition = b""
        self._name = ""
        self._value: bytearray | None = None
        """Of the field that is being read; None while it is a file."""
        self._whole = False
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": lambda data, start, end: self._more(0, data[start:end]),
                "on_header_value": lambda data, start, end: self._more(1, data[start:end]),
                "on_header_end": self._header_ends,
                "on_headers_finished": self._headers_end,
                "on_part_data": self._data,
                "on_part_end": self._part_ends,
                "on_end": self._end,
            },
        )

    def feed(self, data: bytes) -> Iterator[Part]:
        """What has arrived with these bytes."""
        try:
            self._parser.write(data)
        except FormParserError:
            raise UserError("the form cannot be read") from None
        yield from self._found
        self._found.clear()

    def finish(self) -> None:
        """Raise UserError if the form is not whole."""
        if not self._whole:
            raise UserError("the form did not arrive whole")

    def _begin(self) -> None:
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise UserError("the form has too many parts")
        self._disposition = b""
        self._seen = 0

    def _more(self, which: int, data: bytes) -> None:
        self._seen += len(data)
        if self._seen > LONGEST_FIELD:
            raise UserError("the headers of a part of the form are too long")
        self._header[which].extend(data)

    def _header_ends(self) -> None:
        name, value = self._header
        if bytes(name).lower() == b"content-disposition":
            self._disposition = bytes(value)
        name.clear()
        value.clear()

    def _headers_end(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._name = options.get(b"name", b"").decode(errors="replace")
        if b"filename" in options:
            self._value = None
            filename = options[b"filename"].decode(errors="replace")
            self._found.append(FileBegins(self._name, filename))
        else:
            self._value = bytearray()

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._value is None:
            self._found.append(data[start:end])
            return
        self._value += data[start:end]
        if len(self._value) > LONGEST_FIELD:
            raise UserError("a field of the form is too long")

    def _part_ends(self) -> None:
        if self._value is None:
            self._found.append(FileEnds())
        else:
            self._found.append(Field(self._name, self._value.decode(errors="replace")))

    def _end(self) -> None:
        self._whole = True
