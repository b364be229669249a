"""`ladder serve`: the ladder in a browser."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from deepsea_cli.ladder.options import store_option
from deepsea_cli.output import echo


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
) -> None:
    """Serve the ladder's pages: standings, bots and games, read-only, until Ctrl-C.

    It starts no bot and writes nothing; games may be played meanwhile.
    """
    from deepsea_ladder.store import Store
    from deepsea_web.site.serve import ServeOptions, serve

    logging.basicConfig(format="%(message)s", level=logging.WARNING)
    options = ServeOptions(
        host=host,
        port=port,
        public_url=public_url,
        trusted_proxies=trusted_proxies,
        tls_cert=tls_cert,
        tls_key=tls_key,
    )
    with Store.open(store_text, read_only=True, public=True) as store:
        serve(store, options, lambda address: echo(f"the ladder is shown at {address}"))
