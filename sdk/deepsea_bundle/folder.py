"""A bot's folder: its files, with links inside it as copies of what they lead to.

Invariants: nothing outside of the folder is read, also if somebody changes it meanwhile: every part
of a path is opened without following links; a link that leaves the folder, leads nowhere or leads
back to a folder that it is in is refused by name; copies count like files, so links make nothing
larger than the limits. Windows cannot open a file relative to an open folder: there every part of a
path is looked at before, which is enough for files of one's own.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deepsea_bundle.archive import LIMITS, BundleLimits, Collection, Files, skipped_part
from deepsea_bundle.errors import BundleError

_BY_PARTS = os.open in os.supports_dir_fd and os.scandir in os.supports_fd


def read_folder(folder: Path, limits: BundleLimits = LIMITS) -> Collection:
    """The files in a folder; raises `BundleError` at the first thing that is wrong with it."""
    reader = _FolderReader(folder.resolve(), Collection(limits))
    reader.read("", "", ())
    return reader.collection


def write_folder(files: Files, folder: Path) -> None:
    """Write a bot's files below a new folder, for reading and execution alone."""
    folder.mkdir(parents=True)
    for path, content in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        target.chmod(0o555)  # which of them are programs is the command's business


class _FolderReader:
    """Walks one folder. Paths are relative to it: `path` in the bot, `place` on the disk; they
    differ inside of what was reached by a link.
    """

    def __init__(self, root: Path, collection: Collection) -> None:
        self.collection = collection
        self._root = root

    def read(self, path: str, place: str, inside: tuple[str, ...]) -> None:
        """Read a folder; `inside` has the places of the folders around it."""
        if place in inside:
            raise BundleError(f"{path!a} is a link that leads back to a folder that it is in")
        names = _names_in(self._root, place)
        for name in names:
            child = f"{path}/{name}" if path else name
            if skipped_part(child) is not None:
                self.collection.skip(child)
                continue
            where = f"{place}/{name}" if place else name
            if stat.S_ISLNK((self._root / where).lstat().st_mode):
                where = self._target(child, where)
            self._child(child, where, (*inside, place))

    def _child(self, path: str, place: str, inside: tuple[str, ...]) -> None:
        state = (self._root / place).lstat()
        _check_kind(path, state)  # before it is opened: opening a pipe or device does something
        if stat.S_ISDIR(state.st_mode):
            self.collection.folder(path)
            self.read(path, place, inside)
        else:
            self._file(path, place)

    def _file(self, path: str, place: str) -> None:
        with _opened(self._root, place) as descriptor:
            state = os.fstat(descriptor)
            _check_kind(path, state)
            self.collection.announce(path, state.st_size)
            with os.fdopen(descriptor, "rb", closefd=False) as stream:
                content = stream.read(state.st_size + 1)
        if len(content) != state.st_size:
            raise BundleError(f"{path!a} changes while it is read")
        self.collection.file(path, content)

    def _target(self, path: str, place: str) -> str:
        """The place that a link leads to, free of links."""
        link = self._root / place
        text = str(link.readlink())
        try:
            target = link.resolve(strict=True)
        except FileNotFoundError:
            raise BundleError(f"{path!a} is a link to {text!a}, which is not there") from None
        except (OSError, RuntimeError):  # a link to itself
            raise BundleError(f"{path!a} is a link to {text!a}, which leads nowhere") from None
        if not target.is_relative_to(self._root):
            raise BundleError(
                f"{path!a} is a link to {text!a}, outside of the bot's folder; "
                "put the file itself there"
            )
        self.collection.links.append(path)
        found = target.relative_to(self._root).as_posix()
        return "" if found == "." else found


def _check_kind(path: str, state: os.stat_result) -> None:
    kind = stat.S_IFMT(state.st_mode)
    if kind not in (stat.S_IFREG, stat.S_IFDIR):
        raise BundleError(f"{path!a} is a device, pipe or socket, not a file")
    if kind == stat.S_IFREG and state.st_mode & (stat.S_ISUID | stat.S_ISGID):
        raise BundleError(f"{path!a} has the setuid or setgid bit")


@contextmanager
def _opened(root: Path, place: str) -> Iterator[int]:
    """A descriptor of the file or folder at `place`, of which no part is a link."""
    descriptor = _open_by_parts(root, place) if _BY_PARTS else _open_checked(root, place)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _names_in(root: Path, place: str) -> list[str]:
    """The names in the folder at `place`, sorted."""
    if not _BY_PARTS:
        return sorted(entry.name for entry in os.scandir(_checked(root, place)))
    with _opened(root, place) as descriptor:
        return sorted(entry.name for entry in os.scandir(descriptor))


def _open_by_parts(root: Path, place: str) -> int:
    flags = os.O_RDONLY
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"):
        flags |= getattr(os, name)
    descriptor = os.open(root, flags | getattr(os, "O_DIRECTORY"))  # noqa: B009
    try:
        for part in place.split("/") if place else ():
            outer = descriptor
            descriptor = os.open(part, flags, dir_fd=outer)
            os.close(outer)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _open_checked(root: Path, place: str) -> int:
    # As bytes: Windows would change line ends.
    return os.open(_checked(root, place), os.O_RDONLY | getattr(os, "O_BINARY", 0))


def _checked(root: Path, place: str) -> Path:
    path = root
    for part in place.split("/") if place else ():
        path = path / part
        if path.is_symlink():
            raise OSError(f"{path} has become a link")
    return path
