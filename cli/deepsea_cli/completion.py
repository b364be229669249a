"""`deepsea-referee completion`: the script by which a shell completes what is typed."""

from __future__ import annotations

import click

from deepsea_cli.lazy import PROGRAM


@click.command("completion")
@click.argument("shell", metavar="SHELL", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print what lets SHELL (bash, zsh or fish) complete commands, options, bots and files.

    Put this line into ~/.bashrc: eval "$(deepsea-referee completion bash)"
    """
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    variable = f"_{PROGRAM.replace('-', '_').upper()}_COMPLETE"
    click.echo(found(ctx.find_root().command, {}, PROGRAM, variable).source())
