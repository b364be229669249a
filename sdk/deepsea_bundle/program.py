"""A bot's program: bot.toml, which says how it is started; checks of its code; single Python files.

Invariants: nothing in bot.toml reaches a shell. Every value has its proper type, or the message
says which has not. Long or deep files are refused before they are parsed, since the parser's memory
grows with the square of the depth.

A program is checked without importing or running it. If it is refused here, it would fail at the
start on any machine. A program that is found on PATH is not checked. A single file that names a
module or a file beside it is refused before it plays. Names that it computes are not found here;
such a module or file is missing when it plays, since it is started from a folder that holds this
file alone.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, cast, get_args

from deepsea_bundle import names
from deepsea_bundle.archive import BundleLimits, Collection, Files, skipped_part
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
        names.valid_bot_name(f"{MANIFEST}: the name", name)
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
        # One more for an opening bracket, one less for a closing one.
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


PYTHON = ("python", "python3")
"""Programs that stand for the Python interpreter of the machine that runs the bot."""
LONGEST_LINE = 60
"""Characters of a line with a mistake that are shown."""
LONGEST_COMPILED = 1 << 20
"""Bytes of a program that is compiled to check it, which takes 400 bytes of memory for each.

Longer files are data rather than programs.
"""
SINGLE = "bot.py"
"""File name of a bot of a single file: a renamed file is the same bot."""
MANIFEST_OF_SINGLE = Manifest(None, ("python3", SINGLE))
_LOOKS_LIKE_A_FILE = re.compile(r"[\w./-]{1,200}")


def check_program(command: tuple[str, ...], files: Files, single: str = "") -> None:
    """Raise `BundleError` if the program is missing or is Python code with a syntax error.

    single  for a bot that is one file, the name that its author has given to the file
    """
    program = command[0]
    if program.startswith(("/", "~")):
        raise BundleError(
            f"{MANIFEST}: command starts {program!a}, which is a place on your machine; "
            "name a file of the bot, or a program such as python3"
        )
    if "/" in program and (path := os.path.normpath(program)) not in files:
        raise BundleError(f"{MANIFEST}: command starts {program!a}, but {_why_not_there(path)}")
    if program in PYTHON:
        arguments = [word for word in command[1:] if not word.startswith("-")]
        if arguments and arguments[0].endswith(".py"):
            script = arguments[0]
            _check_script(script, files, single or os.path.normpath(script))


def _check_script(script: str, files: Files, called: str) -> None:
    """Raise `BundleError` if a Python script is missing or has a syntax error.

    called  name of the script in messages
    """
    path = os.path.normpath(script)
    if path not in files:
        python_files = ", ".join(sorted(path for path in files if path.endswith(".py"))[:3])
        raise BundleError(
            f"{MANIFEST}: command runs {script!a}, but {_why_not_there(path)}; "
            f"there is {python_files or 'no Python file'}"
        )
    source = files[path]
    if len(source) > LONGEST_COMPILED:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        # Imported late: it imports all the rules, in the process that reads each bot.
        from deepsea_rules.printable import printable

        location = f"line {error.lineno}: " if error.lineno else ""
        line = (error.text or "").strip()[:LONGEST_LINE]
        message = f"{location}{printable(error.msg)}{f': {printable(line)}' if line else ''}"
        raise BundleError(f"{called} is not valid Python: {message}") from None
    except (ValueError, OverflowError) as error:
        raise BundleError(f"{called} is not valid Python: {error}") from None
    except (RecursionError, MemoryError):
        raise BundleError(f"{called} is not valid Python: it is nested too deeply") from None


def _why_not_there(path: str) -> str:
    """Return the reason why the bot has no such file."""
    left_out = " (such files are left out of bots)" if skipped_part(path) else ""
    return f"there is no such file{left_out}"


def collect_single(program: bytes, limits: BundleLimits) -> Collection:
    """Return the files of a bot that is one Python file: the program and a bot.toml."""
    collection = Collection(limits)
    collection.announce(SINGLE, len(program))
    collection.add_file(SINGLE, program)
    content = "command = [" + ", ".join(f'"{word}"' for word in MANIFEST_OF_SINGLE.command) + "]\n"
    collection.add_file(MANIFEST, content.encode())
    return collection


def check_alone(file: Path, program: bytes) -> None:
    """Raise `BundleError` if a valid program imports or names a file beside it."""
    if len(program) > LONGEST_COMPILED:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(program)
    for neighbour in _used_neighbours(tree, file):
        raise BundleError(
            f"it uses {neighbour} beside it, but only {file.name} is visible in the sandbox: "
            f"make a folder with {MANIFEST}"
        )


def _used_neighbours(tree: ast.AST, file: Path) -> Iterator[str]:
    """Yield the modules and files in its own folder that the program uses, as text."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                modules = [name.name for name in names]
            case ast.ImportFrom(module=str(module), level=0):
                modules = [module]
            case ast.Constant(value=str(text)):
                if _is_file_beside(text.lstrip("/"), file):
                    yield f"the file {text!a}"
                continue
            case _:
                continue
        for module in modules:
            if _is_module_beside(module.partition(".")[0], file):
                yield f"the module {module!a}"


def _is_module_beside(name: str, file: Path) -> bool:
    """Return True if a module of this name lies beside the file, and nowhere before it."""
    if name in sys.stdlib_module_names or name.startswith("deepsea_") or name == file.stem:
        return False
    folder = file.parent / name
    return folder.with_name(f"{name}.py").is_file() or any(folder.glob("*.py"))


def _is_file_beside(text: str, file: Path) -> bool:
    """Return True if a text is the name of a file beside the program."""
    if "." not in text or not _LOOKS_LIKE_A_FILE.fullmatch(text) or text == file.name:
        return False
    return (file.parent / text).is_file()
