"""Which certificates are accepted: those that the system trusts, or one that the user has pinned.

Invariants: nothing is sent before the certificate is accepted; a pinned ladder accepts that one
certificate and no other, under whatever name it is reached.
"""

from __future__ import annotations

import hashlib
import socket
import ssl
from typing import Any, Final

from deepsea_cli.remote.address import Address
from deepsea_cli.remote.errors import RemoteError, Unreachable
from deepsea_referee.errors import UserError

CONNECT_SECONDS: Final = 10


class UnknownCertificate(RemoteError):
    """The system does not trust the ladder's certificate; `why` says what is wrong with it."""

    def __init__(self, address: Address, why: str) -> None:
        super().__init__(
            f"the certificate of {address.url} is not trusted ({why}); if it is the ladder's own, "
            f"compare its fingerprint: `ladder login {address.url}`"
        )
        self.why = why


def context(pinned: str | None) -> ssl.SSLContext:
    """The settings of connections; `pinned` is a certificate as PEM."""
    if pinned is None:
        return ssl.create_default_context()
    try:
        settings = ssl.create_default_context(cadata=pinned)
    except (ssl.SSLError, ValueError):
        raise UserError("the pinned certificate is damaged: log in again") from None
    settings.check_hostname = False  # it is that one certificate, whatever it is called
    # A certificate that makes itself need not have all that those of an authority have.
    settings.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    settings.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return settings


def connect(address: Address, pinned: str | None) -> socket.socket:
    """A connection on which a token may be sent.

    Raises Unreachable, UnknownCertificate, or UserError if the certificate is not the pinned one.
    """
    plain = _plain(address)
    if not address.secure:
        return plain
    try:
        settings = context(pinned)
        secured = settings.wrap_socket(plain, server_hostname=address.host)
    except ssl.SSLCertVerificationError as error:
        plain.close()
        if pinned is not None:
            _refuse(address, pinned, error.verify_message)
        raise UnknownCertificate(address, error.verify_message) from None
    except OSError as error:
        plain.close()
        raise Unreachable(f"{address.url} does not speak TLS: {_reason(error)}") from None
    if pinned is not None and _der(pinned) != secured.getpeercert(binary_form=True):
        secured.close()
        _refuse(address, pinned, "another one of the same issuer")
    return secured


def certificate_name(connection: socket.socket) -> str | None:
    """A name or address that the accepted certificate of a connection is for, if it has one."""
    if not isinstance(connection, ssl.SSLSocket):
        return None
    found: dict[str, Any] = dict(connection.getpeercert() or {})
    return next((str(name) for _, name in found.get("subjectAltName", ())), None)


def offered_certificate(address: Address) -> str:
    """The certificate that a ladder shows, as PEM, whoever it is; nothing is sent to it."""
    settings = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    settings.check_hostname = False
    settings.verify_mode = ssl.CERT_NONE
    plain = _plain(address)
    try:
        with settings.wrap_socket(plain, server_hostname=address.host) as secured:
            found = secured.getpeercert(binary_form=True)
    except OSError as error:
        plain.close()
        raise Unreachable(f"{address.url} does not speak TLS: {_reason(error)}") from None
    if not found:
        raise Unreachable(f"{address.url} shows no certificate")
    return ssl.DER_cert_to_PEM_cert(found)


def fingerprint(certificate: str) -> str:
    """The SHA-256 of a certificate, in groups of four hex digits, for people to compare."""
    digits = hashlib.sha256(_der(certificate)).hexdigest()
    return " ".join(digits[start : start + 4] for start in range(0, len(digits), 4))


def same_fingerprint(one: str, other: str) -> bool:
    """Whether two fingerprints are the same, however they are grouped."""
    return _digits(one) == _digits(other)


def _digits(text: str) -> str:
    text = text.lower().removeprefix("sha256").removeprefix("sha-256")
    return "".join(c for c in text if c not in ": \t-")


def _der(certificate: str) -> bytes:
    return ssl.PEM_cert_to_DER_cert(certificate)


def _refuse(address: Address, pinned: str, why: str) -> None:
    """Refuse a certificate, and say what has changed."""
    offered = offered_certificate(address)
    if _der(offered) == _der(pinned):
        raise UserError(f"the certificate of {address.url} is not valid any more: {why}")
    raise UserError(
        f"{address.url} has another certificate than the one that was pinned: it is not sent your "
        f"token. Ask who runs it whether the fingerprint is now {fingerprint(offered)}; if so, "
        f"`ladder login {address.url}`"
    )


def _plain(address: Address) -> socket.socket:
    try:
        return socket.create_connection((address.host, address.port), CONNECT_SECONDS)
    except (OSError, UnicodeError) as error:
        raise Unreachable(f"nobody answers at {address.url}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {CONNECT_SECONDS} s"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
