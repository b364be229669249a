"""The command line `deepsea-referee`.

A command is a module of this package, imported when it is called; heavy libraries (grpc, rich) are
imported inside it, so that `--help` is fast. stdout has results only, progress goes to stderr.
errors.py alone maps errors to messages and exit statuses: 2 and one line on stderr for bad input, 1
for a negative answer.
"""

from __future__ import annotations

import atexit
import gc
import io
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from deepsea_cli.errors import ClosedPipe, Interrupted, exit_status, refuse_odd_arguments
from deepsea_cli.lazy import PROGRAM, LazyCommand, LazyGroup, add_examples

SECTIONS = {
    "Your bot": {
        "new": "Write a folder with a working bot and its test.",
        "check": "Test a bot for everything that happens in matches.",
        "match": "Play games between two to six bots.",
        "show": "Animate the game in RECORD; into a pipe, print it turn by turn.",
        "improve": "Find what a bot does worst, and whether it became stronger.",
        "compare": "Find out which of two bots is stronger.",
        "debug": "Replay a recorded game to your bot and show its decisions now.",
        "ladder": "Rate bots on a ladder of rated games.",
    },
    "More about bots and games": {
        "play": "Play against bots in the terminal.",
        "tune": "Find better numbers for the class attributes of a bot.",
        "rank": "Put many bots in order, as far as it can be known.",
        "analyse": "Judge the decisions of recorded games, and mark those that lost something.",
        "branch": "Continue a recorded game from one of its decisions.",
        "verify": "Re-run each RECORD and compare commitment and result.",
    },
    "Rules and this machine": {
        "explain": "Print the legal actions of a position, and apply steps to it.",
        "rules": "Print the options of the rules and where the presets differ.",
        "doctor": "Check whether the sandbox works here.",
        "completion": "Print what lets a shell complete commands, options and bots.",
    },
}
"""The commands in the order of help by section, with their short help."""

OTHER_PLACES = {
    "new": "check:new",
    "doctor": "check:doctor",
    "debug": "branch:debug",
    "rank": "compare:rank",
    "tune": "compare:tune",
    "explain": "rules:explain",
    "completion": "lazy:completion",
}
"""MODULE:ATTRIBUTE of the commands that are not `command` in a module of the command's name."""

COMMANDS = {
    name: LazyCommand(f"{__name__}.{OTHER_PLACES.get(name, f'{name}:command')}", line, section)
    for section, commands in SECTIONS.items()
    for name, line in commands.items()
}


class CommandLine(LazyGroup):
    """The program itself, as a group of click with its own errors and exit statuses."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, and raise the program's own errors for Ctrl-C and a closed pipe.

        With Python's own errors, click would print a blank line and exit with another status.
        """
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted from None
        except BrokenPipeError:
            raise ClosedPipe from None

    def main(self, args: Sequence[str] | None = None, *_: Any, **extra: Any) -> Any:
        """Run the program with the arguments of this process, or with `args`, and exit.

        A program such as a test passes `args`, and its process stays as it is.
        """
        owns_process = args is None
        if owns_process:
            _write_utf8_and_plain_lines()
            _collect_garbage_seldom()
        # With standalone_mode, click itself would print errors and choose the exit status.
        extra |= {"prog_name": PROGRAM, "standalone_mode": False}
        status = exit_status(partial(super().main, args, **extra))
        if owns_process:
            _end_threads_of_bots(status)
        raise SystemExit(status)

    def make_context(self, info_name: str | None, args: list[str], *rest: Any, **extra: Any) -> Any:
        """Refuse odd arguments before click interprets any of them."""
        refuse_odd_arguments(args)
        return super().make_context(info_name, args, *rest, **extra)


def _end_threads_of_bots(status: int) -> None:
    """End the process with this exit status if threads of bots would keep it from exiting."""
    # Only a command that loaded bots into this process has imported the module.
    loading = sys.modules.get("deepsea_referee.bots.loading")
    if loading is not None:
        loading.end_process(status)


def _collect_garbage_seldom() -> None:
    """Let Python collect garbage rarely, and not at all at the exit."""
    # Nearly all objects are modules, which stay; and at exit the system frees all memory at once,
    # while a collection takes longer than `--help`.
    gc.set_threshold(50_000)
    atexit.register(gc.freeze)


def _write_utf8_and_plain_lines() -> None:
    """Write UTF-8 and plain line ends into files and pipes on all systems, so on Windows too."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.isatty():
            stream.reconfigure(encoding="utf-8", newline="\n")


def _print_version(ctx: click.Context, _option: click.Parameter, is_given: bool) -> None:
    """Print the version and exit, if --version is given; a callback of click."""
    if is_given:
        from deepsea_sdk import __version__

        click.echo(f"{PROGRAM} {__version__}")
        ctx.exit()


@click.group(
    cls=CommandLine,
    entries=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit status: 0 done, 1 a negative answer, 2 bad input, 130 interrupted. "
    "NO_COLOR switches colours off, COLUMNS sets the width.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version and exit.",
)
def main() -> None:
    """Play Deep Sea Adventure between bots, show the games and verify their results."""


add_examples(main, "")
