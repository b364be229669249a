"""Certificates of their own making, for servers on loopback."""

from __future__ import annotations

import ssl
import subprocess
from functools import cache
from pathlib import Path
from typing import NamedTuple

from helpers.tools import require


class Made(NamedTuple):
    """The files of a certificate."""

    certificate: Path
    key: Path

    def server(self) -> ssl.SSLContext:
        """The settings of a server that shows it."""
        settings = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        settings.load_cert_chain(self.certificate, self.key)
        return settings


@cache
def _validity(days: int) -> str:
    """Return the options for a time that ends in so many days, or that has ended."""
    if days > 0:
        return f"-days {days}"
    # OpenSSL 3.4 has other options for that, and refuses a number below 0.
    options = subprocess.run(["openssl", "x509", "-help"], capture_output=True, check=True).stderr
    if b"-not_after" in options:
        return "-not_before 20200101000000Z -not_after 20200102000000Z"
    return f"-days {days}"


def make(
    folder: Path,
    name: str = "own",
    *,
    days: int = 2,
    names: str = "IP:127.0.0.1",
    issuer: Made | None = None,
) -> Made:
    """A certificate that signs itself, or that another one has signed.

    days  of a negative number it has ended
    """
    require("openssl")
    made = Made(folder / f"{name}.crt", folder / f"{name}.key")
    wanted = folder / f"{name}.csr"
    request = (
        f"req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} "
        f"-addext subjectAltName={names} -addext basicConstraints=CA:TRUE "
        f"-keyout {made.key} -out {wanted}"
    )
    key = f"-signkey {made.key}"
    if issuer is not None:
        key = f"-CA {issuer.certificate} -CAkey {issuer.key} -set_serial 2"
    signed = (
        f"x509 -req -in {wanted} {key} -copy_extensions copyall {_validity(days)} "
        f"-out {made.certificate}"
    )
    for line in (request, signed):
        subprocess.run(["openssl", *line.split()], check=True, capture_output=True)
    return made
