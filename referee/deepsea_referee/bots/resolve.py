"""Resolves an argument BOT to a command, a name, files and their digest.

Invariants: nothing of a bot is run or imported here. The files of a bot are read once: what was
digested is kept, and every start plays a copy of it, whatever its author writes meanwhile.
`deepsea_bundle` reads, checks and names them, for matches and the ladder; only `cmd:COMMAND LINE`,
whose files nobody knows, is for matches alone and runs where it is. What a zip or a submitted bot
does to its reader (a zip, TOML, Python to be compiled) happens in a process of its own, with limits
on memory and time; here the answer's names, paths and digest are checked, nothing else is made of
it.
"""

from __future__ import annotations

import difflib
import hashlib
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path

import deepsea_bundle
from deepsea_bundle.archive import digest
from deepsea_bundle.errors import BundleError
from deepsea_bundle.folder import read_folder, write_folder
from deepsea_bundle.manifest import Protocol, read_manifest
from deepsea_bundle.names import name_from
from deepsea_bundle.program import PYTHON, SINGLE
from deepsea_bundle.reader import FORMS, BotBundle, read_bot
from deepsea_bundle.reader_process import OUT_OF_MEMORY, bundle_from, request
from deepsea_referee.errors import UserError
from deepsea_rules.printable import printable
from deepsea_rules.record import unique_names
from deepsea_sdk.launch import Parameters, split_parameters

COMMAND_PREFIX = "cmd:"
_PASSED_ON = ("LANG", "LC_ALL", "LC_CTYPE", "LD_LIBRARY_PATH", "SYSTEMROOT", "TEMP", "TMP")
"""Of the environment, for Linux and for Windows; the rest may hold the password of a ladder."""
_ALONE = "only-this-file-is-visible"
"""The folder of a single file's copy: a bot that looks for others there finds this in its error."""
PROGRAM = "bot"
"""The folder of the program in a run that `improve` keeps: runs/improve-mine/1/bot."""
_told: set[str] = set()
"""Names of samples of which it was said that a file here has the same one."""


@dataclass(frozen=True, slots=True)
class BotSpec:
    """A bot that can be started."""

    name: str
    command: tuple[str, ...]
    """The program and its arguments; empty for a player without a process."""
    folder: Path | None
    """The working directory, which a sandbox lets the bot read; None is the current folder, or that
    of the copy that is still to be made."""
    digest: str
    """SHA-256 of the program in hex."""
    parameters: str = ""
    """What its program gets in the environment variable of `deepsea_sdk.launch`."""
    protocol: Protocol = "grpc"
    bundle: BotBundle | None = field(default=None, compare=False, repr=False)
    """The bundle that was digested, until it is copied into `folder`; None for a command line and
    on the ladder, whose folders hold what was submitted."""
    source: Path | None = None
    """The author's file, folder or zip; None for a command line and on the ladder."""
    single: bool = False
    """True if the bot is a single Python file."""

    def copied(self, parent: Path) -> BotSpec:
        """The bot in a new folder below `parent` with a copy of what was digested."""
        if self.bundle is None:
            return self
        folder = parent.resolve() / (_ALONE if self.single else "bot")
        write_folder(self.bundle.files, folder)
        return replace(self, folder=folder, bundle=None)

    @property
    def argument(self) -> str | None:
        """The argument BOT that names it in any folder; None for a command line and a person."""
        if self.source is None:
            return None
        names = (name for name, path in sample_bots().items() if path.resolve() == self.source)
        return f"{next(names, self.source)}{self.parameters}"

    @property
    def home(self) -> Path | None:
        """The folder that its author knows its files in."""
        if self.source is None:
            return self.folder
        return self.source.parent if self.single else self.source

    def own_paths(self, text: str) -> str:
        """The text with its author's paths for those of the copy, for tracebacks and messages."""
        if self.folder is None or self.source is None:
            return text
        copy = self.folder / SINGLE if self.single else self.folder
        return text.replace(str(copy), str(self.source))


def resolve(text: str) -> BotSpec:
    """Resolve what a user typed; raises UserError or BundleError if it cannot be started.

    A sample's name is the sample: a file or folder that is called so is named by its path, as a
    line on stderr says. A Python bot may have parameters (deepsea_sdk.launch), which then are
    part of its name and digest.
    """
    if text.startswith(COMMAND_PREFIX):
        return _command_line(text.removeprefix(COMMAND_PREFIX))
    bot, parameters = ("", "") if _exists(text) else split_parameters(text)
    return with_parameters(_resolve(bot), parameters) if parameters else _resolve(text)


def sample(name: str) -> BotSpec:
    """The sample bot that nobody typed, such as a default; files of that name do not matter."""
    return _read(sample_bots()[name], name)


def with_parameters(bot: BotSpec, text: str) -> BotSpec:
    if bot.command[0] != sys.executable or bot.protocol != "grpc":
        raise UserError(
            f"bot {bot.name!r}: parameters ({text[1:]}) are for Python bots with the SDK"
        )
    try:
        text = Parameters.parse(text).format()
    except ValueError as error:
        raise UserError(f"bot {bot.name!r}: {error}") from None
    total = hashlib.sha256(_length_first((bot.digest.encode(), text.encode())))
    return replace(bot, name=f"{bot.name}{text}", digest=total.hexdigest(), parameters=text)


def split_list(text: str) -> list[str]:
    """The bots of a list with commas, which may have parameters."""
    return [bot.strip() for bot in re.split(r",(?!\s*\w+=)", text) if bot.strip()]


def _resolve(text: str) -> BotSpec:
    return _read(*_find(text))


def _read(path: Path, name: str | None) -> BotSpec:
    single = path.suffix == ".py" and not path.is_dir()
    if single:
        bundle = read_bot(path, name or name_from(path.stem))
    elif path.is_dir():
        bundle = read_bot(path)
    else:
        bundle = read_in_subprocess(path)
    return replace(spec_of(bundle), source=path.resolve(), single=single)


def spec_of(bundle: BotBundle) -> BotSpec:
    """The bot that plays what was checked."""
    return BotSpec(
        bundle.name,
        _runnable(bundle.command),
        None,
        bundle.digest,
        protocol=bundle.protocol,
        bundle=bundle,
    )


@contextmanager
def copies(bots: Sequence[BotSpec]) -> Iterator[list[BotSpec]]:
    """The bots with copies of what was digested, in a folder that is removed at the end."""
    from deepsea_referee.system import SYSTEM  # who only reads bots need not wait for it

    folder = SYSTEM.private_folder()
    try:
        yield [bot.copied(folder / str(number)) for number, bot in enumerate(bots)]
    finally:
        SYSTEM.remove_folder(folder)


def bundle_for_ladder(text: str, name: str | None = None) -> BotBundle:
    """The files of the bot that `text` names, under a name that may be given, read apart.

    What `resolve` takes is taken, but for a command line, whose files nobody knows.
    """
    if text.startswith(COMMAND_PREFIX):
        raise UserError(
            f"{text!r} is a command on this machine, and the ladder plays files: {FORMS}"
        )
    path, sample = _find(text)
    return read_in_subprocess(path, name if name is not None else sample)


def unpacked_bot(folder: Path, name: str) -> BotSpec:
    """The bot in a folder of the ladder's, under a name that is taken as it is.

    Its digest is that of the files as they are now. Raises BundleError if they are no bot's.
    """
    files = read_folder(folder).files
    manifest = read_manifest(files)
    command, place = _runnable(manifest.command), folder.resolve()
    return BotSpec(name, command, place, digest(files), protocol=manifest.protocol)


def sample_bots() -> dict[str, Path]:
    """The bots that come with the project, by name.

    A file may end in `_bot` where its bare name would hide a module of the standard library.
    """
    spec = find_spec("deepsea_bots")
    folders = spec.submodule_search_locations if spec else None
    files = [file for folder in folders or () for file in Path(folder).glob("[!_]*.py")]
    return {file.stem.removesuffix("_bot"): file for file in sorted(files)}


def with_unique_names(bots: Sequence[BotSpec]) -> list[BotSpec]:
    """The same bots with unique names.

    Bots of one name from several places are called by the ends of their paths in which they differ,
    "mine" and "improve-mine/1"; a bot that is there twice gets a number, "greedy", "greedy 2".
    """
    names = [bot.name for bot in bots]
    # Only where a name does not say it: a path is looked up among the samples.
    places = [
        _place(bot) if names.count(bot.name) > 1 or bot.name == PROGRAM else () for bot in bots
    ]
    for number, (bot, place) in enumerate(zip(bots, places, strict=True)):
        namesakes = {places[other] for other, one in enumerate(bots) if one.name == bot.name}
        if place and (len(namesakes) > 1 or "/" in place[-1]):
            names[number] = f"{_end(place, namesakes - {place})}{bot.parameters}"
    return [replace(bot, name=name) for bot, name in zip(bots, unique_names(names), strict=True)]


def _place(bot: BotSpec) -> tuple[str, ...]:
    """The parts of a bot's path from here; a version that `improve` keeps is one of them."""
    if bot.argument is None:
        return ()
    path = Path(bot.argument.removesuffix(bot.parameters))
    match (path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path).parts:
        case (*parents, runs, number, last) if last == PROGRAM and number.isdecimal():
            return (*parents, f"{runs}/{number}")
        case parts:
            return parts


def _end(place: tuple[str, ...], others: Iterable[tuple[str, ...]]) -> str:
    """The shortest end of a path with which none of the others ends."""
    lengths = range(1, len(place))
    length = next((n for n in lengths if all(o[-n:] != place[-n:] for o in others)), len(place))
    return "/".join(place[-length:])


def _find(text: str) -> tuple[Path, str | None]:
    """Where the files are of the bot that `text` names; the name if it is a sample bot."""
    samples = sample_bots()
    if text in samples:
        if os.path.lexists(text) and text not in _told:
            _told.add(text)
            here = f"{os.curdir}{os.sep}{text}"
            sys.stderr.write(f"{text} is the sample bot; to name what lies here, write {here}\n")
        return samples[text], text
    if text and _exists(text):
        return Path(text), None
    near = _nearest(text, samples)
    hint = f"did you mean {near!r}? " if near else ""
    known = f"; samples: {', '.join(samples)}" if samples else ""
    raise UserError(
        f"there is no bot {text!r}: {hint}{FORMS}; a match also plays "
        f"{COMMAND_PREFIX}COMMAND LINE{known}"
    )


def _nearest(text: str, samples: Mapping[str, Path]) -> str | None:
    """The bot that was meant: a file or folder beside the one that is not there, or a sample."""
    path = Path(text)
    near = {name: name for name in samples} if path.name == text else {}
    with suppress(OSError, ValueError):
        for file in sorted(path.parent.iterdir()):
            if file.suffix in (".py", ".zip") or (file / "bot.toml").is_file():
                # Often only the ending is missing; it must not make two names look different.
                near |= {file.stem: str(file), file.name: str(file)}
    found = difflib.get_close_matches(path.name, near, n=1) if path.name else []
    return near[found[0]] if found else None


def _exists(text: str) -> bool:
    try:
        Path(text).stat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError as error:
        raise UserError(f"bot {text!r} cannot be read: {error.strerror or error}") from None
    return True


def _command_line(text: str) -> BotSpec:
    command = _split(text, f"{COMMAND_PREFIX}{text}")
    if not command or not command[0] or "\0" in text:
        raise UserError(f"{COMMAND_PREFIX} needs a command line, such as 'cmd:python3 my_bot.py'")
    # What is written as a path counts into the digest; programs found on PATH do not.
    files = [Path(word) for word in command if (os.sep in word or "." in word)]
    files = [file for file in files if file.is_file()]
    total = hashlib.sha256(_length_first(os.fsencode(word) for word in command))
    for file in files:
        total.update(hashlib.sha256(file.read_bytes()).digest())
    named_after = files[-1] if files else Path(command[0])
    return BotSpec(name_from(named_after.stem), _runnable(command), None, total.hexdigest())


def _split(text: str, where: str) -> list[str]:
    try:
        words = shlex.shlex(text, posix=True, punctuation_chars=False)
        words.whitespace_split, words.commenters = True, ""
        if os.sep == "\\":  # there it separates folders, and escapes nothing
            words.escape = ""
        return list(words)
    except ValueError as error:
        raise UserError(f"{where!r} is not a command line: {error}") from None


def _runnable(command: Sequence[str]) -> tuple[str, ...]:
    """Replace `python` and `python3` by the interpreter that runs the referee: it has the SDK."""
    first = sys.executable if command[0] in PYTHON else command[0]
    return (first, *command[1:])


def _length_first(parts: Iterable[bytes]) -> bytes:
    """An unambiguous encoding: no two lists of parts give the same bytes."""
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


# In a subprocess


@dataclass(frozen=True, slots=True)
class ReaderLimits:
    """What reading a bot may take. Compiling a program of 1 MiB takes 400 MiB."""

    memory_mib: int = 1024
    cpu_seconds: int = 20
    seconds: float = 120.0
    """Of wall time, on a busy machine."""


READER_LIMITS = ReaderLimits()


def read_in_subprocess(
    path: Path, name: str | None = None, limits: ReaderLimits = READER_LIMITS
) -> BotBundle:
    """Read the bot at `path` as `read_bot` does; `BundleError` also if it takes too much."""
    # Isolated (-I): neither the environment nor the current folder adds modules. The reader needs
    # no installed package either, and starts faster without them (-S).
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
