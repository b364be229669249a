"""Which program a bot is: from what the user wrote to a command, a name and a digest.

Nothing of a bot is run or imported here. What can be seen without running it (no such file, a
syntax error, a bad bot.toml) is refused here; the rest shows when it is started. A digest changes
with every byte that the bot consists of, and with nothing else.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import shlex
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final, TypeGuard

from deepsea_referee.errors import UserError

MANIFEST: Final = "bot.toml"
COMMAND_PREFIX: Final = "cmd:"
LEFT_BEHIND: Final = frozenset({"__pycache__", "__MACOSX", ".DS_Store", ".git"})
"""What systems and tools leave in a folder; it is no part of a bot. The ladder skips the same
(`deepsea_bundle.archive.SKIPPED`; a test compares the two)."""
_LONGEST_NAME: Final = 40
_KINDS: Final = "a Python file, a folder with bot.toml, a sample's name or cmd:COMMAND LINE"


@dataclass(frozen=True, slots=True)
class BotSpec:
    """A bot that can be started."""

    name: str
    command: tuple[str, ...]
    folder: Path | None
    """Where it is started, and what a sandbox lets it read; None = the current folder."""
    digest: str
    """SHA-256 of the program in hex."""


def resolve(text: str) -> BotSpec:
    """Find the bot that `text` names; UserError says why there is none."""
    if text.startswith(COMMAND_PREFIX):
        return _command_line(text.removeprefix(COMMAND_PREFIX))
    path = Path(text)
    try:
        if text and path.is_dir():
            return _folder(path)
        if path.is_file():
            return _python_file(path)
        samples = sample_bots()
        if text in samples:
            return _python_file(samples[text], name=text)
    except OSError as error:
        raise UserError(f"bot {text!r} cannot be read: {error.strerror or error}") from None
    near = difflib.get_close_matches(text, samples, n=1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    known = f"; samples: {', '.join(samples)}" if samples else ""
    raise UserError(f"there is no bot {text!r}: {hint}a bot is {_KINDS}{known}")


def sample_bots() -> dict[str, Path]:
    """The bots that come with the project, by name.

    A file may end in `_bot` where its bare name would hide a module of the standard library.
    """
    spec = find_spec("deepsea_bots")
    folders = spec.submodule_search_locations if spec else None
    files = [file for folder in folders or () for file in Path(folder).glob("[!_]*.py")]
    return {file.stem.removesuffix("_bot"): file for file in sorted(files)}


def with_unique_names(bots: Sequence[BotSpec]) -> list[BotSpec]:
    """The same bots; a name that stands there already gets a number: "greedy", "greedy 2"."""
    given = {bot.name for bot in bots}
    taken: set[str] = set()
    named = []
    for bot in bots:
        name, number = bot.name, 1
        while name in taken or (number > 1 and name in given):
            number += 1
            name = f"{bot.name} {number}"
        taken.add(name)
        named.append(replace(bot, name=name))
    return named


def _python_file(path: Path, name: str | None = None) -> BotSpec:
    if path.suffix != ".py":
        raise UserError(f"bot {str(path)!r} is not a Python file: a bot is {_KINDS}")
    source = path.read_bytes()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise UserError(
            f"bot {str(path)!r} is not valid Python: line {error.lineno}: {error.msg}"
        ) from None
    except ValueError as error:
        raise UserError(f"bot {str(path)!r} is not valid Python: {error}") from None
    path = path.resolve()
    return BotSpec(
        name=name or _clean_name(path.stem),
        command=(sys.executable, str(path)),
        folder=path.parent,
        digest=hashlib.sha256(source).hexdigest(),
    )


def _folder(folder: Path) -> BotSpec:
    import tomllib  # takes a while, and most bots have no manifest

    manifest = folder / MANIFEST
    if not manifest.is_file():
        raise UserError(f"bot folder {str(folder)!r} has no {MANIFEST} (with command and name)")
    try:
        settings = tomllib.loads(manifest.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{str(manifest)!r} is not valid TOML: {error}") from None
    if unknown := sorted(settings.keys() - {"command", "name"}):
        raise UserError(f"{str(manifest)!r}: unknown key {unknown[0]!r}; it has command and name")
    command, folder = settings.get("command"), folder.resolve()
    words = _split(command, str(manifest)) if isinstance(command, str) else command
    if not _is_command(words):
        raise UserError(f"{str(manifest)!r}: command is a text or a list of texts, not empty")
    name = settings.get("name", folder.name)
    if not isinstance(name, str) or not _clean_name(name):
        raise UserError(f"{str(manifest)!r}: name is a text that can be printed")
    return BotSpec(_clean_name(name), _runnable(words), folder, _tree_digest(folder))


def _command_line(text: str) -> BotSpec:
    command = _split(text, f"{COMMAND_PREFIX}{text}")
    if not _is_command(command):
        raise UserError(f"{COMMAND_PREFIX} needs a command line, such as 'cmd:python3 my_bot.py'")
    # What is written as a path counts into the digest; programs found on PATH do not.
    files = [Path(word) for word in command if (os.sep in word or "." in word)]
    files = [file for file in files if file.is_file()]
    digest = hashlib.sha256(_length_first(word.encode() for word in command))
    for file in files:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    named_after = files[-1] if files else Path(command[0])
    return BotSpec(_clean_name(named_after.stem), _runnable(command), None, digest.hexdigest())


def _is_command(command: object) -> TypeGuard[list[str]]:
    return (
        isinstance(command, list)
        and bool(command)
        and all(isinstance(word, str) and "\0" not in word for word in command)
        and bool(command[0])
    )


def _split(text: str, where: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise UserError(f"{where!r} is not a command line: {error}") from None


def _runnable(command: Sequence[str]) -> tuple[str, ...]:
    """`python` and `python3` mean the interpreter that runs the referee: it has the SDK."""
    first = sys.executable if command[0] in ("python", "python3") else command[0]
    return (first, *command[1:])


def _tree_digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(_files(folder), key=lambda path: path.relative_to(folder).as_posix()):
        content = os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes()
        digest.update(_length_first([os.fsencode(path.relative_to(folder).as_posix()), content]))
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():
        if entry.name in LEFT_BEHIND:
            continue
        if entry.is_dir() and not entry.is_symlink():
            yield from _files(entry)
        elif entry.is_symlink() or entry.is_file():
            yield entry


def _length_first(parts: Iterable[bytes]) -> bytes:
    """The parts one after another, so that no two lists of parts give the same bytes."""
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def _clean_name(name: str) -> str:
    """Safe to print in a table: one line of printable characters, not endlessly long."""
    printable = "".join(c if c.isprintable() else " " for c in name)
    return " ".join(printable.split())[:_LONGEST_NAME].strip()
