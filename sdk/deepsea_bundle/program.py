"""The program that a bot's command names, as far as it can be judged without running it.

Invariants: nothing is imported or run; what is refused here would fail at the start on any machine;
a program that is found on PATH is not judged.
"""

from __future__ import annotations

import os
import warnings
from typing import Final

from deepsea_bundle.archive import Files, skipped_part
from deepsea_bundle.errors import BundleError
from deepsea_bundle.manifest import MANIFEST

PYTHON: Final = ("python", "python3")
"""Programs that stand for the interpreter of whoever runs the bot."""
LONGEST_COMPILED: Final = 1 << 20
"""Compiling takes 400 bytes of memory for each byte; programs are not so long, data may be."""


def check_program(command: tuple[str, ...], files: Files) -> None:
    """Raise `BundleError` if the program is not there or, in Python, has a syntax error."""
    program = command[0]
    if program.startswith(("/", "~")):
        raise BundleError(
            f"{MANIFEST}: command starts {program!a}, which is a place on your machine; "
            "name a file of the bot, or a program such as python3"
        )
    if "/" in program and (path := os.path.normpath(program)) not in files:
        raise BundleError(f"{MANIFEST}: command starts {program!a}, but {_why_not_there(path)}")
    if program in PYTHON:
        script = next((word for word in command[1:] if not word.startswith("-")), None)
        if script and script.endswith(".py"):
            _check_script(script, files)


def _check_script(script: str, files: Files) -> None:
    path = os.path.normpath(script)
    if path not in files:
        there = ", ".join(sorted(path for path in files if path.endswith(".py"))[:3])
        raise BundleError(
            f"{MANIFEST}: command runs {script!a}, but {_why_not_there(path)}; "
            f"there is {there or 'no Python file'}"
        )
    source = files[path]
    if len(source) > LONGEST_COMPILED:
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        # Not above: it brings all the rules with it, and each bot has a process that reads it.
        from deepsea_rules.printable import printable

        where = f"line {error.lineno}: " if error.lineno else ""
        raise BundleError(f"{path} is not valid Python: {where}{printable(error.msg)}") from None
    except (ValueError, OverflowError) as error:
        raise BundleError(f"{path} is not valid Python: {error}") from None
    except (RecursionError, MemoryError):
        raise BundleError(f"{path} is not valid Python: it is nested too deeply") from None


def _why_not_there(path: str) -> str:
    left_out = " (such files are left out of bots)" if skipped_part(path) else ""
    return f"there is no such file{left_out}"
