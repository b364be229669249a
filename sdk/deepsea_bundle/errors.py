"""Errors of a bot's files.

    BundleError       a bot that is not accepted: bad input, its author can fix it
    BundleDamaged     files that were accepted once no longer match their digest

Every message is one line: what is wrong, where, what to do.
"""

from __future__ import annotations


class BundleError(Exception):
    """Raised for a bot that is not accepted; the message says why."""


class BundleDamaged(Exception):
    """Raised for stored files whose digest is no longer the one with which they were accepted."""
