"""The one reader of bots: a folder, a zip or a single Python file, checked, for matches and ladder.

Invariants: no code of a bot is run or imported here, and nothing outside of it is read. The error
of a refused bot says in one line what is wrong and where. Two forms of the same files are one bot
with one digest. An accepted bot packs and unpacks to exactly the files that were checked.

Links inside a bot's folder are read as copies of their targets. Nothing outside of the folder is
read, even if somebody changes it meanwhile: every part of a path is opened without following links.
A link that leaves the folder, leads nowhere or leads back to a folder that it is in is refused by
name. Copies count like files, so links make nothing larger than the limits. Windows cannot open a
file relative to an open folder: there every part of a path is checked before it is opened, which is
enough for one's own files.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from deepsea_bundle import names
from deepsea_bundle.archive import (
    LIMITS,
    BundleLimits,
    Collection,
    Files,
    collect_zip,
    digest,
    pack,
    skipped_part,
)
from deepsea_bundle.errors import BundleError
from deepsea_bundle.program import (
    MANIFEST,
    MANIFEST_OF_SINGLE,
    Manifest,
    Protocol,
    check_alone,
    check_program,
    collect_single,
    read_manifest,
)

_LONGEST_REQUIREMENTS = 64 * 1024
FORMS = f"a bot is a Python file, a folder with {MANIFEST} or a zip of one"


@dataclass(frozen=True, slots=True)
class BotBundle:
    """A bot that was checked."""

    name: str
    command: tuple[str, ...]
    """The command of bot.toml, to be run in the folder of its files."""
    digest: str
    """SHA-256 over its files."""
    collection: Collection = field(compare=False)
    """The bot's files, their number and sizes, and the paths that were left out."""
    protocol: Protocol = "grpc"
    requirements: str | None = None
    """Text of the file that names the packages it needs; None if bot.toml names no such file."""

    @property
    def files(self) -> Files:
        return self.collection.files

    @property
    def archive(self) -> bytes:
        """The bot's files, packed in the form that the ladder stores."""
        return pack(self.files)


def read_bot(path: Path, name: str | None = None, limits: BundleLimits = LIMITS) -> BotBundle:
    """Return the bot at `path`. Raise `BundleError` for the first thing that is wrong with it.

    Its name is `name`, else that of bot.toml, else that of the folder or file.
    """
    try:
        if path.is_dir():
            folder = path.resolve()
            return bundle_of(read_folder(folder, limits), name, folder.name)
        if not path.is_file():
            problem = "is no file" if path.exists() else "is not there"
            raise BundleError(f"it {problem}; {FORMS}")
        with path.open("rb") as stream:
            content = stream.read(max(limits.archive_bytes, limits.file_bytes) + 1)
        if path.suffix == ".py":
            single = collect_single(content, limits)
            bundle = _checked_bot(single, MANIFEST_OF_SINGLE, name, path.stem, path.name)
            check_alone(path, content)
            return bundle
        if not content.startswith(b"PK"):
            raise BundleError(f"it is neither a zip nor a Python file; {FORMS}")
        return bundle_of(_without_outer_folder(collect_zip(content, limits)), name, path.stem)
    except OSError as error:
        reason = f"{str(error.filename or path)!r} cannot be read: {error.strerror or error}"
    except BundleError as error:
        reason = str(error)
    raise BundleError(f"bot {str(path)!r}: {reason}")


def bundle_of(collection: Collection, name: str | None, default: str) -> BotBundle:
    """Check a bot's files, and return the bot.

    Its name is `name`, else bot.toml's, else `default`.
    """
    return _checked_bot(collection, read_manifest(collection.files), name, default)


def _checked_bot(
    collection: Collection, manifest: Manifest, name: str | None, default: str, single: str = ""
) -> BotBundle:
    """Check a bot's program and name, and return the bot.

    default  name if neither the caller nor bot.toml gives one
    single   for a bot that is one file, the name that its author has given to the file
    """
    check_program(manifest.command, collection.files, single)
    if name is None and manifest.name is None:
        try:
            names.valid_bot_name("the folder's or file's name", default)
        except BundleError as error:
            raise BundleError(
                f'{error}; write name = "{names.name_from(default)}" in {MANIFEST}, or submit it '
                "with --name"
            ) from None
    chosen_name = name if name is not None else manifest.name or default
    return BotBundle(
        names.valid_bot_name("the bot's name", chosen_name),
        manifest.command,
        digest(collection.files),
        collection,
        manifest.protocol,
        _requirements(collection.files, manifest),
    )


def _requirements(files: Files, manifest: Manifest) -> str | None:
    """Return the text of the file that names the bot's packages; None if bot.toml names none."""
    if manifest.requirements is None:
        return None
    content = files[manifest.requirements]
    if len(content) > _LONGEST_REQUIREMENTS:
        raise BundleError(
            f"{manifest.requirements} has {len(content):,} bytes, "
            f"more than {_LONGEST_REQUIREMENTS:,}"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BundleError(f"{manifest.requirements} is not UTF-8") from None


def _without_outer_folder(collection: Collection) -> Collection:
    """Remove a single folder around all files, as zips of a whole folder have it."""
    files = collection.files
    tops = {path.split("/")[0] for path in files}
    if MANIFEST in files or len(tops) != 1:
        return collection
    prefix = f"{tops.pop()}/"
    if prefix + MANIFEST in files:
        collection.files = {path.removeprefix(prefix): files[path] for path in files}
        collection.skipped = {path.removeprefix(prefix): None for path in collection.skipped}
    return collection


_BY_PARTS = os.open in os.supports_dir_fd and os.scandir in os.supports_fd


def read_folder(folder: Path, limits: BundleLimits = LIMITS) -> Collection:
    """Return the files in a folder.

    Raise `BundleError` for the first thing that is wrong with it.
    """
    reader = _FolderReader(folder.resolve(), Collection(limits))
    reader.read("", "", ())
    return reader.collection


def write_folder(files: Files, folder: Path) -> None:
    """Write a bot's files below a new folder, readable and executable for everybody."""
    folder.mkdir(parents=True)
    for path, content in files.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        target.chmod(0o555)  # the command may name any of them as a program


class _FolderReader:
    """Reader of one folder.

    Paths are relative to the folder: `path` is the path in the bot, `real_path` the path on the
    disk. They differ inside of a folder that was reached by a link.
    """

    def __init__(self, root: Path, collection: Collection) -> None:
        self.collection = collection
        self._root = root

    def read(self, path: str, real_path: str, parents: tuple[str, ...]) -> None:
        """Read a folder and all that is in it.

        parents  real paths of the folders around it
        """
        if real_path in parents:
            raise BundleError(f"{path!a} is a link that leads back to a folder that it is in")
        names = _names_in(self._root, real_path)
        for name in names:
            child = f"{path}/{name}" if path else name
            if skipped_part(child) is not None:
                self.collection.skip(child)
                continue
            real_child = f"{real_path}/{name}" if real_path else name
            if stat.S_ISLNK((self._root / real_child).lstat().st_mode):
                real_child = self._link_target(child, real_child)
            self._read_child(child, real_child, (*parents, real_path))

    def _read_child(self, path: str, real_path: str, parents: tuple[str, ...]) -> None:
        """Read a file or a folder, which is no link."""
        state = (self._root / real_path).lstat()
        _check_kind(path, state)  # opening a pipe or a device would have effects
        if stat.S_ISDIR(state.st_mode):
            self.collection.add_folder(path)
            self.read(path, real_path, parents)
        else:
            self._read_file(path, real_path)

    def _read_file(self, path: str, real_path: str) -> None:
        """Read a file into the collection."""
        with _open_file(self._root, real_path) as descriptor:
            state = os.fstat(descriptor)
            _check_kind(path, state)  # again: it may have changed since it was checked
            self.collection.announce(path, state.st_size)
            with os.fdopen(descriptor, "rb", closefd=False) as stream:
                content = stream.read(state.st_size + 1)
        if len(content) != state.st_size:
            raise BundleError(f"{path!a} changes while it is read")
        self.collection.add_file(path, content)

    def _link_target(self, path: str, real_path: str) -> str:
        """Return the real path that a link leads to, without any links in it."""
        link = self._root / real_path
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
        relative = target.relative_to(self._root).as_posix()
        return "" if relative == "." else relative


def _check_kind(path: str, state: os.stat_result) -> None:
    """Raise BundleError for anything but an ordinary file or folder."""
    kind = stat.S_IFMT(state.st_mode)
    if kind not in (stat.S_IFREG, stat.S_IFDIR):
        raise BundleError(f"{path!a} is a device, pipe or socket, not a file")
    if kind == stat.S_IFREG and state.st_mode & (stat.S_ISUID | stat.S_ISGID):
        raise BundleError(f"{path!a} has the setuid or setgid bit")


@contextmanager
def _open_file(root: Path, real_path: str) -> Iterator[int]:
    """Open the file or folder at a real path, which may have no links in it."""
    descriptor = _open_by_parts(root, real_path) if _BY_PARTS else _open_checked(root, real_path)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _names_in(root: Path, real_path: str) -> list[str]:
    """Return the names in a folder, sorted."""
    if not _BY_PARTS:
        return sorted(entry.name for entry in os.scandir(_without_links(root, real_path)))
    with _open_file(root, real_path) as descriptor:
        return sorted(entry.name for entry in os.scandir(descriptor))


def _open_by_parts(root: Path, real_path: str) -> int:
    """Return a descriptor of a real path, opened part by part without following links."""
    flags = os.O_RDONLY
    # By `getattr`, since Windows has none of these flags. It does not come here.
    for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC"):
        flags |= getattr(os, name)
    descriptor = os.open(root, flags | getattr(os, "O_DIRECTORY"))  # noqa: B009
    try:
        for part in real_path.split("/") if real_path else ():
            outer = descriptor
            descriptor = os.open(part, flags, dir_fd=outer)
            os.close(outer)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _open_checked(root: Path, real_path: str) -> int:
    """Return a descriptor of a real path, on systems that cannot open relative to a folder."""
    # O_BINARY, because Windows would change line ends.
    return os.open(_without_links(root, real_path), os.O_RDONLY | getattr(os, "O_BINARY", 0))


def _without_links(root: Path, real_path: str) -> Path:
    """Return the path of a file, after checking that no part of it is a link."""
    path = root
    for part in real_path.split("/") if real_path else ():
        path = path / part
        if path.is_symlink():
            raise OSError(f"{path} has become a link")
    return path
