"""`ladder serve`: the ladder in a browser and for programs, with the runner beside it.

`make-cert` makes the certificate for a room without names; its key is never where others may read.
"""

from __future__ import annotations

import ipaddress
import logging
import re
import shlex
import shutil
import subprocess
import tempfile
from datetime import datetime
from pathlib import Path

import click

from deepsea_bundle.atomic import write_atomically
from deepsea_cli.ladder.options import refuse_if_elsewhere, store_option, until_option
from deepsea_cli.options import (
    number_option,
    path_option,
    prepare_machine,
    require_linux,
    workers_option,
)
from deepsea_cli.output import count, echo
from deepsea_referee.errors import UserError
from deepsea_rules.printable import quoted

CERTIFICATE = "cert.pem"
KEY = "key.pem"
LONGEST_DAYS = 3650
"""Days for which a certificate may be made."""
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_NAME = re.compile(rf"(?=.{{1,253}}\Z){_LABEL}(?:\.{_LABEL})*")


@click.command("serve")
@click.option(
    "--host",
    metavar="ADDRESS",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on; beyond this machine only with TLS or behind a proxy.",
)
@number_option(
    "--port", least=0, most=65535, default=8080, help="The port; with 0 the system chooses one."
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
    help="The address of a proxy in front of it; without TLS, only the proxy is answered.",
)
@path_option("--tls-cert", help="Certificate chain, as PEM.")
@path_option("--tls-key", help="Its private key, as PEM, without a password.")
@click.option(
    "--install",
    metavar="LINE",
    default="",
    help="The command that pages tell authors to install with.  [default: from the package index]",
)
@click.option("--private", is_flag=True, help="Visitors see the login and nothing else.")
@click.option("--no-run", is_flag=True, help="Serve only; another process runs the ladder.")
@until_option
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
    install: str,
    private: bool,
    no_run: bool,
    until: str | datetime | None,
    workers: int | None,
) -> None:
    """Serve the ladder until Ctrl-C: pages, submissions and the API; and play its games.

    The runner is a process of its own, which plays and checks bots as `ladder run --forever` does.
    With --until it waits then, until there is more to play.
    """
    if no_run and (workers is not None or until is not None):
        raise UserError("--workers and --until are those of the runner, and --no-run starts none")
    if no_run:
        require_linux("ladder serve")
    else:
        prepare_machine("ladder serve")
    refuse_if_elsewhere(store_text)
    from deepsea_web.serve import ServeOptions, serve

    logging.basicConfig(
        format="%(asctime)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S%z", level=logging.WARNING
    )
    options = ServeOptions(
        host=host,
        port=port,
        public_url=public_url,
        trusted_proxies=trusted_proxies,
        tls_cert=tls_cert,
        tls_key=tls_key,
        install=install,
        private=private,
        workers=0 if no_run else workers or 1,
        until=until.isoformat() if isinstance(until, datetime) else until,
    )

    def announce(url: str) -> None:
        echo(f"the ladder is shown at {url}")
        if options.workers:
            echo(f"a runner with {count(options.workers, 'worker')} plays and checks bots")

    serve(store_text, options, announce)


@click.command("make-cert")
@click.argument("folder", metavar="FOLDER", type=click.Path(path_type=Path, file_okay=False))
@click.option(
    "--host",
    "hosts",
    metavar="ADDRESS",
    multiple=True,
    required=True,
    help="A name or an IP address by which people reach it; give it once for each.",
)
@number_option("--days", most=LONGEST_DAYS, default=365, help="Days until it expires.")
def make_cert(*, folder: Path, hosts: tuple[str, ...], days: int) -> None:
    """Make a certificate for `ladder serve` in FOLDER, and print its fingerprint.

    Nobody vouches for it but you: whoever logs in compares the fingerprint.
    """
    from deepsea_arena.api.remote import fingerprint

    alternative_names = ",".join(map(_alternative_name, hosts))
    certificate_path, key_path = folder / CERTIFICATE, folder / KEY
    for path in (certificate_path, key_path):
        if path.exists():
            raise UserError(f"{path} is there already; name another folder")
    certificate_pem, key_pem = _make_certificate(alternative_names, days)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_atomically(key_path, key_pem, mode=0o600)
    write_atomically(certificate_path, certificate_pem)
    echo(f"{certificate_path} and {key_path}, for {', '.join(hosts)}, good for {days} days")
    echo(f"fingerprint: {fingerprint(certificate_pem)}")
    is_ipv6 = ":" in hosts[0]
    host_in_url = f"[{hosts[0]}]" if is_ipv6 else hosts[0]
    serve_command = ["deepsea-referee", "ladder", "serve", "--host", "0.0.0.0", "--port", "8443"]
    serve_command += ["--public-url", f"https://{host_in_url}:8443"]
    serve_command += ["--tls-cert", str(certificate_path), "--tls-key", str(key_path)]
    echo(shlex.join(serve_command))


def _alternative_name(host: str) -> str:
    """Return a host as OpenSSL wants it in `subjectAltName`: `IP:10.0.0.1` or `DNS:host`.

    Raises UserError if it is neither an IP address nor a host's name.
    """
    try:
        return f"IP:{ipaddress.ip_address(host)}"
    except ValueError:
        is_name = _NAME.fullmatch(host)
    if not is_name:
        raise UserError(f"--host {quoted(host)} is neither a name nor an IP address")
    return f"DNS:{host}"


def _make_certificate(names: str, days: int) -> tuple[str, str]:
    """Make a certificate for the alternative names by openssl, and return it with its key, as PEM.

    Both are made in a temporary folder, so that the key is never where others may read.
    """
    openssl = shutil.which("openssl")
    if openssl is None:
        raise UserError(
            "the program openssl makes certificates; install it: apt-get install openssl"
        )
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder, CERTIFICATE), Path(folder, KEY)
        process = subprocess.run(
            [
                *(openssl, "req", "-x509", "-newkey", "ec"),
                *("-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-sha256"),
                *("-subj", "/CN=deepsea-referee ladder", "-days", str(days)),
                *("-addext", f"subjectAltName={names}"),
                *("-keyout", str(key), "-out", str(certificate)),
            ],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if process.returncode:
            lines = process.stderr.strip().splitlines() or ["it says nothing"]
            raise UserError(f"openssl makes no certificate: {lines[-1]}")
        return certificate.read_text(encoding="ascii"), key.read_text(encoding="ascii")
