"""bot.toml: how a bot is started.

Invariants: nothing in it reaches a shell. Every value has its proper type, or the message says
which has not. Long or deep files are refused before they are parsed, since the parser's memory
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
"""Protocol between a bot and the referee: a gRPC stream, or lines on stdin and stdout."""
_KEYS = ("command", "name", "protocol", "requirements")
LONGEST_MANIFEST = 4 * 1024
"""Most bytes of the file."""
_DEEPEST = 8
_TEXT_OR_COMMENT = re.compile(
    r'''"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|\#[^\n]*''', re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Manifest:
    """Contents of bot.toml."""

    name: str | None
    command: tuple[str, ...]
    requirements: str | None = None
    """The file among the bot's that names the packages it needs."""
    protocol: Protocol = "grpc"


def read_manifest(files: Files) -> Manifest:
    """Return the manifest of a bot's files.

    Raise `BundleError` for the first thing wrong with it.
    """
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
    """Return a value as a protocol. Raise `BundleError` if it is none."""
    if value not in get_args(Protocol):
        raise BundleError(f'{MANIFEST}: protocol is "grpc" or "lines", not {value!a}')
    return cast(Protocol, value)


def _requirements(settings: dict[str, object], files: Files) -> str | None:
    """Return the path of the requirements; None without them.

    Raise BundleError for a missing file.
    """
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
    """Return the table of a TOML file. Raise BundleError if it is too deep or not valid."""
    import tomllib  # imported late: it takes long, and many bots are refused before

    try:
        text = content.decode("utf-8-sig")  # some editors begin files with a byte order mark
        if _depth(text) > _DEEPEST:
            raise BundleError(f"{MANIFEST} is nested too deeply")
        return tomllib.loads(text)
    except ValueError as error:
        raise BundleError(f"{MANIFEST} is not valid TOML: {error}") from None


def _depth(text: str) -> int:
    """Return an upper bound of the depth of lists, tables and dotted keys, without parsing."""
    structure = _TEXT_OR_COMMENT.sub("x", text)
    depth = deepest = 0
    for character in structure:
        depth += (character in "[{") - (character in "]}")
        deepest = max(deepest, depth)
    dots_per_part = (line.count(".") for line in re.split(r"[\n,={]", structure))
    return max(deepest, *dots_per_part)


def _command(value: object) -> tuple[str, ...]:
    """Return the command as words: of a text, or of a list of texts.

    Raise BundleError for others.
    """
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
    """Return the words of a command line.

    Raise BundleError for syntax that only a shell understands.
    """
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
        # The lexer makes words of their own from these characters.
        if word and set(word) <= set("();<>|&"):
            raise BundleError(
                f"{MANIFEST}: command {text!a} is not run by a shell, so {word} does nothing; "
                "name one program and its arguments"
            )
    return _command(words)


def _kind(value: object) -> str:
    """Return the type of a value in words."""
    names_of_types = {bool: "true or false", int: "a number", float: "a number", dict: "a table"}
    return names_of_types.get(
        type(value), "a list of other things" if isinstance(value, list) else "that"
    )
