"""Reads a bot in a process of its own, with limits; the other half of the reader is in the referee.

Invariants: the limits hold before the first byte of the bot is read. The answer is a header in JSON
and the bytes of the files; nothing in it is ever run or unpickled. The receiver checks its names,
paths and digest again. On Linux every limit holds, or an OSError or ValueError says why not. macOS
does not know all of them, and Windows none: only one's own bots are read there.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from deepsea_bundle import names
from deepsea_bundle.archive import Collection, digest
from deepsea_bundle.errors import BundleDamaged, BundleError
from deepsea_bundle.program import protocol_of
from deepsea_bundle.reader import BotBundle, read_bot

OUT_OF_MEMORY = 3
"""Exit status of a reader that ran out of memory."""
_LENGTH = 8
"""Bytes of the number before the header, which is the header's length."""


def request(path: Path, name: str | None, memory_bytes: int, cpu_seconds: int) -> bytes:
    """Return the bytes that the process reads from its stdin."""
    return json.dumps([str(path), name, memory_bytes, cpu_seconds]).encode()


def main(stdin: IO[bytes], stdout: IO[bytes]) -> int:
    """Read the bot that stdin names, write the answer, and return the exit status."""
    path, name, memory_bytes, cpu_seconds = json.loads(stdin.read())
    set_limits({"AS": memory_bytes, "CPU": cpu_seconds, "FSIZE": 0, "CORE": 0})
    try:
        return _answer(Path(path), name, stdout)
    except MemoryError:
        return OUT_OF_MEMORY


def _answer(path: Path, name: str | None, stdout: IO[bytes]) -> int:
    """Write the bot, or the reason why it is refused, and return the exit status."""
    contents: list[bytes] = []
    try:
        bundle = read_bot(path, name)
    except BundleError as error:
        fields: dict[str, Any] = {"refused": str(error)}
    else:
        contents = list(bundle.files.values())
        fields = {
            "name": bundle.name,
            "command": bundle.command,
            "protocol": bundle.protocol,
            "digest": bundle.digest,
            "requirements": bundle.requirements,
            "skipped": [*bundle.collection.skipped],
            "links": bundle.collection.links,
            "files": [[path, len(content)] for path, content in bundle.files.items()],
        }
    header = json.dumps(fields).encode()
    stdout.write(len(header).to_bytes(_LENGTH, "big") + header)
    stdout.writelines(contents)
    stdout.flush()
    return 0


def bundle_from(answer: bytes) -> BotBundle:
    """Return the bot of an answer.

    Raise `BundleError` if it was refused, `BundleDamaged` for nonsense.
    """
    try:
        end = _LENGTH + int.from_bytes(answer[:_LENGTH], "big")
        fields = json.loads(answer[_LENGTH:end])
        if "refused" in fields:
            raise BundleError(fields["refused"])
        skipped, links = dict.fromkeys(map(str, fields["skipped"])), [*map(str, fields["links"])]
        collection = Collection(skipped=skipped, links=links)
        for path, size in fields["files"]:
            collection.announce(path, size)
            collection.add_file(path, answer[end : end + size])
            end += size
        bundle = BotBundle(
            names.valid_bot_name("the bot's name", fields["name"]),
            tuple(map(str, fields["command"])),
            fields["digest"],
            collection,
            protocol_of(fields["protocol"]),
            fields["requirements"],
        )
    except (ValueError, TypeError, KeyError) as error:
        raise BundleDamaged(f"the reader of a bot gave no answer: {error}") from None
    if end != len(answer) or digest(bundle.files) != bundle.digest:
        raise BundleDamaged("the reader of a bot gave files that are not those of its digest")
    return bundle


def set_limits(limits: Mapping[str, int]) -> None:
    """Set limits, by their names without RLIMIT_, for this process and its children.

    Systems that do not know a limit go without it, except for Linux, where an error is raised.
    """
    try:
        resource: Any = importlib.import_module("resource")
    except ImportError:
        return
    for name, value in limits.items():
        try:
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))
        except (AttributeError, OSError, ValueError):
            if hasattr(resource, "prlimit"):  # Linux's own
                raise
