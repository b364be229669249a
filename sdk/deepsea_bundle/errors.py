"""What can be wrong with a bot's files.

    BundleError       a bot that is not accepted: bad input, its author can fix it
    BundleDamaged     files that were accepted once are no longer those of their digest

Every message is one line: what is wrong, where, what to do.
"""

from __future__ import annotations


class BundleError(Exception):
    """A bot that is not accepted, and why."""


class BundleDamaged(Exception):
    """Stored files that have another digest than they had when they were accepted."""
