"""Certificates that a client accepts: those that the system trusts, or the one that is pinned.

Invariants: nothing is sent before the certificate is accepted; a pinned ladder accepts that one
certificate and no other, under whatever name it is reached.
"""

from __future__ import annotations

import hashlib
import ssl

from deepsea_referee.errors import UserError


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


def fingerprint(certificate: str) -> str:
    """The SHA-256 of a certificate, in groups of four hex digits, for people to compare."""
    digits = hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate)).hexdigest()
    return " ".join(digits[start : start + 4] for start in range(0, len(digits), 4))


def same_fingerprint(one: str, other: str) -> bool:
    """True if two fingerprints are equal; spaces, colons and dashes do not count."""
    return _digits(one) == _digits(other)


def _digits(text: str) -> str:
    text = text.lower().removeprefix("sha256").removeprefix("sha-256")
    return "".join(c for c in text if c not in ": \t-")
