"""Files that a command writes for its user.

Invariant: what is wrong with the place is found before there is any work; a file that is there
already is never changed.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from deepsea_referee.errors import UserError


def refuse_unwritable(option: str, path: Path) -> None:
    """Raise UserError if the option's file exists, or cannot be written."""
    if path.exists() or path.is_symlink():
        raise UserError(f"{option} {str(path)!r} exists: name another file, or remove it first")
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"{option}: cannot write to {str(path.parent)!r}: {reason}") from None
