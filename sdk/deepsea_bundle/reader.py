"""The one reader of bots: a folder, a zip or a single Python file, checked, for matches and ladder.

Invariants: no code of a bot is run or imported here, and nothing outside of it is read. The error
of a refused bot says in one line what is wrong and where. Two forms of the same files are one bot
with one digest. An accepted bot packs and unpacks to exactly the files that were checked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from deepsea_bundle import names
from deepsea_bundle.archive import LIMITS, BundleLimits, Collection, Files, digest, pack
from deepsea_bundle.errors import BundleError
from deepsea_bundle.folder import read_folder
from deepsea_bundle.manifest import MANIFEST, Manifest, Protocol, read_manifest
from deepsea_bundle.program import MANIFEST_OF_SINGLE, check_alone, check_program, collect_single
from deepsea_bundle.unzip import collect_zip

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
    """Its files, their number and sizes, and the paths that were left out."""
    protocol: Protocol = "grpc"
    requirements: str | None = None
    """Text of the file that names the packages it needs; None if bot.toml names no such file."""

    @property
    def files(self) -> Files:
        return self.collection.files

    @property
    def archive(self) -> bytes:
        """Its files, packed in the form that the ladder stores."""
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
            bundle = _checked(single, MANIFEST_OF_SINGLE, name, path.stem, path.name)
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
    return _checked(collection, read_manifest(collection.files), name, default)


def _checked(
    collection: Collection, manifest: Manifest, name: str | None, default: str, single: str = ""
) -> BotBundle:
    """Check a bot's program and name, and return the bot.

    default  name if neither the caller nor bot.toml gives one
    single   the author's name of the file, of a bot that is a single file
    """
    check_program(manifest.command, collection.files, single)
    if name is None and manifest.name is None:
        try:
            names.checked("the folder's or file's name", default)
        except BundleError as error:
            raise BundleError(
                f'{error}; write name = "{names.name_from(default)}" in {MANIFEST}, or submit it '
                "with --name"
            ) from None
    chosen_name = name if name is not None else manifest.name or default
    return BotBundle(
        names.checked("the bot's name", chosen_name),
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
