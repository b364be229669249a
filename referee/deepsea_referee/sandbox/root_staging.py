"""The steps between this process and bubblewrap: control groups, and an unprivileged user.

Invariants: each step executes the next in its place, so the bot's tree is below one child process.
A bot is never uid 0 outside its sandbox: if this process is root, the child becomes `nobody` before
bubblewrap starts. What `nobody` cannot reach (an interpreter in root's home, a private socket
folder) is then mounted, in its own mount namespace, where `nobody` can; files of a bot that
`nobody` cannot read are copied.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deepsea_referee.sandbox import cleanup
from deepsea_referee.sandbox.errors import SandboxUnavailable
from deepsea_referee.sandbox.mounts import Mount

NOBODY = 65534
TOOL_PATH = os.pathsep.join(("/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"))

# Arguments: files to join -- pairs of source and mount point -- the next program.
# dash starts in a millisecond; a preexec_fn in a process with gRPC threads may hang.
_SCRIPT = """
while [ "$1" != -- ]; do echo 0 > "$1" || exit 125; shift; done; shift
while [ "$1" != -- ]; do "$MOUNT" --bind "$1" "$2" || exit 125; shift 2; done; shift
unset MOUNT PWD OLDPWD
exec "$@"
"""


def tool(name: str) -> str:
    """The path of a program of the system; SandboxUnavailable if it is missing."""
    # Not the caller's PATH: these programs run before anything is confined.
    found = shutil.which(name, path=TOOL_PATH)
    if found is None:
        raise SandboxUnavailable(f"the sandbox needs the program {name!r}: install its package")
    return found


def is_root() -> bool:
    """Whether bots must run as another user."""
    return os.geteuid() == 0


@dataclass(slots=True)
class Stage:
    """Makes mounts readable for the sandbox's user; `sources` has their new places."""

    folder: Path | None = None
    sources: dict[Mount, Path] = field(default_factory=dict)
    mounts: list[tuple[Path, Path]] = field(default_factory=list)

    @classmethod
    def build(cls, shown: Sequence[Mount]) -> Stage:
        """Prepare the mounts; nothing to do for an ordinary user, whose bots are the same user."""
        stage = cls()
        if is_root():
            try:
                for one in shown:
                    stage._add(one)
            except OSError:
                stage.remove()
                raise
        return stage

    def _add(self, one: Mount) -> None:
        if one.is_bot and not _tree_is_open(one.source):
            place = self._place()
            _copy_open(one.source, place)
            self.sources[one] = place
        elif stat.S_ISSOCK(one.source.stat().st_mode):
            os.chown(one.source, NOBODY, NOBODY)
            self._mount(one)
        elif not _reachable(one.source):
            self._mount(one)

    def _mount(self, one: Mount) -> None:
        place = self._place()
        if one.source.is_dir():
            place.mkdir()
        else:
            place.touch()
        self.mounts.append((one.source.resolve(), place))
        self.sources[one] = place

    def _place(self) -> Path:
        if self.folder is None:
            self.folder = cleanup.private_folder()
            if not _reachable(self.folder.parent):
                cleanup.remove_folder(self.folder)
                self.folder = cleanup.private_folder(parent="/tmp")
            # For root and the sandbox's user only, who may pass through but not list it.
            os.chown(self.folder, -1, NOBODY)
            self.folder.chmod(0o710)
        return self.folder / str(len(self.sources))

    def remove(self) -> None:
        """Remove copies and mount points; the mounts are gone with their namespace."""
        if self.folder is not None:
            cleanup.remove_folder(self.folder)
            self.folder = None


def steps(joins: Sequence[Path], stage: Stage) -> tuple[list[str], dict[str, str]]:
    """The command line before bubblewrap's, and the environment that it needs."""
    words: list[str] = []
    environment: dict[str, str] = {}
    if stage.mounts:
        words += [tool("unshare"), "--mount", "--propagation", "private", "--"]
        environment["MOUNT"] = tool("mount")
    if joins or stage.mounts:
        words += [tool("sh"), "-c", _SCRIPT, "sh"]
        words += [*map(str, joins), "--"]
        words += [str(path) for pair in stage.mounts for path in pair] + ["--"]
    if is_root():
        user = str(NOBODY)
        words += [tool("setpriv"), "--reuid", user, "--regid", user, "--clear-groups", "--"]
    return words, environment


def _reachable(path: Path) -> bool:
    """Whether any user may reach and read this file or folder."""
    path = path.resolve()
    needed = stat.S_IROTH | (stat.S_IXOTH if path.is_dir() else 0)
    if path.stat().st_mode & needed != needed:
        return False
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in path.parents)


def _tree_is_open(path: Path) -> bool:
    """Whether any user may read this file, or everything in this folder, once it is reached."""
    if not path.is_dir():
        return bool(path.stat().st_mode & stat.S_IROTH)
    for folder, _folders, files in os.walk(path):
        inside = [Path(folder), *(Path(folder, name) for name in files)]
        for one in inside:
            mode = one.lstat().st_mode
            needed = stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(mode) else 0)
            if not stat.S_ISLNK(mode) and mode & needed != needed:
                return False
    return True


def _copy_open(source: Path, target: Path) -> None:
    """Copy a bot so that any user who reaches the copy can read it."""
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
        paths = [
            Path(folder, name) for folder, _, files in os.walk(target) for name in ("", *files)
        ]
    else:
        shutil.copy(source, target)
        paths = [target]
    for path in paths:
        mode = path.lstat().st_mode
        if not stat.S_ISLNK(mode):
            # Readable, and executable where its owner may execute it.
            path.chmod(stat.S_IMODE(mode) | 0o444 | (0o111 if mode & stat.S_IXUSR else 0))
