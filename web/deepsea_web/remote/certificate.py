"""The server's certificate: two files that are read again when they change.

Invariants: a handshake has a certificate and the key that belongs to it, of one moment; files that
cannot be used, such as a half of a new pair, leave the pair before in use, and the operator is told
once.
"""

from __future__ import annotations

import logging
import ssl
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple

import grpc

from deepsea_referee.errors import UserError

_log: Final = logging.getLogger(__name__)
_Seen = tuple[tuple[int, int, int] | None, ...]


class _Pair(NamedTuple):
    key: bytes
    chain: bytes
    context: ssl.SSLContext


class Certificate:
    """A pair of PEM files; threads may share one. Raises UserError if there is none at first."""

    def __init__(self, chain: Path, key: Path) -> None:
        self._chain = chain
        self._key = key
        self._lock = Lock()
        self._seen = self._look()
        self._pair = self._read()

    def context(self) -> ssl.SSLContext:
        """For a server of HTTP: each handshake has the pair as it is then."""
        outer = _context(self._chain, self._key)

        def choose(
            handshake: ssl.SSLSocket | ssl.SSLObject, name: str | None, context: ssl.SSLContext
        ) -> None:
            handshake.context = self._now().context

        outer.sni_callback = choose
        return outer

    def credentials(self) -> grpc.ServerCredentials:
        """The same for a server of gRPC."""
        first = self._now()

        def fetch() -> grpc.ServerCertificateConfiguration:
            return _configuration(self._now())

        return grpc.dynamic_ssl_server_credentials(_configuration(first), fetch)

    def _now(self) -> _Pair:
        with self._lock:
            seen = self._look()
            if seen != self._seen:
                self._seen = seen
                try:
                    self._pair = self._read()
                except UserError as error:
                    _log.warning("%s; the pair before stays in use", error)
            return self._pair

    def _read(self) -> _Pair:
        try:
            # One after the other: if they do not belong together, this raises.
            context = _context(self._chain, self._key)
            return _Pair(self._key.read_bytes(), self._chain.read_bytes(), context)
        except (OSError, ValueError) as error:
            words = getattr(error, "strerror", None) or error
            raise UserError(f"--tls-cert {self._chain} --tls-key {self._key}: {words}") from None

    def _look(self) -> _Seen:
        return tuple(map(_state, (self._chain, self._key)))


def _context(chain: Path, key: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    # Without a password: else it would be asked for on the terminal.
    context.load_cert_chain(chain, key, password=lambda: "")
    return context


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _configuration(pair: _Pair) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration([(pair.key, pair.chain)])
