"""The one reader of bots: a folder, a zip or a single Python file, checked, for matches and ladder.

Invariants: nothing of a bot is run or imported here; links are not followed; whoever is refused
learns in one line what is wrong and where; two forms of the same files are one bot with one digest;
what is accepted packs and unpacks to exactly what was checked.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deepsea_bundle import names
from deepsea_bundle.archive import (
    LIMITS,
    BundleLimits,
    FileCollector,
    Files,
    digest,
    is_skipped,
    pack,
)
from deepsea_bundle.errors import BundleError
from deepsea_bundle.manifest import MANIFEST, Manifest, read_manifest
from deepsea_bundle.program import check_program
from deepsea_bundle.unzip import read_zip

FORMS: Final = f"a bot is a Python file, a folder with {MANIFEST} or a zip of one"

_SINGLE: Final = "bot.py"
"""What a bot of a single file is kept as: a renamed file is the same bot."""
_MANIFEST_OF_SINGLE: Final = Manifest(None, ("python3", _SINGLE))


@dataclass(frozen=True, slots=True)
class BotBundle:
    """A bot that was checked."""

    name: str
    command: tuple[str, ...]
    """As in bot.toml, to be run in the folder of its files."""
    digest: str
    """SHA-256 over its files."""
    files: Files

    @property
    def archive(self) -> bytes:
        """Its files, packed as the ladder keeps them."""
        return pack(self.files)


def read_bot(path: Path, name: str | None = None, limits: BundleLimits = LIMITS) -> BotBundle:
    """The bot at `path`; raises `BundleError` for the first thing that is wrong with it.

    Its name is `name`, else bot.toml's, else that of the folder or file.
    """
    try:
        if path.is_dir():
            folder = path.resolve()
            return bundle_of(read_folder(folder, limits), name, folder.name)
        if not path.is_file():
            what = "is no file" if path.exists() else "is not there"
            raise BundleError(f"it {what}; {FORMS}")
        with path.open("rb") as stream:
            content = stream.read(max(limits.archive_bytes, limits.file_bytes) + 1)
        if path.suffix == ".py":
            return _checked(_single(content, limits), _MANIFEST_OF_SINGLE, name, path.stem)
        if not content.startswith(b"PK"):
            raise BundleError(f"it is neither a zip nor a Python file; {FORMS}")
        return bundle_of(_without_wrapping(read_zip(content, limits)), name, path.stem)
    except OSError as error:
        why = f"{str(error.filename or path)!r} cannot be read: {error.strerror or error}"
    except BundleError as error:
        why = str(error)
    raise BundleError(f"bot {str(path)!r}: {why}")


def bundle_of(files: Files, name: str | None = None, default: str = "") -> BotBundle:
    """Check a bot's files. Without a `name`, and if bot.toml has none, it is called `default`."""
    return _checked(files, read_manifest(files), name, default)


def _checked(files: Files, manifest: Manifest, name: str | None, default: str) -> BotBundle:
    check_program(manifest.command, files)
    if name is None and manifest.name is None:
        try:
            names.checked("the folder's or file's name", default)
        except BundleError as error:
            raise BundleError(
                f'{error}; write name = "{names.name_from(default)}" in {MANIFEST}, or submit it '
                "with --name"
            ) from None
    chosen = name if name is not None else manifest.name or default
    names.checked("the bot's name", chosen)
    return BotBundle(chosen, manifest.command, digest(files), files)


def _single(program: bytes, limits: BundleLimits) -> Files:
    """The files of a bot that is one Python file."""
    collector = FileCollector(limits)
    collector.announce(_SINGLE, len(program))
    collector.file(_SINGLE, program)
    content = "command = [" + ", ".join(f'"{word}"' for word in _MANIFEST_OF_SINGLE.command) + "]\n"
    return {**collector.finished(), MANIFEST: content.encode()}


def _without_wrapping(files: Files) -> Files:
    """The files of a zip that has everything in one folder, as packing a folder makes it."""
    tops = {path.split("/")[0] for path in files}
    if MANIFEST in files or len(tops) != 1 or f"{(top := tops.pop())}/{MANIFEST}" not in files:
        return files
    return {path.removeprefix(f"{top}/"): content for path, content in files.items()}


def read_folder(folder: Path, limits: BundleLimits = LIMITS) -> Files:
    """A folder's files, links refused."""
    collection = FileCollector(limits)
    for base, folders, found, here in os.fwalk(folder, follow_symlinks=False, onerror=_raise):
        prefix = Path(base).relative_to(folder).as_posix()
        prefix = "" if prefix == "." else f"{prefix}/"
        folders[:] = sorted(name for name in folders if not is_skipped(name))
        for name in folders:
            _check_kind(f"{prefix}{name}", os.stat(name, dir_fd=here, follow_symlinks=False))
            collection.folder(f"{prefix}{name}")
        for name in sorted(name for name in found if not is_skipped(name)):
            path = f"{prefix}{name}"
            _check_kind(path, os.stat(name, dir_fd=here, follow_symlinks=False))
            # Between the look and the opening somebody may have put something else there.
            descriptor = os.open(
                name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=here
            )
            with os.fdopen(descriptor, "rb") as stream:
                state = os.fstat(descriptor)
                _check_kind(path, state)
                collection.announce(path, state.st_size)
                content = stream.read(state.st_size + 1)
            if len(content) != state.st_size:
                raise BundleError(f"{path!a} changes while it is read")
            collection.file(path, content)
    return collection.finished()


def _raise(error: OSError) -> None:
    raise error


def _check_kind(path: str, state: os.stat_result) -> None:
    kind = stat.S_IFMT(state.st_mode)
    if kind == stat.S_IFLNK:
        raise BundleError(f"{path!a} is a link; put the file itself there")
    if kind not in (stat.S_IFREG, stat.S_IFDIR):
        raise BundleError(f"{path!a} is a device, pipe or socket, not a file")
    if kind == stat.S_IFREG and state.st_mode & (stat.S_ISUID | stat.S_ISGID):
        raise BundleError(f"{path!a} has the setuid or setgid bit")
