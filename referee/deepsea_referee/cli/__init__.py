"""The command line `deepsea-referee`: the place where everything is put together.

A command is a module of this package, imported when it is called; what is heavy (grpc, rich) is
imported inside it, so that `--help` answers at once. Mistakes of the user cost one line on stderr
and exit status 2, a negative answer exits 1; errors.py is the only place that says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from typing import Any

import click

from deepsea_referee.cli.errors import BAD_INPUT, ClosedPipe, Interrupted, exit_status
from deepsea_referee.cli.lazy import LazyGroup

PROGRAM = "deepsea-referee"
COMMANDS = (
    "match",
    "compare",
    "new",
    "check",
    "debug",
    "branch",
    "show",
    "verify",
    "explain",
    "rules",
    "doctor",
    "ladder",
)


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

        raise SystemExit(exit_status(run))


def _refuse_two_distributions() -> None:
    """Both ship deepsea_rules and deepsea_sdk: which copy is imported would be a matter of luck."""
    if _is_installed(PROGRAM) and _is_installed("deepsea-sdk"):
        raise click.UsageError(
            "deepsea-referee and deepsea-sdk are both installed here and ship the same packages; "
            "run `pip uninstall deepsea-sdk deepsea-referee`, then install deepsea-referee alone"
        )


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _print_version(ctx: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        from deepsea_sdk import __version__

        click.echo(f"{PROGRAM} {__version__}")
        ctx.exit()


@click.group(
    cls=CommandLine,
    modules={name: f"{__name__}.{name}:command" for name in COMMANDS},
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
