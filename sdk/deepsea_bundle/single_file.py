"""A bot that is one Python file: nothing beside it is visible to it, in any isolation.

Invariants: nothing is imported or run; a file that names a module or a file beside it is refused
before it plays; names that it computes are not found out here, and there is nothing at them when it
plays, since it is started from a folder that holds this file alone.
"""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from deepsea_bundle.archive import BundleLimits, Collected, FileCollector, Files
from deepsea_bundle.errors import BundleError
from deepsea_bundle.manifest import MANIFEST, Manifest
from deepsea_bundle.program import LONGEST_COMPILED

_KEPT_AS: Final = "bot.py"
"""What a bot of a single file is kept as: a renamed file is the same bot."""
MANIFEST_OF_SINGLE: Final = Manifest(None, ("python3", _KEPT_AS))
_LOOKS_LIKE_A_FILE: Final = re.compile(r"[\w./-]{1,200}")


def collect_single(program: bytes, limits: BundleLimits) -> Collected:
    """The files of a bot that is one Python file."""
    collector = FileCollector(limits)
    collector.announce(_KEPT_AS, len(program))
    collector.file(_KEPT_AS, program)
    content = "command = [" + ", ".join(f'"{word}"' for word in MANIFEST_OF_SINGLE.command) + "]\n"
    return Collected({_KEPT_AS: program, MANIFEST: content.encode()}, (), ())


def program_of(files: Files) -> bytes:
    """The program of a bot that was collected by `collect_single`."""
    return files[_KEPT_AS]


def check_alone(file: Path, program: bytes) -> None:
    """Raise `BundleError` if a valid program imports or names what lies beside it."""
    if len(program) > LONGEST_COMPILED:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(program)
    for what in _beside(tree, file):
        raise BundleError(
            f"it uses {what} beside it, but only {file.name} is visible in the sandbox: "
            f"make a folder with {MANIFEST}"
        )


def _beside(tree: ast.AST, file: Path) -> Iterator[str]:
    """What the program uses that lies in its own folder."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                modules = [name.name for name in names]
            case ast.ImportFrom(module=str(module), level=0):
                modules = [module]
            case ast.Constant(value=str(text)):
                if _is_file_beside(text.lstrip("/"), file):
                    yield f"the file {text!a}"
                continue
            case _:
                continue
        for module in modules:
            if _is_module_beside(module.partition(".")[0], file):
                yield f"the module {module!a}"


def _is_module_beside(name: str, file: Path) -> bool:
    if name in sys.stdlib_module_names or name.startswith("deepsea_") or name == file.stem:
        return False
    folder = file.parent / name
    return folder.with_name(f"{name}.py").is_file() or any(folder.glob("*.py"))


def _is_file_beside(text: str, file: Path) -> bool:
    if "." not in text or not _LOOKS_LIKE_A_FILE.fullmatch(text) or text == file.name:
        return False
    return (file.parent / text).is_file()
