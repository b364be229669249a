"""S10: print without end (here: 1 MiB) without a line end."""

from __future__ import annotations

import os

from attacks.guard import insist

insist()
for _ in range(16):
    os.write(1, b"flood" * 13_107)
