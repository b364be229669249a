"""Errors of the command line as one line on stderr and an exit status, and odd arguments.

Exit status: 2 bad input, 1 a negative answer or an error of the referee or the machine, 130
interrupted. Only a bug in this program shows a traceback.
Texts that no argument may be (blank, not UTF-8, with control characters) are refused before any
argument is interpreted, so no command checks its own.
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
    """The user pressed Ctrl-C; the message says what was complete."""


EndedEarly: TypeAlias = "bool | BotHangs"
"""The cause of an early end of games: True for Ctrl-C, False if they were not ended early."""


def raise_early_end(ended: EndedEarly, progress: str) -> None:
    """Raise an error if games ended early: Interrupted after Ctrl-C, or that of a bot that hangs.

    ended     cause of the end: True for Ctrl-C, the bot's error, or False if all were played
    progress  what was complete, such as "12 of 20 games", for the message after Ctrl-C
    """
    if isinstance(ended, Exception):
        raise ended
    if ended:
        raise Interrupted(f"after {progress}")


class ClosedPipe(Exception):
    """The reader of the output has closed the pipe, as `head` does."""


def exit_status(run: Callable[[], object]) -> int:
    """Run the command and return the exit status, after an error with one line on stderr.

    Errors that are not of this project, nor of the system or the command line, are raised: they
    are bugs, whose traceback is of use.
    """
    _open_missing_streams()
    try:
        status = run()
        sys.stdout.flush()
    except NoArgsIsHelpError as error:
        error.show()
        return BAD_INPUT
    except click.UsageError as error:
        hint = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
        message = _one_line(error.format_message()).removesuffix(".")
        return _fail(f"{message}{hint}", BAD_INPUT)
    except click.ClickException as error:
        return _fail(_one_line(error.format_message()), BAD_INPUT)
    except (Interrupted, KeyboardInterrupt, click.Abort) as error:
        return _fail(f"interrupted {error}".rstrip(), INTERRUPTED)
    except (ClosedPipe, BrokenPipeError):
        _discard_output()
        return CLOSED_PIPE
    except OSError as error:
        _discard_output()
        where = f" {error.filename!r}" if error.filename else ""
        return _fail(f"system error{where}: {error.strerror or error}", NEGATIVE)
    except Exception as error:
        outcome = _message_and_status(error)
        if outcome is None:
            raise
        message, status = outcome
        return _fail(message, status, str(getattr(error, "detail", "")))
    return status if isinstance(status, int) else DONE


def _message_and_status(error: Exception) -> tuple[str, int] | None:
    """Return the message and the exit status for an error of this project; None for any other."""
    # Imported here, because these modules would take most of the time of `--help`.
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
    """Open the standard streams that were closed when the program was started, as by `>&-`.

    Otherwise the next file that is opened would get the file descriptor of such a stream, and
    output would go into this file.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            null_device = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(null_device, mode, encoding="utf-8"))


def _one_line(message: str) -> str:
    """Return a message as one printable line."""
    from deepsea_rules.printable import one_line

    return one_line(message)


def _fail(message: str, status: int, detail: str = "") -> int:
    """Print an error on stderr, and return the exit status.

    detail  more lines, which are printed below the message unless it has this text already
    """
    # Where stderr cannot be written, the exit status still says that there was an error.
    with contextlib.suppress(OSError):
        click.echo(f"deepsea-referee: {message}", err=True)
        if detail not in message:
            for line in detail.splitlines():
                click.echo(f"  {line}", err=True)
    return status


def _discard_output() -> None:
    """Discard buffered output that cannot be written, so that the exit does not write it."""
    with contextlib.suppress(OSError, ValueError):
        null_device = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null_device, sys.stdout.fileno())
        os.close(null_device)


_REASONS = {
    "Cc": "it has a control character",
    "Cs": "it is not UTF-8",
    "Zl": "it has a line separator",
    "Zp": "it has a paragraph separator",
}
"""Reason of a refusal by Unicode's category of the character."""
_HAS_PASSWORD = re.compile(r":.*@|password", re.IGNORECASE | re.DOTALL)
"""Form of a text that may hold a password, such as a database's URL; it is not shown."""


def refuse_odd_arguments(arguments: Sequence[str]) -> None:
    """Raise UsageError for the first argument that `refuse_odd_text` refuses.

    Of an argument `--OPTION=VALUE` only the value is looked at. The message names an option just
    before the argument, which shows most users the place at once.
    """
    previous = ""
    for number, argument in enumerate(arguments, 1):
        option, equals, value = argument.partition("=")
        if option.startswith("--") and equals:
            refuse_odd_text(option, value)
        else:
            is_option = previous.startswith("-") or previous.endswith("-")
            after_option = f" (after {previous})" if is_option else ""
            refuse_odd_text(f"argument {number}{after_option}", argument)
        previous = argument


def refuse_odd_text(where: str, text: str) -> None:
    """Raise UsageError for a text that is blank, not UTF-8, or has a control character.

    where  name of the text in the message, such as the option
    """
    if not text.strip():
        raise click.UsageError(f"{where} is empty: write a value, or omit it")
    if text.isprintable():  # most are, and this is the fastest check
        return
    from deepsea_rules.printable import quoted  # rarely needed

    for character in text:
        reason = _REASONS.get(unicodedata.category(character))
        if reason is not None:
            shown_text = "" if _HAS_PASSWORD.search(text) else f"{quoted(text)}: "
            raise click.UsageError(f"{where}: {shown_text}{reason}")
