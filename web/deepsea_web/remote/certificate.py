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
from typing import Final

from deepsea_referee.errors import UserError

_log: Final = logging.getLogger(__name__)
_Seen = tuple[tuple[int, int, int] | None, ...]


class Certificate:
    """A pair of PEM files; threads may share one. Raises UserError if there is none at first."""

    def __init__(self, chain: Path, key: Path) -> None:
        self._chain = chain
        self._key = key
        self._lock = Lock()
        self._seen = self._look()
        self._context = self._read()

    def context(self) -> ssl.SSLContext:
        """The settings of a server: each handshake has the pair as it is then."""
        outer = _context(self._chain, self._key)

        def choose(
            handshake: ssl.SSLSocket | ssl.SSLObject, name: str | None, context: ssl.SSLContext
        ) -> None:
            handshake.context = self._now()

        outer.sni_callback = choose
        return outer

    def _now(self) -> ssl.SSLContext:
        with self._lock:
            seen = self._look()
            if seen != self._seen:
                self._seen = seen
                try:
                    self._context = self._read()
                except UserError as error:
                    _log.warning("%s; the pair before stays in use", error)
            return self._context

    def _read(self) -> ssl.SSLContext:
        try:
            return _context(self._chain, self._key)
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
