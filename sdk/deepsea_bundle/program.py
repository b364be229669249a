"""A bot's program, checked without running it; and bots that are one Python file.

Invariants: nothing is imported or run. A program that is refused here would fail at the start on
any machine. A program that is found on PATH is not checked. A single file that names a module or a
file beside it is refused before it plays. Names that it computes are not found here; when it plays
there is nothing at them, since it is started from a folder that holds this file alone.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

from deepsea_bundle.archive import BundleLimits, Collection, Files, skipped_part
from deepsea_bundle.errors import BundleError
from deepsea_bundle.manifest import MANIFEST, Manifest

PYTHON = ("python", "python3")
"""Programs that stand for the Python interpreter of the machine that runs the bot."""
LONGEST_LINE = 60
"""Characters of a line with a mistake that are shown."""
LONGEST_COMPILED = 1 << 20
"""Bytes of a program that is compiled to check it, which takes 400 bytes of memory for each. Longer
files are data rather than programs."""
SINGLE = "bot.py"
"""File name of a bot of a single file: a renamed file is the same bot."""
MANIFEST_OF_SINGLE = Manifest(None, ("python3", SINGLE))
_LOOKS_LIKE_A_FILE = re.compile(r"[\w./-]{1,200}")


def check_program(command: tuple[str, ...], files: Files, single: str = "") -> None:
    """Raise `BundleError` if the program is missing or is Python code with a syntax error.

    single  the author's name of the file, of a bot that is one file
    """
    program = command[0]
    if program.startswith(("/", "~")):
        raise BundleError(
            f"{MANIFEST}: command starts {program!a}, which is a place on your machine; "
            "name a file of the bot, or a program such as python3"
        )
    if "/" in program and (path := os.path.normpath(program)) not in files:
        raise BundleError(f"{MANIFEST}: command starts {program!a}, but {_why_not_there(path)}")
    if program in PYTHON:
        arguments = [word for word in command[1:] if not word.startswith("-")]
        if arguments and arguments[0].endswith(".py"):
            script = arguments[0]
            _check_script(script, files, single or os.path.normpath(script))


def _check_script(script: str, files: Files, called: str) -> None:
    """Raise `BundleError` if a Python script is missing or has a syntax error.

    called  name of the script in messages
    """
    path = os.path.normpath(script)
    if path not in files:
        python_files = ", ".join(sorted(path for path in files if path.endswith(".py"))[:3])
        raise BundleError(
            f"{MANIFEST}: command runs {script!a}, but {_why_not_there(path)}; "
            f"there is {python_files or 'no Python file'}"
        )
    source = files[path]
    if len(source) > LONGEST_COMPILED:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        # Imported late: it imports all the rules, in the process that reads each bot.
        from deepsea_rules.printable import printable

        location = f"line {error.lineno}: " if error.lineno else ""
        line = (error.text or "").strip()[:LONGEST_LINE]
        message = f"{location}{printable(error.msg)}{f': {printable(line)}' if line else ''}"
        raise BundleError(f"{called} is not valid Python: {message}") from None
    except (ValueError, OverflowError) as error:
        raise BundleError(f"{called} is not valid Python: {error}") from None
    except (RecursionError, MemoryError):
        raise BundleError(f"{called} is not valid Python: it is nested too deeply") from None


def _why_not_there(path: str) -> str:
    """Return the reason why the bot has no such file."""
    left_out = " (such files are left out of bots)" if skipped_part(path) else ""
    return f"there is no such file{left_out}"


def collect_single(program: bytes, limits: BundleLimits) -> Collection:
    """Return the files of a bot that is one Python file: the program and a bot.toml."""
    collection = Collection(limits)
    collection.announce(SINGLE, len(program))
    collection.file(SINGLE, program)
    content = "command = [" + ", ".join(f'"{word}"' for word in MANIFEST_OF_SINGLE.command) + "]\n"
    collection.file(MANIFEST, content.encode())
    return collection


def check_alone(file: Path, program: bytes) -> None:
    """Raise `BundleError` if a valid program imports or names a file beside it."""
    if len(program) > LONGEST_COMPILED:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(program)
    for neighbour in _beside(tree, file):
        raise BundleError(
            f"it uses {neighbour} beside it, but only {file.name} is visible in the sandbox: "
            f"make a folder with {MANIFEST}"
        )


def _beside(tree: ast.AST, file: Path) -> Iterator[str]:
    """Yield the modules and files in its own folder that the program uses, as text."""
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
    """Return True if a module of this name lies beside the file, and nowhere before it."""
    if name in sys.stdlib_module_names or name.startswith("deepsea_") or name == file.stem:
        return False
    folder = file.parent / name
    return folder.with_name(f"{name}.py").is_file() or any(folder.glob("*.py"))


def _is_file_beside(text: str, file: Path) -> bool:
    """Return True if a text is the name of a file beside the program."""
    if "." not in text or not _LOOKS_LIKE_A_FILE.fullmatch(text) or text == file.name:
        return False
    return (file.parent / text).is_file()
