"""Resolves an argument BOT to a command, a name, files and their digest.

Invariants: no code of a bot is run or imported here. The files of a bot are read once and digested,
and every start plays a copy of them, even if the author changes the files meanwhile.
`deepsea_bundle` reads, checks and names the files, for matches and the ladder. Only a
`cmd:COMMAND LINE`, whose files are not known, is for matches alone, and runs in the current folder.
Zips and submitted bots are read (unzipped, parsed as TOML, compiled as Python) in a process of its
own, with limits of memory and time; of its answer only the names, paths and digest are checked.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

import deepsea_bundle
from deepsea_bundle.archive import digest
from deepsea_bundle.errors import BundleError
from deepsea_bundle.names import name_from
from deepsea_bundle.program import PYTHON, SINGLE, Protocol, read_manifest
from deepsea_bundle.reader import FORMS, BotBundle, read_bot, read_folder, write_folder
from deepsea_bundle.reader_process import OUT_OF_MEMORY, bundle_from, request
from deepsea_referee.errors import UserError
from deepsea_rules.game import unique_names
from deepsea_rules.printable import printable
from deepsea_sdk.launch import Parameters, split_parameters

COMMAND_PREFIX = "cmd:"
_PASSED_ON = ("LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "SYSTEMROOT", "TEMP", "TMP")
"""The environment variables that the reader gets, on Linux and Windows.

Other variables may contain the password of a ladder.
"""
_SINGLE_FILE_FOLDER = "only-this-file-is-visible"
"""The name of the folder with the copy of a single file.

A bot that looks for other files there has this name in its error.
"""
PROGRAM = "bot"
"""The folder of the program in a run that `improve` stores, such as runs/improve-mine/1/bot."""
_noted_names: set[str] = set()
"""The names of samples for which a note about a file of the same name was printed."""


@dataclass(frozen=True, slots=True)
class BotSpec:
    """A bot that can be started."""

    name: str
    command: tuple[str, ...]
    """The program and its arguments; empty for a player without a process."""
    folder: Path | None
    """The working directory, which the bot may read in a sandbox.

    None for the current folder, or before the copy of the files is made.
    """
    digest: str
    """SHA-256 of the program in hex."""
    parameters: str = ""
    """The parameters, as `deepsea_sdk.launch` reads them from an environment variable."""
    protocol: Protocol = "grpc"
    bundle: BotBundle | None = field(default=None, compare=False, repr=False)
    """The digested files, until they are copied into `folder`.

    None for a command line, and on the ladder, where `folder` has the submitted files.
    """
    source: Path | None = None
    """The author's file, folder or zip; None for a command line and on the ladder."""
    single: bool = False
    """True if the bot is a single Python file."""

    def copied(self, parent: Path) -> BotSpec:
        """Write the files into a new folder below `parent`, and return the bot that plays them.

        A bot without a bundle is returned unchanged: it plays from its own files.
        """
        if self.bundle is None:
            return self
        folder = parent.resolve() / (_SINGLE_FILE_FOLDER if self.single else "bot")
        write_folder(self.bundle.files, folder)
        return replace(self, folder=folder, bundle=None)

    @property
    def argument(self) -> str | None:
        """The argument BOT that means this bot in any working directory.

        It is the name of a sample bot, or else the path of the author's files, with the parameters.
        None for a command line, a person, and a bot of the ladder.
        """
        if self.source is None:
            return None
        for name, path in sample_bots().items():
            if path.resolve() == self.source:
                return f"{name}{self.parameters}"
        return f"{self.source}{self.parameters}"

    @property
    def own_code(self) -> Path | None:
        """The file or the folder with the author's own code; None if it is not known."""
        return self.folder if self.source is None else self.source

    @property
    def home(self) -> Path | None:
        """The folder of the author's own files; None if it is not known."""
        return self.source.parent if self.source is not None and self.single else self.own_code

    def own_paths(self, text: str) -> str:
        """Replace the paths of the copy in a text, such as a traceback, by those of the author."""
        if self.folder is None or self.source is None:
            return text
        copy = self.folder / SINGLE if self.single else self.folder
        return text.replace(str(copy), str(self.source))


def resolve(text: str) -> BotSpec:
    """Return the bot that an argument BOT names, as a user types it.

    That is a sample bot, a file, a folder, a zip or a command line. The name of a sample bot always
    means the sample. If there is a file or folder of that name, a note on stderr says how to name
    it. A Python bot may have parameters (deepsea_sdk.launch), which are part of its name and
    digest.

    Raises UserError or BundleError if the bot cannot be started.
    """
    if text.startswith(COMMAND_PREFIX):
        return _command_line(text.removeprefix(COMMAND_PREFIX))
    if not _exists(text):  # the name of a file may look as if it had parameters
        bot, parameters = split_parameters(text)
        if parameters:
            return with_parameters(_resolve(bot), parameters)
    return _resolve(text)


def sample(name: str) -> BotSpec:
    """Return the sample bot of this name, without a note about files of the same name."""
    return _read(sample_bots()[name], name)


def with_parameters(bot: BotSpec, text: str) -> BotSpec:
    """Return the bot with parameters, which become part of its name and digest.

    text  the parameters as a user types them, such as ":Fast,depth=3" or ",depth=3"

    Raises UserError if the bot cannot have parameters, or the text is not valid.
    """
    if bot.command[0] != sys.executable or bot.protocol != "grpc":
        raise UserError(
            f"bot {bot.name!r}: parameters ({text[1:]}) are for Python bots with the SDK"
        )
    try:
        parameters = Parameters.parse(text).format()
    except ValueError as error:
        raise UserError(f"bot {bot.name!r}: {error}") from None
    digested = _length_first((bot.digest.encode(), parameters.encode()))
    new_digest = hashlib.sha256(digested).hexdigest()
    return replace(bot, name=f"{bot.name}{parameters}", digest=new_digest, parameters=parameters)


def split_list(text: str) -> list[str]:
    """Split a list of bots at its commas, but not at those before parameters such as `,safe=1`."""
    return [bot.strip() for bot in re.split(r",(?!\s*\w+=)", text) if bot.strip()]


def _resolve(text: str) -> BotSpec:
    return _read(*_find_bot(text))


def _read(path: Path, name: str | None) -> BotSpec:
    """Read the bot in a Python file, a folder or a zip.

    name  the name of a sample bot, which is a Python file; None for other bots, which are named by
          their files
    """
    is_single_file = path.suffix == ".py" and not path.is_dir()
    if is_single_file:
        bundle = read_bot(path, name or name_from(path.stem))
    elif path.is_dir():
        bundle = read_bot(path)
    else:  # a zip may be made to exhaust its reader
        bundle = read_in_subprocess(path)
    return replace(spec_of(bundle), source=path.resolve(), single=is_single_file)


def spec_of(bundle: BotBundle) -> BotSpec:
    """Return the bot that plays the files of a bundle; they are not copied into a folder yet."""
    return BotSpec(
        name=bundle.name,
        command=_runnable(bundle.command),
        folder=None,
        digest=bundle.digest,
        protocol=bundle.protocol,
        bundle=bundle,
    )


@contextmanager
def copies(bots: Sequence[BotSpec]) -> Iterator[list[BotSpec]]:
    """Copy the files of bots for a `with` block, and yield the bots that play these copies.

    The copies are in a folder that is removed after the block.
    """
    from deepsea_referee.system import SYSTEM  # slow to import, and not needed to read bots

    folder = SYSTEM.private_folder()
    try:
        yield [bot.copied(folder / str(number)) for number, bot in enumerate(bots)]
    finally:
        SYSTEM.remove_folder(folder)


def bundle_for_ladder(text: str, name: str | None = None) -> BotBundle:
    """Return the files of the bot that an argument BOT names, for an upload to a ladder.

    text  the argument BOT
    name  the name of the bot on the ladder; None for its own name

    Raises UserError for a command line, whose files are not known, and otherwise as `resolve`.
    """
    if text.startswith(COMMAND_PREFIX):
        raise UserError(
            f"{text!r} is a command on this machine, and the ladder plays files: {FORMS}"
        )
    path, sample_name = _find_bot(text)
    return read_in_subprocess(path, name if name is not None else sample_name)


def unpacked_bot(folder: Path, name: str) -> BotSpec:
    """Return the bot that plays from a folder of the ladder, without a copy of the files.

    The digest is that of the files as they are now. Raises BundleError if they are not a bot.

    name  the name of the bot on the ladder, whatever its files say
    """
    files = read_folder(folder).files
    manifest = read_manifest(files)
    return BotSpec(
        name=name,
        command=_runnable(manifest.command),
        folder=folder.resolve(),
        digest=digest(files),
        protocol=manifest.protocol,
    )


def sample_bots() -> dict[str, Path]:
    """Return the files of the sample bots, by the names of the bots.

    The suffix `_bot` of a file is not part of the name: it is there if the bare name would hide a
    module of the standard library.
    """
    spec = find_spec("deepsea_bots")
    folders = spec.submodule_search_locations if spec else None
    files = [file for folder in folders or () for file in Path(folder).glob("[!_]*.py")]
    return {file.stem.removesuffix("_bot"): file for file in sorted(files)}


def with_unique_names(bots: Sequence[BotSpec]) -> list[BotSpec]:
    """Return the bots with names that tell them apart, in the same order.

    Bots of the same name from several folders get the shortest different ends of their paths as
    names, such as "mine" and "improve-mine/1". A repeated bot gets a number, such as "greedy 2".
    """
    names = [bot.name for bot in bots]
    paths = []
    for bot in bots:
        # To find a path takes time, so this is done only for names that do not say enough.
        is_ambiguous = names.count(bot.name) > 1 or bot.name == PROGRAM
        paths.append(_path_parts(bot) if is_ambiguous else ())
    paths_of_names: dict[str, set[tuple[str, ...]]] = {name: set() for name in names}
    for name, path in zip(names, paths, strict=True):
        paths_of_names[name].add(path)
    new_names = []
    for bot, path in zip(bots, paths, strict=True):
        other_paths = paths_of_names[bot.name] - {path}
        new_names.append(_name_by_path(bot, path, other_paths))
    return [
        replace(bot, name=name) for bot, name in zip(bots, unique_names(new_names), strict=True)
    ]


def _name_by_path(
    bot: BotSpec, path: tuple[str, ...], other_paths: Collection[tuple[str, ...]]
) -> str:
    """Return the bot's own name, or the end of its path if others have the same name.

    The end has as many parts as it takes to tell the bot from the others. A version that `improve`
    has stored is always named so, since its own name is the same for all versions.

    path         the parts of the bot's path, as from `_path_parts`; empty if it has no path
    other_paths  the paths of the other bots with the same name
    """
    if not path:
        return bot.name
    # Only the last part of a stored version has a slash, such as "improve-mine/1".
    is_stored_version = "/" in path[-1]
    if not other_paths and not is_stored_version:
        return bot.name
    return f"{_distinct_end(path, other_paths)}{bot.parameters}"


def _path_parts(bot: BotSpec) -> tuple[str, ...]:
    """Return the parts of a bot's path relative to the working directory; () for a command line.

    The last parts of a version that `improve` has stored, such as improve-mine/1/bot, become a
    single part, "improve-mine/1".
    """
    if bot.argument is None:
        return ()
    path = Path(bot.argument.removesuffix(bot.parameters))
    if path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    parts = path.parts
    if len(parts) >= 3:
        runs_folder, run_number, program = parts[-3:]
        if program == PROGRAM and run_number.isdecimal():
            return (*parts[:-3], f"{runs_folder}/{run_number}")
    return parts


def _distinct_end(path: tuple[str, ...], others: Collection[tuple[str, ...]]) -> str:
    """Return the shortest end of a path with which none of the other paths ends."""
    length = 1
    while length < len(path) and any(other[-length:] == path[-length:] for other in others):
        length += 1
    return "/".join(path[-length:])


def _find_bot(text: str) -> tuple[Path, str | None]:
    """Return the path of the bot that `text` names, and its name if it is a sample bot, else None.

    A sample bot hides a file or folder of the same name: then a note says, once, how to name that.
    Raises UserError, with a suggestion, if there is no such bot.
    """
    samples = sample_bots()
    if text in samples:
        if os.path.lexists(text) and text not in _noted_names:
            _noted_names.add(text)
            local_path = f"{os.curdir}{os.sep}{text}"
            sys.stderr.write(
                f"{text} is the sample bot; to name what lies here, write {local_path}\n"
            )
        return samples[text], text
    if text and _exists(text):
        return Path(text), None
    suggestion = _suggestion(text, samples)
    hint = f"did you mean {suggestion!r}? " if suggestion else ""
    sample_list = f"; samples: {', '.join(samples)}" if samples else ""
    raise UserError(
        f"there is no bot {text!r}: {hint}{FORMS}; a match also plays "
        f"{COMMAND_PREFIX}COMMAND LINE{sample_list}"
    )


def _suggestion(text: str, samples: Mapping[str, Path]) -> str | None:
    """Return an argument BOT that the user may have meant by `text`, which names no bot.

    It is a bot in the same folder, or a sample bot, with a similar name; None if there is none.
    """
    path = Path(text)
    arguments: dict[str, str] = {}  # by the names with which `text` is compared
    if path.name == text:  # sample bots are in no folder
        arguments |= {name: name for name in samples}
    with suppress(OSError, ValueError):  # without such a folder there are only the samples
        for file in sorted(path.parent.iterdir()):
            if file.suffix in (".py", ".zip") or (file / "bot.toml").is_file():
                arguments[file.stem] = str(file)  # users often forget the suffix
                arguments[file.name] = str(file)
    matches = difflib.get_close_matches(path.name, arguments, n=1) if path.name else []
    return arguments[matches[0]] if matches else None


def _exists(text: str) -> bool:
    """Return True if this file or folder exists. Raises UserError if that cannot be known."""
    try:
        Path(text).stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError as error:
        raise UserError(f"bot {text!r} cannot be read: {error.strerror or error}") from None
    return True


def _command_line(text: str) -> BotSpec:
    """Return the bot that a command line starts.

    Its digest covers the words of the command and the files that they name. It is named after the
    last of these files, or after the program. Raises UserError if the command is not valid.

    text  the command line without the prefix `cmd:`
    """
    command = _split(text)
    if not command or not command[0] or "\0" in text:
        raise UserError(f"{COMMAND_PREFIX} needs a command line, such as 'cmd:python3 my_bot.py'")
    files: list[Path] = []
    for word in command:
        # A word without a separator or a dot is a program on PATH, which is no file of the bot.
        looks_like_path = os.sep in word or "." in word
        if looks_like_path and Path(word).is_file():
            files.append(Path(word))
    digest = hashlib.sha256(_length_first(os.fsencode(word) for word in command))
    for file in files:
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    main_file = files[-1] if files else Path(command[0])
    return BotSpec(
        name=name_from(main_file.stem),
        command=_runnable(command),
        folder=None,
        digest=digest.hexdigest(),
    )


def _split(text: str) -> list[str]:
    """Split a command line into words as a shell does, without comments and variables.

    Raises UserError for a text that a shell would not split, such as one with an open quote.

    text  the command line without the prefix `cmd:`
    """
    try:
        words = shlex.shlex(text, posix=True, punctuation_chars=False)
        words.whitespace_split = True  # only spaces separate words
        words.commenters = ""
        if os.sep == "\\":  # on Windows a backslash separates folders, and escapes nothing
            words.escape = ""
        return list(words)
    except ValueError as error:
        raise UserError(f"{COMMAND_PREFIX + text!r} is not a command line: {error}") from None


def _runnable(command: Sequence[str]) -> tuple[str, ...]:
    """Return the command with `python` or `python3` replaced by the referee's own interpreter.

    That interpreter has the SDK.
    """
    program = sys.executable if command[0] in PYTHON else command[0]
    return (program, *command[1:])


def _length_first(parts: Iterable[bytes]) -> bytes:
    """Join byte strings, each after its length, so that no two lists give the same bytes."""
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


# In a subprocess


@dataclass(frozen=True, slots=True)
class ReaderLimits:
    """The limits of the process that reads a bot. Compiling a program of 1 MiB takes 400 MiB."""

    memory_mib: int = 1024
    cpu_seconds: int = 20
    seconds: float = 120.0
    """The limit of wall time, long enough for a busy machine."""


READER_LIMITS = ReaderLimits()


def read_in_subprocess(
    path: Path, name: str | None = None, limits: ReaderLimits = READER_LIMITS
) -> BotBundle:
    """Read the bot at `path` as `read_bot` does, but in a process with limits.

    Raises BundleError if the files are not a valid bot, or reading them exceeds a limit.
    """
    # Isolated (-I): neither the environment nor the current folder adds modules. The reader needs
    # no installed packages, and starts faster without them (-S).
    folder = str(Path(deepsea_bundle.__file__).parents[1])
    start = f"import sys; sys.path.insert(0, {folder!r}); from deepsea_bundle import reader_process"
    read = "sys.exit(reader_process.main(sys.stdin.buffer, sys.stdout.buffer))"
    question = request(path, name, limits.memory_mib << 20, limits.cpu_seconds)
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", f"{start}; {read}"],
            input=question,
            capture_output=True,
            timeout=limits.seconds,
            env={key: os.environ[key] for key in _PASSED_ON if key in os.environ},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise BundleError(
            f"bot {str(path)!r}: reading it takes more than {limits.seconds:g} s; make it smaller, "
            "or try again on a machine that is less busy"
        ) from None
    if done.returncode == 0:
        return bundle_from(done.stdout)
    if done.returncode < 0 or done.returncode == OUT_OF_MEMORY:
        raise BundleError(
            f"bot {str(path)!r}: reading it takes more than {limits.memory_mib} MiB of memory or "
            f"{limits.cpu_seconds} s of CPU time; make its files smaller and simpler"
        )
    last = printable((done.stderr.decode(errors="replace").splitlines() or ["no reason"])[-1])
    raise BundleError(f"bot {str(path)!r}: it cannot be read: {last}")
