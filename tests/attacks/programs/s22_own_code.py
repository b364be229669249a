"""S22: change one's own code, the libraries and their compiled files."""

from __future__ import annotations

import json
import os
from pathlib import Path

from attacks.guard import run, tried


def attack() -> dict[str, object]:
    library, own = Path(json.__file__), Path(__file__)
    return {
        "own_code": tried(own.write_text, ""),
        "own_folder": tried((own.parent / "new").touch),
        "own_removal": tried(own.unlink),
        "own_rename": tried(lambda: own.parent.rename(own.parent.parent / "other")),
        "library": tried(library.write_text, ""),
        "compiled": tried((library.parent / "__pycache__" / "x.pyc").touch),
        "mode": tried(lambda: os.chmod(own, 0o777)),
        "link": tried(lambda: os.link(own, "/tmp/link")),
    }


run(attack)
