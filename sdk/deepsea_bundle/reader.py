"""The one reader of bots: a folder, a zip or a single Python file, checked, for matches and ladder.

Invariants: nothing of a bot is run or imported here; nothing outside of it is read; whoever is
refused learns in one line what is wrong and where; two forms of the same files are one bot with one
digest; what is accepted packs and unpacks to exactly what was checked.
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
    """As in bot.toml, to be run in the folder of its files."""
    digest: str
    """SHA-256 over its files."""
    collection: Collection = field(compare=False)
    """Its files, with their number and sizes and what was left out of them."""
    protocol: Protocol = "grpc"
    requirements: str | None = None
    """The text that names the packages it needs; None if bot.toml names no such file."""

    @property
    def files(self) -> Files:
        return self.collection.files

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
            single = collect_single(content, limits)
            bundle = _checked(single, MANIFEST_OF_SINGLE, name, path.stem, path.name)
            check_alone(path, content)
            return bundle
        if not content.startswith(b"PK"):
            raise BundleError(f"it is neither a zip nor a Python file; {FORMS}")
        return bundle_of(_take_wrapping_off(collect_zip(content, limits)), name, path.stem)
    except OSError as error:
        why = f"{str(error.filename or path)!r} cannot be read: {error.strerror or error}"
    except BundleError as error:
        why = str(error)
    raise BundleError(f"bot {str(path)!r}: {why}")


def bundle_of(collection: Collection, name: str | None, default: str) -> BotBundle:
    """Check a bot's files. Without a `name`, and if bot.toml has none, it is called `default`."""
    return _checked(collection, read_manifest(collection.files), name, default)


def _checked(
    collection: Collection, manifest: Manifest, name: str | None, default: str, single: str = ""
) -> BotBundle:
    check_program(manifest.command, collection.files, single)
    if name is None and manifest.name is None:
        try:
            names.checked("the folder's or file's name", default)
        except BundleError as error:
            raise BundleError(
                f'{error}; write name = "{names.name_from(default)}" in {MANIFEST}, or submit it '
                "with --name"
            ) from None
    chosen = name if name is not None else manifest.name or default
    return BotBundle(
        names.checked("the bot's name", chosen),
        manifest.command,
        digest(collection.files),
        collection,
        manifest.protocol,
        _requirements(collection.files, manifest),
    )


def _requirements(files: Files, manifest: Manifest) -> str | None:
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


def _take_wrapping_off(collection: Collection) -> Collection:
    """Take a folder off that has everything in it, as packing a folder makes it."""
    files = collection.files
    tops = {path.split("/")[0] for path in files}
    if MANIFEST not in files and len(tops) == 1 and f"{(top := tops.pop())}/{MANIFEST}" in files:
        collection.files = {path.removeprefix(f"{top}/"): files[path] for path in files}
        collection.skipped = {path.removeprefix(f"{top}/"): None for path in collection.skipped}
    return collection
