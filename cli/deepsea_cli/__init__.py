"""The command line `deepsea-referee`: the place where everything is put together.

A command is a module of this package, imported when it is called; what is heavy (grpc, rich) is
imported inside it, so that `--help` answers at once. Mistakes of the user cost one line on stderr
and exit status 2, a negative answer exits 1; errors.py is the only place that says so.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from deepsea_cli.errors import BAD_INPUT, ClosedPipe, Interrupted, exit_status
from deepsea_cli.lazy import LazyCommand, LazyGroup

PROGRAM = "deepsea-referee"
COMMANDS = {
    "match": "Let two to six bots play.",
    "compare": "Say which of two bots is stronger, as soon as that is sure.",
    "new": "Write a folder with a working bot and its test.",
    "check": "Put a bot through everything that happens in matches.",
    "debug": "Feed a recorded game to your bot and show what it does now.",
    "branch": "Play a recorded game on from one of its decisions.",
    "show": "Animate the game in RECORD; into a pipe, print it turn by turn.",
    "verify": "Play each RECORD again and compare commitment and result.",
    "explain": "Print what is legal in a position and what steps do to it.",
    "rules": "Print the options of the rules and where the presets differ.",
    "doctor": "Say whether the sandbox works here, and what is missing.",
    "ladder": "Rate bots on a ladder of rated games.",
}
"""The commands in the order of help, and what it says about each."""


class CommandLine(LazyGroup):
    """A click group whose commands are the attribute `command` of the modules of their names."""

    def invoke(self, ctx: click.Context) -> Any:
        # Caught here because click's own main() would print a blank line and change the status.
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted from None
        except BrokenPipeError:
            raise ClosedPipe from None

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        def run() -> object:
            _refuse_two_distributions()
            return super(CommandLine, self).main(
                args, PROGRAM, complete_var, standalone_mode=False, **extra
            )

        if args is None:  # a program, and not part of one
            _look_for_garbage_seldom()
        raise SystemExit(exit_status(run))


def _look_for_garbage_seldom() -> None:
    # Nearly all that is made is modules, which stay; and at the end the system takes everything
    # back at once, while looking through it takes longer than `--help`.
    gc.set_threshold(50_000)
    atexit.register(gc.freeze)


def _refuse_two_distributions() -> None:
    """Both ship deepsea_rules and deepsea_sdk: which copy is imported would be a matter of luck."""
    if all(map(_is_installed, ("deepsea_sdk", "deepsea_referee"))):
        raise click.UsageError(
            "deepsea-referee and deepsea-sdk are both installed here and ship the same packages; "
            "run `pip uninstall deepsea-sdk deepsea-referee`, then install deepsea-referee alone"
        )


def _is_installed(distribution: str) -> bool:
    """Looked up by hand: importlib.metadata takes half as long to import as click."""
    for folder in sys.path:
        try:
            with os.scandir(folder or os.curdir) as entries:
                names = [entry.name for entry in entries]
        except OSError:
            continue
        if any(n.startswith(f"{distribution}-") and n.endswith(".dist-info") for n in names):
            return True
    return False


def _print_version(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        from deepsea_sdk import __version__

        click.echo(f"{PROGRAM} {__version__}")
        ctx.exit()


@click.group(
    cls=CommandLine,
    entries={
        name: LazyCommand(f"{__name__}.{name}:command", line) for name, line in COMMANDS.items()
    },
    invoke_without_command=True,
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
@click.pass_context
def main(ctx: click.Context) -> None:
    """Plays Deep Sea Adventure between bots, shows the games and proves their results."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(BAD_INPUT)
