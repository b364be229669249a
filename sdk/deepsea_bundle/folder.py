"""A bot's folder: its files, with links inside it as copies of what they lead to.

Invariants: nothing outside of the folder is read, also if somebody changes it meanwhile: every part
of a path is opened without following links; a link that leaves the folder, leads nowhere or leads
back to a folder that it is in is refused by name; copies count like files, so links make nothing
larger than the limits.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from deepsea_bundle.archive import LIMITS, BundleLimits, Collected, FileCollector, skipped_part
from deepsea_bundle.errors import BundleError
from deepsea_bundle.no_links import names_in, opened


def read_folder(folder: Path, limits: BundleLimits = LIMITS) -> Collected:
    """The files in a folder; raises `BundleError` at the first thing that is wrong with it."""
    reader = _FolderReader(folder.resolve(), limits)
    reader.read("", "", ())
    return reader.collector.finished()


class _FolderReader:
    """Walks one folder. Paths are relative to it: `path` in the bot, `place` on the disk; they
    differ inside of what was reached by a link."""

    def __init__(self, root: Path, limits: BundleLimits) -> None:
        self.collector = FileCollector(limits)
        self._root = root

    def read(self, path: str, place: str, inside: tuple[str, ...]) -> None:
        """Read a folder; `inside` has the places of the folders around it."""
        if place in inside:
            raise BundleError(f"{path!a} is a link that leads back to a folder that it is in")
        names = names_in(self._root, place)
        for name in names:
            child = f"{path}/{name}" if path else name
            if skipped_part(child) is not None:
                self.collector.skip(child)
                continue
            where = f"{place}/{name}" if place else name
            if stat.S_ISLNK((self._root / where).lstat().st_mode):
                where = self._target(child, where)
            self._child(child, where, (*inside, place))

    def _child(self, path: str, place: str, inside: tuple[str, ...]) -> None:
        state = (self._root / place).lstat()
        _check_kind(path, state)  # before it is opened: opening a pipe or device does something
        if stat.S_ISDIR(state.st_mode):
            self.collector.folder(path)
            self.read(path, place, inside)
        else:
            self._file(path, place)

    def _file(self, path: str, place: str) -> None:
        with opened(self._root, place) as descriptor:
            state = os.fstat(descriptor)
            _check_kind(path, state)
            self.collector.announce(path, state.st_size)
            with os.fdopen(descriptor, "rb", closefd=False) as stream:
                content = stream.read(state.st_size + 1)
        if len(content) != state.st_size:
            raise BundleError(f"{path!a} changes while it is read")
        self.collector.file(path, content)

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
        self.collector.links.append(path)
        found = target.relative_to(self._root).as_posix()
        return "" if found == "." else found


def _check_kind(path: str, state: os.stat_result) -> None:
    kind = stat.S_IFMT(state.st_mode)
    if kind not in (stat.S_IFREG, stat.S_IFDIR):
        raise BundleError(f"{path!a} is a device, pipe or socket, not a file")
    if kind == stat.S_IFREG and state.st_mode & (stat.S_ISUID | stat.S_ISGID):
        raise BundleError(f"{path!a} has the setuid or setgid bit")
