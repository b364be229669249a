"""`ladder serve`: the ladder in a browser and for programs, with the runner beside it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deepsea_cli.ladder.options import store_option
from deepsea_cli.options import needs_linux, workers_option
from deepsea_cli.output import echo
from deepsea_referee.errors import UserError

if TYPE_CHECKING:
    from deepsea_web.serve import Served


@click.command("serve")
@click.option(
    "--host",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on; beyond this machine only with TLS or behind a proxy.",
)
@click.option(
    "--port",
    metavar="N",
    type=click.IntRange(0, 65535),
    default=8080,
    show_default=True,
    help="The port; 0 is one of the system's choice.",
)
@click.option(
    "--public-url",
    metavar="URL",
    help="The address that readers use, such as https://host or https://host/prefix.",
)
@click.option(
    "--trusted-proxy",
    "trusted_proxies",
    metavar="ADDRESS",
    multiple=True,
    help="The address of a proxy in front of it; without TLS no other machine is answered.",
)
@click.option(
    "--tls-cert",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Certificate chain, as PEM.",
)
@click.option(
    "--tls-key",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Its private key, as PEM, without a password.",
)
@click.option("--private", is_flag=True, help="Visitors see the login and nothing else.")
@click.option("--no-run", is_flag=True, help="Serve only; another process runs the ladder.")
@workers_option(256, "Worker processes of the runner.")
@store_option
def serve(
    *,
    store_text: str,
    host: str,
    port: int,
    public_url: str | None,
    trusted_proxies: tuple[str, ...],
    tls_cert: Path | None,
    tls_key: Path | None,
    private: bool,
    no_run: bool,
    workers: int | None,
) -> None:
    """Serve the ladder until Ctrl-C: pages, submissions and the API; and play its games.

    The runner is a process of its own, which plays and checks bots as `ladder run --forever` does.
    """
    if no_run and workers is not None:
        raise UserError("--workers are those of the runner, and --no-run starts none")
    needs_linux("ladder serve")
    from deepsea_web.serve import ServeOptions, serve

    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    options = ServeOptions(
        host=host,
        port=port,
        public_url=public_url,
        trusted_proxies=trusted_proxies,
        tls_cert=tls_cert,
        tls_key=tls_key,
        private=private,
        workers=0 if no_run else workers or 1,
    )
    serve(store_text, options, _announce)


def _announce(served: Served) -> None:
    echo(f"the ladder is shown at {served.url}")
    if served.workers:
        workers = "1 worker" if served.workers == 1 else f"{served.workers} workers"
        echo(f"a runner with {workers} plays and checks bots")
