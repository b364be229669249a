"""bot.toml: how a bot is started.

Invariants: nothing in it reaches a shell; every value has the type that it should have, or the
message says which; what is long or deep is refused before it is parsed, since the parser's memory
grows with the square of the depth.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from typing import Literal, TypeAlias, cast, get_args

from deepsea_bundle import names
from deepsea_bundle.archive import Files
from deepsea_bundle.errors import BundleError

MANIFEST = "bot.toml"
Protocol: TypeAlias = Literal["grpc", "lines"]
"""How a bot talks to the referee: over a gRPC stream, or in lines on stdin and stdout."""
_KEYS = ("command", "name", "protocol", "requirements")
LONGEST_MANIFEST = 4 * 1024
_DEEPEST = 8
_TEXT_OR_COMMENT = re.compile(
    r'''"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|\#[^\n]*''', re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What bot.toml says."""

    name: str | None
    command: tuple[str, ...]
    requirements: str | None = None
    """The file among the bot's that names the packages it needs."""
    protocol: Protocol = "grpc"


def read_manifest(files: Files) -> Manifest:
    """The manifest among a bot's files; `BundleError` for the first thing wrong with it."""
    content = files.get(MANIFEST)
    if content is None:
        raise BundleError(
            f"there is no {MANIFEST}; it says how the bot is started, such as "
            'command = ["python3", "my_bot.py"]'
        )
    if len(content) > LONGEST_MANIFEST:
        raise BundleError(f"{MANIFEST} has {len(content)} bytes, more than {LONGEST_MANIFEST}")
    settings = _settings(content)
    if unknown := sorted(settings.keys() - _KEYS):
        known = f"{', '.join(_KEYS[:-1])} and {_KEYS[-1]}"
        raise BundleError(f"{MANIFEST} has an unknown key {unknown[0]!a}; {known} are")
    name = settings.get("name")
    if name is not None and not isinstance(name, str):
        raise BundleError(f"{MANIFEST}: name is a text, not {_kind(name)}")
    if name is not None:
        names.checked(f"{MANIFEST}: the name", name)
    if "command" not in settings:
        raise BundleError(f'{MANIFEST} lacks command, such as ["python3", "my_bot.py"]')
    command = _command(settings["command"])
    protocol = protocol_of(settings.get("protocol", "grpc"))
    return Manifest(name, command, _requirements(settings, files), protocol)


def protocol_of(value: object) -> Protocol:
    """The protocol that a value names; raises `BundleError` if there is none."""
    if value not in get_args(Protocol):
        raise BundleError(f'{MANIFEST}: protocol is "grpc" or "lines", not {value!a}')
    return cast(Protocol, value)


def _requirements(settings: dict[str, object], files: Files) -> str | None:
    path = settings.get("requirements")
    if path is None:
        return None
    if not isinstance(path, str):
        raise BundleError(f"{MANIFEST}: requirements is a file's name, not {_kind(path)}")
    if path not in files:
        raise BundleError(
            f"{MANIFEST}: requirements is {path!a}, but there is no such file among the bot's"
        )
    return path


def _settings(content: bytes) -> dict[str, object]:
    import tomllib  # takes a while, which a bot that is refused before need not wait for

    try:
        text = content.decode("utf-8-sig")  # some editors begin files with a mark
        if _depth(text) > _DEEPEST:
            raise BundleError(f"{MANIFEST} is nested too deeply")
        return tomllib.loads(text)
    except ValueError as error:
        raise BundleError(f"{MANIFEST} is not valid TOML: {error}") from None


def _depth(text: str) -> int:
    """How deep lists, tables and dotted keys are nested at most, at a glance."""
    bare = _TEXT_OR_COMMENT.sub("x", text)
    depth = deepest = 0
    for mark in bare:
        depth += (mark in "[{") - (mark in "]}")
        deepest = max(deepest, depth)
    dotted = (line.count(".") for line in re.split(r"[\n,={]", bare))
    return max(deepest, *dotted)


def _command(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return _words(value)
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise BundleError(f"{MANIFEST}: command is a list of texts, not {_kind(value)}")
    if not value or not value[0]:
        raise BundleError(f"{MANIFEST}: command is empty")
    if any("\0" in word for word in value):
        raise BundleError(f"{MANIFEST}: command has a NUL character")
    return tuple(value)


def _words(text: str) -> tuple[str, ...]:
    """The words of a command line; what only a shell would understand is refused."""
    if "$" in text or "`" in text:
        raise BundleError(
            f"{MANIFEST}: command {text!a} is not run by a shell, so $ and ` do nothing; "
            "write a list of texts if you mean them as they stand"
        )
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError as error:
        raise BundleError(f"{MANIFEST}: command {text!a} is no command line: {error}") from None
    for word in words:
        if word and set(word) <= set("();<>|&"):
            raise BundleError(
                f"{MANIFEST}: command {text!a} is not run by a shell, so {word} does nothing; "
                "name one program and its arguments"
            )
    return _command(words)


def _kind(value: object) -> str:
    words = {bool: "true or false", int: "a number", float: "a number", dict: "a table"}
    return words.get(type(value), "a list of other things" if isinstance(value, list) else "that")
