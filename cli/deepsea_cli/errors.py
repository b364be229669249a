"""Maps errors to one line on stderr and an exit status.

2 = bad input, 1 = a negative answer or an error of the referee or the machine, 130 = interrupted.
Only a bug in this program shows a traceback.

Refusal of texts that no argument may be: blank, not UTF-8, or with control characters.

All arguments are checked before any of them is interpreted, so no command checks its own.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import click
from click.exceptions import NoArgsIsHelpError

if TYPE_CHECKING:
    from deepsea_referee.summary import BotHangs


DONE, NEGATIVE, BAD_INPUT, INTERRUPTED, CLOSED_PIPE = 0, 1, 2, 130, 141


class Interrupted(Exception):
    """Ctrl-C; the message says what was complete."""


EndedEarly: TypeAlias = "bool | BotHangs"
"""The cause of an early end of games: True for Ctrl-C, False if they were not ended early."""


def raise_early_end(ended: EndedEarly, counted: str) -> None:
    """Raise Interrupted after Ctrl-C, with what was complete, or the error of a bot that hangs."""
    if ended is True:
        raise Interrupted(f"after {counted}")
    if ended:
        raise ended


class ClosedPipe(Exception):
    """The reader of the output has closed the pipe, as `head` does."""


def exit_status(run: Callable[[], object]) -> int:
    """Run the command; print its error on stderr and return the exit status."""
    _open_missing_streams()
    try:
        status = run()
        sys.stdout.flush()
    except NoArgsIsHelpError as error:
        error.show()
        return BAD_INPUT
    except click.UsageError as error:
        hint = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
        said = _one_line(error.format_message()).removesuffix(".")
        return _fail(f"{said}{hint}", BAD_INPUT)
    except click.ClickException as error:
        return _fail(_one_line(error.format_message()), BAD_INPUT)
    except (Interrupted, KeyboardInterrupt, click.Abort) as error:
        return _fail(f"interrupted {error}".rstrip(), INTERRUPTED)
    except (ClosedPipe, BrokenPipeError):
        return _drop_output(CLOSED_PIPE)
    except OSError as error:
        _drop_output(NEGATIVE)
        where = f" {error.filename!r}" if error.filename else ""
        return _fail(f"system error{where}: {error.strerror or error}", NEGATIVE)
    except Exception as error:
        known = _ours(error)
        if known is None:
            raise
        detail = str(getattr(error, "detail", ""))
        return _fail(known[0], known[1], detail)
    return status if isinstance(status, int) else DONE


def _ours(error: Exception) -> tuple[str, int] | None:
    """The message and exit status of an error of this project; None for any other."""
    # Imported here, because `--help` does not need it and would take most of its time for it.
    from deepsea_arena.api.errors import RemoteError
    from deepsea_bundle.errors import BundleDamaged, BundleError
    from deepsea_ladder.errors import (
        ChainBroken,
        LadderError,
        StoreDamaged,
        StoreGone,
        StoreUnavailable,
        WorkerError,
    )
    from deepsea_referee.errors import RefereeError, UserError
    from deepsea_referee.sandbox.interface import SandboxUnavailable
    from deepsea_rules.errors import IllegalAction, RulesError

    line = _one_line(str(error))
    match error:
        case RefereeError():
            return f"the referee failed, no bot is to blame: {line}", NEGATIVE
        case (
            StoreUnavailable()
            | StoreDamaged()
            | StoreGone()
            | ChainBroken()
            | BundleDamaged()
            | WorkerError()
            | IllegalAction()
            | RemoteError()
        ):
            return line, NEGATIVE
        case UserError() | SandboxUnavailable() | BundleError() | LadderError() | RulesError():
            return line, BAD_INPUT
    return None


def _open_missing_streams() -> None:
    """Replace streams that were closed at the start (`>&-`), so that no file takes their place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, encoding="utf-8"))


def _one_line(message: str) -> str:
    from deepsea_rules.printable import one_line

    return one_line(message)


def _fail(message: str, status: int, detail: str = "") -> int:
    with contextlib.suppress(OSError):
        click.echo(f"deepsea-referee: {message}", err=True)
        for line in detail.splitlines() if detail not in message else ():
            click.echo(f"  {line}", err=True)
    return status


def _drop_output(status: int) -> int:
    """Discard buffered output that cannot be written, so that the exit does not write it."""
    with contextlib.suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)
    return status


_REASONS = {
    "Cc": "it has a control character",
    "Cs": "it is not UTF-8",
    "Zl": "it has a line separator",
    "Zp": "it has a paragraph separator",
}
"""Reasons by the category of a character, as Unicode names it."""
_HAS_PASSWORD = re.compile(r":.*@|password", re.IGNORECASE | re.DOTALL)
"""The form of a database's URL with a password, which is not shown."""


def refuse_odd_arguments(arguments: Sequence[str]) -> None:
    """Raise UsageError for the first argument, or value after `--OPTION=`, that is an odd text."""
    before = ""
    for number, argument in enumerate(arguments, 1):
        option, equals, value = argument.partition("=")
        if option.startswith("--") and equals:
            refuse_odd_text(option, value)
        else:
            after = f" (after {before})" if before.strip("-") != before != "" else ""
            refuse_odd_text(f"argument {number}{after}", argument)
        before = argument


def refuse_odd_text(where: str, text: str) -> None:
    """Raise UsageError for an odd text; `where` names it in the message."""
    if not text.strip():
        raise click.UsageError(f"{where} is empty: write a value, or omit it")
    if text.isprintable():  # most are, and this is the fastest check
        return
    from deepsea_rules.printable import quoted  # rarely needed

    for character in text:
        if reason := _REASONS.get(unicodedata.category(character)):
            shown = "" if _HAS_PASSWORD.search(text) else f"{quoted(text)}: "
            raise click.UsageError(f"{where}: {shown}{reason}")
